"""What the sorts of pairwise ranking prompting share: a comparison is two prompts, and is asked once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from typing import Any

from instruct_distill.inference.engine import Question
from instruct_distill.records import Comparison, Document, ListLabel, Query
from instruct_distill.teachers.allpairs import choice
from instruct_distill.teachers.ranking_scores import ranking_scores
from instruct_distill.teachers.sorting import Asking, Best
from instruct_distill.teachers.strategy import Steps, Strategy


class PairwiseSort(Strategy):
    """Sorts the best of a list by comparisons, each asked in both orders.

    A document wins a comparison if it has the greater part of the two choices: both, or one while the other
    is undecided. Else (each order names another document, or none) it is a tie, and the document that the
    first stage put first goes first. For scores see
    :func:`~instruct_distill.teachers.ranking_scores.ranking_scores`: 1 / rank, equal for documents that only
    the first stage keeps apart, and one score below for all that are not among the best.
    """

    asks = "answer_logits"
    documents = 2
    default_prompt = "pairwise-passage"

    @abstractmethod
    def comparisons(self, candidates: int) -> int:
        """Return the number of comparisons for a list of that many candidates, at most."""

    @abstractmethod
    def rounds(self, candidates: int) -> int:
        """See :class:`Strategy`."""

    @abstractmethod
    def sort(self, candidates: int, best: Best) -> Generator[list[Question], Any, list[int]]:
        """Return the best of so many candidates, best first."""

    def prompts(self, candidates: int) -> int:
        """See :class:`Strategy`; no pair is asked twice."""
        return min(2 * self.comparisons(candidates), candidates * (candidates - 1))

    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """See :class:`Strategy`; the margins of both orders of each comparison are kept."""
        margins: dict[tuple[int, int], float] = {}
        wins: set[tuple[int, int]] = set()

        def better(i: int, j: int) -> Asking:
            if (i, j) not in margins:
                pairs = [(i, j), (j, i)]
                answers = yield [Question(query, (documents[a], documents[b])) for a, b in pairs]
                for pair, logits in zip(pairs, answers, strict=True):
                    margins[pair] = float(logits[0] - logits[1])
                won = choice(margins[i, j]) + 1.0 - choice(margins[j, i])
                if won != 1.0:
                    wins.add((i, j) if won > 1.0 else (j, i))
            return i if (i, j) in wins else j if (j, i) in wins else min(i, j)

        def best(items: list[int]) -> Asking:
            found = items[-1]
            for item in reversed(items[:-1]):
                found = yield from better(item, found)
            return found

        n = len(documents)
        top = yield from self.sort(n, best)
        return ListLabel(
            query.query_id,
            tuple(document.doc_id for document in documents),
            ranking_scores(top, n, wins),
            tuple(Comparison(i, j, margin) for (i, j), margin in margins.items()),
        )
