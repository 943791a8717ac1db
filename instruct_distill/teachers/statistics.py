"""What labels say about their teacher: ties, position bias, and how far it agrees with itself and others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from instruct_distill.records import ListLabel


@dataclass(frozen=True)
class LabelStatistics:
    """Counts over a label file.

    Args:
        lists: labelled queries, lists with 0 or 1 candidates included.
        informative: lists in which at least two documents have different scores.
        documents: candidates in all lists.
        comparisons: pairwise questions asked.
        undecided: comparisons with a margin of exactly 0.
        inconsistent: share of pairs asked in both orders whose two answers name different documents.
        position_bias: mean over these pairs of (margin(i,j) + margin(j,i)) / 2, in logits: above 0 the
            document shown first is favoured.
        position_bias_spread: standard deviation of the same.
        first_stage_agreement: mean Kendall τ-b of the teacher's order and the candidates', over the
            informative lists.
    """

    lists: int
    informative: int
    documents: int
    comparisons: int
    undecided: int
    inconsistent: float | None
    position_bias: float | None
    position_bias_spread: float | None
    first_stage_agreement: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


class _Moments:
    """Mean and standard deviation of numbers that are not kept (Welford's method)."""

    def __init__(self) -> None:
        self.count, self._mean, self._squares = 0, 0.0, 0.0

    def add(self, value: float) -> None:
        self.count += 1
        before = value - self._mean
        self._mean += before / self.count
        self._squares += before * (value - self._mean)

    @property
    def mean(self) -> float | None:
        return self._mean if self.count else None

    @property
    def spread(self) -> float | None:
        return math.sqrt(self._squares / self.count) if self.count else None


def label_statistics(labels: Iterable[ListLabel]) -> LabelStatistics:
    """Count over labels, one list at a time; none is kept."""
    lists = informative = documents = comparisons = undecided = flips = 0
    bias, agreement = _Moments(), _Moments()
    for label in labels:
        lists += 1
        documents += len(label.doc_ids)
        comparisons += len(label.comparisons)
        undecided += sum(c.margin == 0 for c in label.comparisons)
        tau = kendall(label.scores, range(len(label.scores), 0, -1))
        if tau is not None:
            informative += 1
            agreement.add(tau)
        margins = {(c.first, c.second): c.margin for c in label.comparisons}
        for (i, j), margin in margins.items():
            if i < j and (j, i) in margins:
                back = margins[(j, i)]
                flips += margin * back > 0
                bias.add((margin + back) / 2)
    return LabelStatistics(
        lists,
        informative,
        documents,
        comparisons,
        undecided,
        flips / bias.count if bias.count else None,
        bias.mean,
        bias.spread,
        agreement.mean,
    )


def kendall(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Kendall τ-b of two scorings of the same documents; None where one of them is all ties."""
    first, second = (np.sign(np.subtract.outer(scores, scores)) for scores in (one, other))
    untied = float(np.abs(first).sum() * np.abs(second).sum())
    return float((first * second).sum()) / math.sqrt(untied) if untied else None
