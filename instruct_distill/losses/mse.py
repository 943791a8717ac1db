"""MSE: the teacher's scores, taken over as they are."""

from __future__ import annotations

import torch
from pydantic import PositiveFloat

from instruct_distill.losses.target import (
    Target,
    mean_over_documents,
    ordered_pairs,
    student_scores,
    teacher_scores,
    where_informative,
)


def loss(scores: torch.Tensor, target: Target, *, scale: PositiveFloat = 1.0) -> torch.Tensor:
    """Return the mean over a list's documents of (s_i − c·t_i)².

    Ba and Caruana, "Do deep nets really need to be deep?", arXiv 1312.6184, section 2.2: regression on
    the teacher's logits.

    Args:
        scores: [lists, documents], the student's logits; any float format, computed in float32 or better.
        target: the teacher's scores t and mask; pair weights are not used.
        scale: c, what the teacher's scores are multiplied by to have the size of logits.

    Returns:
        [lists], a list in which the teacher prefers nothing gives exactly 0, with a gradient of 0.

    When to use:
        The student's scores shall be comparable between queries, as the teacher's are.

    Example:
        >>> import torch
        >>> from instruct_distill.losses.target import Target
        >>> target = Target(torch.tensor([[3.0, 1.0]]), torch.tensor([[True, True]]))
        >>> loss(torch.tensor([[1.0, 1.0]]), target)
        tensor([2.])
    """
    scores = student_scores(scores, target)
    error = scores - scale * teacher_scores(target, scores)
    return where_informative(mean_over_documents(error.square(), target), ordered_pairs(target))
