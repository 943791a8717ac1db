"""RankNet: the probability that the student orders a pair as the teacher does, maximised."""

from __future__ import annotations

import torch
from torch.nn.functional import softplus

from instruct_distill.losses.target import Target, ordered_pairs


def loss(scores: torch.Tensor, target: Target) -> torch.Tensor:
    """Return the mean over a list's ordered pairs of log(1 + exp(s_j − s_i)), i the teacher's better one.

    Burges et al., "Learning to rank using gradient descent" (2005); arXiv 2311.01555, section 3.3, which
    prints the sign the other way round.

    Args:
        scores: [lists, documents], the student's logits; any float format, computed in float32 or better.
        target: the teacher's scores and mask; equal scores make no pair.

    Returns:
        [lists], a list without an ordered pair gives exactly 0, with a gradient of 0.

    When to use:
        The default: it needs only the teacher's order.

    Example:
        >>> import torch
        >>> from instruct_distill.losses.target import Target
        >>> target = Target(torch.tensor([[2.0, 1.0]]), torch.tensor([[True, True]]))
        >>> loss(torch.tensor([[1.5, 0.3]]), target)
        tensor([0.2633])
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    # padding may hold anything: it must reach neither the value nor the gradient
    scores = scores.masked_fill(~target.mask, 0.0)
    pairs = ordered_pairs(target)
    against = scores[:, None, :] - scores[:, :, None]
    total = (softplus(against) * pairs).sum(dim=(1, 2))
    count = pairs.sum(dim=(1, 2))
    return total / torch.where(count > 0, count, torch.ones_like(count))
