"""BCE: each document on its own, relevant to the degree that the teacher says."""

from __future__ import annotations

from typing import Literal

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from instruct_distill.losses.gains import gains
from instruct_distill.losses.target import (
    Target,
    mean_over_documents,
    ordered_pairs,
    student_scores,
    teacher_scores,
    where_informative,
)


def loss(
    scores: torch.Tensor, target: Target, *, labels: Literal["min_max", "sigmoid"] = "min_max"
) -> torch.Tensor:
    """Return the mean over a list's documents of −y_i · log σ(s_i) − (1 − y_i) · log(1 − σ(s_i)).

    Nogueira and Cho, "Passage re-ranking with BERT", arXiv 1901.04085, equation (1), with degrees y in the
    place of relevant and not.

    Args:
        scores: [lists, documents], the student's logits; any float format, computed in float32 or better.
        target: the teacher's scores t and mask; pair weights are not used.
        labels: where y comes from. ``min_max``: from 0 for the list's worst document to 1 for its best;
            ``sigmoid``: σ(t), for teachers whose scores are logits of relevance.

    Returns:
        [lists], a list in which the teacher prefers nothing gives exactly 0, with a gradient of 0.

    When to use:
        Judgements as labels, or a student whose σ(s) is read as a probability.

    Example:
        >>> import torch
        >>> from instruct_distill.losses.target import Target
        >>> target = Target(torch.tensor([[3.0, 1.0]]), torch.tensor([[True, True]]))
        >>> loss(torch.tensor([[2.0, -2.0]]), target)
        tensor([0.1269])
    """
    scores = student_scores(scores, target)
    if labels == "min_max":
        degrees = gains(target, "linear", scores)
    else:
        degrees = teacher_scores(target, scores).sigmoid()
    terms = binary_cross_entropy_with_logits(scores, degrees, reduction="none")
    return where_informative(mean_over_documents(terms, target), ordered_pairs(target))
