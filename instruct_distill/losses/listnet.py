"""ListNet: the student's top-one probabilities against the teacher's."""

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
    """Return the cross-entropy −Σ_i P_t(i) · log P_s(i), P the softmax over a list's scores.

    Cao et al., "Learning to rank: from pairwise approach to listwise approach" (ICML 2007), with
    top-one probabilities: P(i) is the probability of i being ranked first.

    Args:
        scores: [lists, documents], the student's logits; any float format, computed in float32 or better.
        target: the teacher's scores and mask; pair weights are not used.
        temperature: what the teacher's scores are divided by before the softmax; raw sums over many
            comparisons are far apart and would leave one document only.

    Returns:
        [lists]; at best the entropy of the teacher's distribution. A list in which the teacher prefers
        nothing gives exactly 0, with a gradient of 0.

    When to use:
        The teacher's scores mean something beyond their order, and the top of the list counts most. With
        ``kl``, the student is softened as well.

    Example:
        >>> import torch
        >>> from instruct_distill.losses.target import Target
        >>> target = Target(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, True]]))
        >>> loss(torch.tensor([[0.0, 0.0]]), target)
        tensor([0.6931])
    """
    scores = student_scores(scores, target)
    padding = torch.finfo(scores.dtype).min  # finite: no inf − inf in a list without documents
    wanted = (teacher_scores(target, scores) / temperature).masked_fill(~target.mask, padding).softmax(dim=1)
    found = scores.masked_fill(~target.mask, padding).log_softmax(dim=1)
    per_list = -(wanted * found).masked_fill(~target.mask, 0.0).sum(dim=1)
    return where_informative(per_list, ordered_pairs(target))
