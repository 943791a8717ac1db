"""KL: the divergence of the student's softmax over a list from the teacher's."""

from __future__ import annotations

import torch
from pydantic import PositiveFloat

from instruct_distill.losses.target import (
    Target,
    ordered_pairs,
    student_scores,
    teacher_scores,
    where_informative,
)


def loss(scores: torch.Tensor, target: Target, *, temperature: PositiveFloat = 1.0) -> torch.Tensor:
    """Return T² · Σ_i P_t(i) · (log P_t(i) − log P_s(i)), P the softmax over a list's scores divided by T.

    Hinton et al., "Distilling the knowledge in a neural network", arXiv 1503.02531, section 2: both sides are
    softened, and T² keeps the size of the gradient.

    Args:
        scores: [lists, documents], the student's logits; any float format, computed in float32 or better.
        target: the teacher's scores and mask; pair weights are not used.
        temperature: T, which divides the teacher's and the student's scores.

    Returns:
        [lists], 0 where the student's scores are the teacher's up to a constant. A list in which the teacher
        prefers nothing gives exactly 0, with a gradient of 0.

    When to use:
        The teacher's scores are logits (a cross-encoder, relevance generation): the student takes over their
        differences. A higher temperature gives more say to the lower part of the list.

    Example:
        >>> import torch
        >>> from instruct_distill.losses.target import Target
        >>> target = Target(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, True]]))
        >>> loss(torch.tensor([[0.0, 0.0]]), target)
        tensor([0.1109])
    """
    scores = student_scores(scores, target)
    padding = torch.finfo(scores.dtype).min  # finite: no inf − inf in a list without documents
    teacher = teacher_scores(target, scores) / temperature
    wanted = teacher.masked_fill(~target.mask, padding).log_softmax(dim=1)
    found = (scores / temperature).masked_fill(~target.mask, padding).log_softmax(dim=1)
    terms = (wanted.exp() * (wanted - found)).masked_fill(~target.mask, 0.0)
    return where_informative(temperature**2 * terms.sum(dim=1), ordered_pairs(target))
