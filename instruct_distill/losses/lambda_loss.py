"""LambdaLoss: pairs weighted by what they mean to nDCG (or to the average relevance position)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import PositiveFloat
from torch.nn.functional import softplus

from instruct_distill.losses.gains import discounts, gains, ideal_dcg
from instruct_distill.losses.target import (
    Target,
    ordered_pairs,
    real_pairs,
    student_scores,
    where_informative,
)


def loss(
    scores: torch.Tensor,
    target: Target,
    *,
    scheme: Literal["ndcg1", "ndcg2", "ndcg2++", "lambdarank", "arp1", "arp2"] = "ndcg2++",
    gain: Literal["linear", "exponential"] = "linear",
    sigma: PositiveFloat = 1.0,
    mu: PositiveFloat = 10.0,
) -> torch.Tensor:
    """Return the mean over a list's pairs of w_ij · log₂(1 + exp(−σ(s_i − s_j))), w from the scheme.

    Wang et al., "The LambdaLoss framework for ranking metric optimization" (CIKM 2018), NDCG-Loss1, 2 and 2++
    and ARP-Loss1 and 2, whose sum over pairs is a mean here. With G the gain divided by the ideal DCG,
    D = log₂(1 + rank) and ranks by the student's scores, w_ij is:

    - ``ndcg1``: G_i / D_i, over all pairs
    - ``ndcg2``: |1/D(|i−j|) − 1/D(|i−j|+1)| · |G_i − G_j|, over the teacher's ordered pairs, as are the next
    - ``lambdarank``: |1/D_i − 1/D_j| · |G_i − G_j|
    - ``ndcg2++``: lambdarank + μ · ndcg2
    - ``arp1``: the gain of i, over all pairs; ``arp2``: the difference of the gains, over the ordered pairs

    Args:
        scores: [lists, documents], the student's logits; any float format, computed in float32 or better.
        target: the teacher's scores and mask. Documents whose student scores are equal are ranked with the
            teacher's better one first, so that a student that scores all alike has something to learn; those
            that are equal in both share the mean of their ranks: the documents' order does not matter.
        scheme: the weights of the pairs.
        gain: ``linear`` or ``exponential``, both from the list's lowest score on (see ``gains``).
        sigma: the steepness σ.
        mu: the weight of ndcg2 within ndcg2++.

    Returns:
        [lists], a list without an ordered pair gives exactly 0, with a gradient of 0.

    When to use:
        nDCG@10 is what counts and lists are long: the top is learned first. The paper's best is ndcg2++.

    Example:
        >>> import torch
        >>> from instruct_distill.losses.target import Target
        >>> target = Target(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, True]]))
        >>> loss(torch.tensor([[0.0, 0.0]]), target, scheme="lambdarank")
        tensor([0.3691])
    """
    scores = student_scores(scores, target)
    ordered = ordered_pairs(target)
    over_all = scheme in ("ndcg1", "arp1")
    pairs = real_pairs(target) if over_all else ordered
    gained = gains(target, gain, scores)
    if not scheme.startswith("arp"):
        gained = gained / ideal_dcg(gained)
    ranks = _ranks(scores.detach(), target)
    values = softplus(-sigma * (scores[:, :, None] - scores[:, None, :])) / math.log(2.0)
    weights = pairs.to(scores.dtype) * _weights(scheme, gained, ranks, mu)
    count = pairs.sum(dim=(1, 2)).clamp(min=torch.finfo(pairs.dtype).tiny)
    return where_informative((values * weights).sum(dim=(1, 2)) / count, ordered)


def _weights(scheme: str, gained: torch.Tensor, ranks: torch.Tensor, mu: float) -> torch.Tensor:
    """Return w, [lists, documents, documents]."""
    if scheme in ("ndcg1", "arp1"):
        each = gained / discounts(ranks) if scheme == "ndcg1" else gained
        return each[:, :, None].expand(-1, -1, each.shape[1])
    difference = (gained[:, :, None] - gained[:, None, :]).abs()
    if scheme == "arp2":
        return difference
    inverse = 1.0 / discounts(ranks)
    swapped = (inverse[:, :, None] - inverse[:, None, :]).abs()
    # 0 apart are only documents that are equal to the teacher too, whose gains do not differ
    apart = (ranks[:, :, None] - ranks[:, None, :]).abs().clamp(min=1.0)
    bound = 1.0 / discounts(apart) - 1.0 / discounts(apart + 1.0)
    factor = {"lambdarank": swapped, "ndcg2": bound, "ndcg2++": swapped + mu * bound}[scheme]
    return factor * difference


def _ranks(scores: torch.Tensor, target: Target) -> torch.Tensor:
    """Return the student's ranks [lists, documents] in the scores' format; padding is behind everything."""
    higher = scores[:, None, :] > scores[:, :, None]
    equal = scores[:, None, :] == scores[:, :, None]
    better = target.scores[:, None, :] > target.scores[:, :, None]
    same = target.scores[:, None, :] == target.scores[:, :, None]
    real = target.mask[:, None, :]
    before = ((higher | (equal & better)) & real).sum(dim=2)
    sharing = (equal & same & real).sum(dim=2).clamp(min=1)
    return 1.0 + before.to(scores.dtype) + (sharing - 1).to(scores.dtype) / 2.0
