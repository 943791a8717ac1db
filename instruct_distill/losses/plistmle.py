"""Position-aware ListMLE: the likelihood of the teacher's order, the top counting more."""

from __future__ import annotations

from typing import Literal

import torch

from instruct_distill.losses.gains import discounts
from instruct_distill.losses.listmle import negative_log_likelihoods
from instruct_distill.losses.target import Target, ordered_pairs, student_scores, where_informative


def loss(
    scores: torch.Tensor, target: Target, *, position: Literal["exponential", "logarithmic"] = "exponential"
) -> torch.Tensor:
    """Return the mean of ListMLE's terms over a list's documents, weighted by the teacher's rank.

    Lan et al., "Position-aware ListMLE: a sequential learning process for ranking" (UAI 2014), with
    weights α(r) = 2^(n−r) − 1 for rank r of n; the sum is divided by Σα here, as it would overflow.

    Args:
        scores: [lists, documents], the student's logits; any float format, computed in float32 or better.
        target: the teacher's scores and mask. Ties: equals share a rank and do not compete (see ``listmle``).
            A pair weight of 0 also takes j out of the sum of i; other pair weights are not used.
        position: ``exponential``: the paper's α, of which the first few ranks have nearly all;
            ``logarithmic``: 1 / log₂(1 + r), the discount of nDCG.

    Returns:
        [lists], a list in which the teacher prefers nothing gives exactly 0, with a gradient of 0.

    When to use:
        As ``listmle``, where only the top of the list counts; logarithmic for long lists.

    Example:
        >>> import torch
        >>> from instruct_distill.losses.target import Target
        >>> target = Target(torch.tensor([[2.0, 1.0]]), torch.tensor([[True, True]]))
        >>> loss(torch.tensor([[1.5, 0.3]]), target)
        tensor([0.2633])
    """
    scores = student_scores(scores, target)
    pairs = ordered_pairs(target)
    ranks = target.ranks().to(scores.dtype)
    if position == "exponential":  # α / 2^n
        last = target.mask.sum(dim=1, keepdim=True).to(scores.dtype)
        alpha = torch.exp2(-ranks) - torch.exp2(-last)
    else:
        alpha = 1.0 / discounts(ranks)
    alpha = alpha.masked_fill(~target.mask, 0.0)
    total = alpha.sum(dim=1)
    terms = negative_log_likelihoods(scores, pairs).masked_fill(~target.mask, 0.0)
    per_list = (alpha * terms).sum(dim=1) / torch.where(total > 0, total, torch.ones_like(total))
    return where_informative(per_list, pairs)
