"""RankNet: the probability that the student orders a pair as the teacher does, maximised."""

from __future__ import annotations

from typing import Literal

import torch
from torch.nn.functional import softplus

from instruct_distill.losses.target import (
    Target,
    mean_over_pairs,
    ordered_pairs,
    probable_pairs,
    student_scores,
    teacher_scores,
    where_informative,
)


def loss(
    scores: torch.Tensor,
    target: Target,
    *,
    targets: Literal["hard", "soft"] = "hard",
    weights: Literal["equal", "margin", "rank"] = "equal",
) -> torch.Tensor:
    """Return the mean over a list's ordered pairs of log(1 + exp(s_j − s_i)), i the teacher's better one.

    Burges et al., "Learning to rank using gradient descent" (2005), equation (3): the binary cross-entropy of
    σ(s_i − s_j) against the target probability, which is 1 for hard targets; arXiv 2311.01555, section 3.3,
    prints the sign the other way round. The weights by rank are those of FIRST, arXiv 2406.15657.

    Args:
        scores: [lists, documents], the student's logits; any float format, computed in float32 or better.
        target: the teacher's scores and mask, equal scores make no pair; its pair probabilities for soft
            targets, where pairs that were not compared take no part.
        targets: ``hard``: the teacher's order; ``soft``: p(i≻j)·log(1 + exp(s_j − s_i)) + p(j≻i)·log(1 +
            exp(s_i − s_j)), p the teacher's probability from its comparisons.
        weights: of the pairs in the mean. ``equal``; ``margin``: the difference of the teacher's scores (of
            p(i≻j) and p(j≻i) for soft targets); ``rank``: 1 / (r_i + r_j), r the teacher's rank (1 is best).

    Returns:
        [lists], a list without an ordered pair (soft: every p is ½) gives exactly 0, with a gradient of 0.

    When to use:
        The default: hard targets need only the teacher's order. Soft targets where the teacher compared in
        pairs and is often unsure or depends on the order shown; weights by rank where only the top counts.

    Example:
        >>> import torch
        >>> from instruct_distill.losses.target import Target
        >>> target = Target(torch.tensor([[2.0, 1.0]]), torch.tensor([[True, True]]))
        >>> loss(torch.tensor([[1.5, 0.3]]), target)
        tensor([0.2633])
    """
    scores = student_scores(scores, target)
    pairs = (ordered_pairs(target) if targets == "hard" else probable_pairs(target)).to(scores.dtype)
    weighted = pairs
    if weights == "margin":
        side = teacher_scores(target, scores)[:, :, None] if targets == "hard" else pairs
        weighted = pairs * (side - side.transpose(1, 2)).abs()
    elif weights == "rank":
        ranks = target.ranks().to(scores.dtype)
        weighted = pairs / (ranks[:, :, None] + ranks[:, None, :])
    against = scores[:, None, :] - scores[:, :, None]
    return where_informative(mean_over_pairs(softplus(against), weighted), pairs)
