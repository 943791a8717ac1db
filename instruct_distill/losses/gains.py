"""What a document in its place is worth to nDCG, from a teacher's score of any scale."""

from __future__ import annotations

from typing import Literal

import torch

from instruct_distill.losses.target import Target

Gain = Literal["linear", "exponential"]
"""The names of the gains; losses repeat them in their signatures, where the recipe's check reads them."""


def gains(target: Target, gain: Gain, like: torch.Tensor) -> torch.Tensor:
    """Return [lists, documents] between 0 (the list's worst document, and padding) and 1 (its best).

    ``linear`` is the score above the list's lowest one t₀, as in trec_eval; ``exponential`` is 2^(t − t₀) − 1
    (Burges et al. 2005). Both are divided by the best one: nDCG does not change by that, and scores that are
    sums over many comparisons, or logits below 0, neither overflow nor turn round.

    Args:
        target: the teacher's scores.
        gain: ``linear`` or ``exponential``.
        like: gives the number format.
    """
    scores = target.scores.to(like.dtype)
    low = scores.masked_fill(~target.mask, torch.inf).amin(dim=1, keepdim=True)
    high = scores.masked_fill(~target.mask, -torch.inf).amax(dim=1, keepdim=True)
    if gain == "linear":
        value, best = scores - low, high - low
    else:  # both sides divided by 2^(high − low), which may be too large
        lowest = torch.exp2(low - high)
        value, best = torch.exp2(scores - high) - lowest, 1.0 - lowest
    return (value / torch.where(high > low, best, torch.ones_like(best))).masked_fill(
        ~target.mask | (high <= low), 0.0
    )


def discounts(ranks: torch.Tensor) -> torch.Tensor:
    """Return log₂(1 + rank): what a gain is divided by; rank 1 is the best."""
    return torch.log2(1.0 + ranks)


def ideal_dcg(gains: torch.Tensor) -> torch.Tensor:
    """Return [lists, 1]: Σ gain / discount in the best order; 1 where every gain is 0, to divide by."""
    best_first = gains.sort(dim=1, descending=True).values
    positions = torch.arange(1, gains.shape[1] + 1, dtype=gains.dtype, device=gains.device)
    total = (best_first / discounts(positions)).sum(dim=1, keepdim=True)
    return torch.where(total > 0, total, torch.ones_like(total))
