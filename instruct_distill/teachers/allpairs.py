"""Pairwise ranking prompting over all ordered pairs: the paper's teacher.

arXiv 2311.01555, section 3.2 (after PRP-Allpair, arXiv 2306.17563).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import permutations

from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.records import Comparison, Document, ListLabel, Query
from instruct_distill.teachers.strategy import Steps, Strategy


def choice(margin: float) -> float:
    """Return c: 1 if the document shown first wins, 0 if the second does, 0.5 for a tie."""
    return 1.0 if margin > 0 else 0.0 if margin < 0 else 0.5


def aggregate(candidates: int, comparisons: Iterable[Comparison]) -> list[float]:
    """Return s_i = Σ_{j≠i} c(i,j) + (1 − c(j,i)): from 0 to 2(n−1), and 2·n·(n−1)/2 in all."""
    scores = [0.0] * candidates
    for first, second, margin in comparisons:
        won = choice(margin)
        scores[first] += won
        scores[second] += 1.0 - won
    return scores


def compared(
    query: Query, documents: Sequence[Document], pairs: Sequence[tuple[int, int]]
) -> Generator[list[Question], FloatArray, tuple[Comparison, ...]]:
    """Ask about ordered pairs of documents in one round, and return the comparisons with their margins."""
    answers = yield [Question(query, (documents[i], documents[j])) for i, j in pairs]
    return tuple(
        Comparison(i, j, float(logits[0] - logits[1])) for (i, j), logits in zip(pairs, answers, strict=True)
    )


class AllPairs(Strategy):
    """Asks every pair in both orders: n(n−1) prompts for n candidates."""

    asks = "answer_logits"
    documents = 2
    default_prompt = "pairwise-passage"

    def prompts(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        return candidates * (candidates - 1)

    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """See :class:`Strategy`; the margin of each ordered pair is kept."""
        pairs = list(permutations(range(len(documents)), 2))
        comparisons = yield from compared(query, documents, pairs)
        return ListLabel(
            query.query_id,
            tuple(document.doc_id for document in documents),
            tuple(aggregate(len(documents), comparisons)),
            comparisons,
        )


STRATEGY = AllPairs
