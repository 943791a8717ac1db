"""What a ranking loss compares the student's scores with."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Target(NamedTuple):
    """The teacher's view of some lists, padded to the longest one.

    Args:
        scores: float32 [lists, documents], the teacher's scores, higher is better.
        mask: bool [lists, documents], True for real documents.
        weights: float32 [lists, documents, documents] or None: the weight of the pair (i, j); 0 takes the
            pair out, as for two documents of equal text.
    """

    scores: torch.Tensor
    mask: torch.Tensor
    weights: torch.Tensor | None = None


def ordered_pairs(target: Target) -> torch.Tensor:
    """Return float32 [lists, documents, documents]: the weight of (i, j), 0 unless i is the better."""
    better = target.scores[:, :, None] > target.scores[:, None, :]
    real = target.mask[:, :, None] & target.mask[:, None, :]
    pairs = (better & real).float()
    return pairs if target.weights is None else pairs * target.weights
