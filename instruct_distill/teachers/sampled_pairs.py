"""Pairwise ranking prompting over a sample of the pairs: the budget is chosen, the rest is inferred."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from instruct_distill.records import Comparison, Document, ListLabel, Query
from instruct_distill.schema import parameters
from instruct_distill.teachers.allpairs import choice, compared
from instruct_distill.teachers.bradley_terry import strengths
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context, Steps, Strategy


@parameters
class Parameters:
    """What the strategy is told in a recipe: one of ``pairs_per_document`` and ``share``."""

    pairs_per_document: float | None = Field(default=None, gt=0)
    """Pairs that a document is in, on average; a pair is two prompts, so n documents cost n times this."""
    share: float | None = Field(default=None, gt=0, le=1)
    """Share of the n(n−1)/2 pairs."""
    scores: Literal["bradley_terry", "win_rate"] = "bradley_terry"
    """How pairs that were not asked are made up for: by the strength of opponents, or not at all."""
    margins: bool = False
    """Count a comparison as the probability σ(margin) in place of a win, a loss or half of each."""

    @model_validator(mode="after")
    def _one_budget(self) -> Parameters:
        if (self.pairs_per_document is None) == (self.share is None):
            raise ValueError("give one of pairs_per_document (such as 8) and share (such as 0.25)")
        return self


class SampledPairs(Strategy):
    """Asks some pairs in both orders.

    The sample is a function of the seed, the query's id and the number of documents. At least n − 1 pairs are
    asked and they connect all documents. Documents whose comparisons are alike have the same score; ties are
    half a win for each. ``bradley_terry`` scores are log-odds around 0. ``win_rate`` is the share of wins
    times 2(n−1): of all pairs, the scores of ``allpairs``.
    """

    asks = "answer_logits"
    documents = 2
    default_prompt = "pairwise-passage"

    def __init__(self, parameters: TeacherParameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._chosen = parameters.strategy_section(Parameters)

    def settings(self) -> dict[str, Any]:
        """See :class:`Strategy`."""
        return super().settings() | {"seed": self.context.seed}

    def pairs(self, candidates: int) -> int:
        """Return the number of pairs that are asked of a list."""
        every = candidates * (candidates - 1) // 2
        if self._chosen.share is not None:
            wanted = self._chosen.share * every
        else:
            wanted = (self._chosen.pairs_per_document or 0.0) * candidates / 2
        return max(0, min(every, max(candidates - 1, math.ceil(wanted - 1e-9))))

    def prompts(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        return 2 * self.pairs(candidates)

    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """See :class:`Strategy`; the margin of each ordered pair is kept."""
        n = len(documents)
        sample = sample_pairs(n, self.pairs(n), self.context.seed, query.query_id)
        pairs = sorted([*sample, *((j, i) for i, j in sample)])
        comparisons = yield from compared(query, documents, pairs)
        return ListLabel(
            query.query_id,
            tuple(document.doc_id for document in documents),
            self._scores(n, comparisons),
            comparisons,
        )

    def _scores(self, n: int, comparisons: Sequence[Comparison]) -> tuple[float, ...]:
        wins = np.zeros((n, n))
        for first, second, margin in comparisons:
            won = 0.5 * (1.0 + math.tanh(0.5 * margin)) if self._chosen.margins else choice(margin)
            wins[first, second] += won
            wins[second, first] += 1.0 - won
        if self._chosen.scores == "bradley_terry":
            return tuple(strengths(wins).tolist())
        rates = wins.sum(axis=1) / np.maximum((wins + wins.T).sum(axis=1), 1.0)
        return tuple(np.round(rates * 2 * (n - 1), 6).tolist())


def sample_pairs(n: int, count: int, seed: int, query_id: str) -> list[tuple[int, int]]:
    """Draw pairs so that all documents are connected and in equally many pairs, as far as that goes.

    The documents stand in a circle, in random order. Each is paired with its neighbour, then with the one
    some other distance away, distances drawn at random, until there are enough.

    Args:
        n: the number of documents.
        count: the number of pairs, from n − 1 to n(n−1)/2.
        seed: what is drawn from,
        query_id: together with the query.

    Returns:
        pairs (i, j) with i < j, in the order in which they were drawn.
    """
    if n < 2:
        return []
    generator = np.random.default_rng([seed, zlib.crc32(query_id.encode("utf-8"))])
    circle = generator.permutation(n).tolist()
    distances = [1, *(generator.permutation(n // 2 - 1) + 2).tolist()] if n > 3 else [1]
    found: list[tuple[int, int]] = []
    for distance in distances:
        # opposite documents meet once, not once from each side
        for start in range(n // 2 if 2 * distance == n else n):
            if len(found) == count:
                return found
            i, j = circle[start], circle[(start + distance) % n]
            found.append((min(i, j), max(i, j)))
    return found


STRATEGY = SampledPairs
