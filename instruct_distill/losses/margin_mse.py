"""MarginMSE: the distance of two documents, as far as the teacher's."""

from __future__ import annotations

import torch
from pydantic import PositiveFloat

from instruct_distill.losses.target import (
    Target,
    mean_over_pairs,
    ordered_pairs,
    student_scores,
    teacher_scores,
    where_informative,
)


def loss(scores: torch.Tensor, target: Target, *, scale: PositiveFloat = 1.0) -> torch.Tensor:
    """Return the mean over a list's ordered pairs of ((s_i − s_j) − c·(t_i − t_j))².

    Hofstätter et al., "Improving efficient neural ranking models with cross-architecture knowledge
    distillation", arXiv 2010.02666 (Margin-MSE), there for pairs of a positive and a negative passage.

    Args:
        scores: [lists, documents], the student's logits; any float format, computed in float32 or better.
        target: the teacher's scores t and mask; equal scores make no pair.
        scale: c, what the teacher's scores are multiplied by to have the size of logits.

    Returns:
        [lists], a list without an ordered pair gives exactly 0, with a gradient of 0.

    When to use:
        The teacher's scores are logits whose distances mean something. Unlike ``mse`` it leaves the student
        its own zero.

    Example:
        >>> import torch
        >>> from instruct_distill.losses.target import Target
        >>> target = Target(torch.tensor([[3.0, 1.0]]), torch.tensor([[True, True]]))
        >>> loss(torch.tensor([[1.5, 0.5]]), target)
        tensor([1.])
    """
    scores = student_scores(scores, target)
    pairs = ordered_pairs(target).to(scores.dtype)
    error = scores - scale * teacher_scores(target, scores)
    return where_informative(mean_over_pairs((error[:, :, None] - error[:, None, :]).square(), pairs), pairs)
