"""What labels say about their teacher: ties, position bias, and how often the two orders disagree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

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
    """

    lists: int
    informative: int
    documents: int
    comparisons: int
    undecided: int
    inconsistent: float | None
    position_bias: float | None
    position_bias_spread: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def label_statistics(labels: Iterable[ListLabel]) -> LabelStatistics:
    """Count over labels, one list at a time."""
    lists = informative = documents = comparisons = undecided = pairs = flips = 0
    biases: list[float] = []
    for label in labels:
        lists += 1
        informative += len(set(label.scores)) > 1
        documents += len(label.doc_ids)
        comparisons += len(label.comparisons)
        undecided += sum(c.margin == 0 for c in label.comparisons)
        margins = {(c.first, c.second): c.margin for c in label.comparisons}
        for (i, j), margin in margins.items():
            if i < j and (j, i) in margins:
                back = margins[(j, i)]
                pairs += 1
                flips += margin * back > 0
                biases.append((margin + back) / 2)
    return LabelStatistics(
        lists,
        informative,
        documents,
        comparisons,
        undecided,
        flips / pairs if pairs else None,
        fmean(biases) if biases else None,
        pstdev(biases) if biases else None,
    )
