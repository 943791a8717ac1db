"""What a ranking loss compares the student's scores with, and what all losses have in common."""

from __future__ import annotations

from typing import NamedTuple

import torch

from instruct_distill.errors import InputError


class Target(NamedTuple):
    """The teacher's view of some lists, padded to the longest one.

    Args:
        scores: float32 [lists, documents], the teacher's scores, higher is better.
        mask: bool [lists, documents], True for real documents.
        weights: float32 [lists, documents, documents] or None: the weight of the pair (i, j); 0 takes the
            pair out, as for two documents of equal text.
        probabilities: float32 [lists, documents, documents] or None: the teacher's probability that i is
            better than j; (i, j) and (j, i) add up to 1, or both are 0 where they were not compared.
    """

    scores: torch.Tensor
    mask: torch.Tensor
    weights: torch.Tensor | None = None
    probabilities: torch.Tensor | None = None

    def ranks(self) -> torch.Tensor:
        """Return float32 [lists, documents]: 1 + the number of real documents with a higher score.

        Documents with equal scores share a rank, so that it does not depend on their order.
        """
        better = self.scores[:, None, :] > self.scores[:, :, None]
        return 1.0 + (better & self.mask[:, None, :]).sum(dim=2).float()


def student_scores(scores: torch.Tensor, target: Target) -> torch.Tensor:
    """Return the student's scores in float32 or better, with 0 for padding.

    Padding may hold anything: it must reach neither the value nor the gradient.
    """
    return scores.to(torch.promote_types(scores.dtype, torch.float32)).masked_fill(~target.mask, 0.0)


def teacher_scores(target: Target, like: torch.Tensor) -> torch.Tensor:
    """Return the teacher's scores in the number format of ``like``, with 0 for padding."""
    return target.scores.to(like.dtype).masked_fill(~target.mask, 0.0)


def real_pairs(target: Target) -> torch.Tensor:
    """Return float32 [lists, documents, documents]: the weight of (i, j), 0 for padding and where i is j."""
    another = ~torch.eye(target.mask.shape[1], dtype=torch.bool, device=target.mask.device)
    pairs = (target.mask[:, :, None] & target.mask[:, None, :] & another).float()
    return pairs if target.weights is None else pairs * target.weights


def ordered_pairs(target: Target) -> torch.Tensor:
    """Return float32 [lists, documents, documents]: the weight of (i, j) where the teacher has i above j."""
    return real_pairs(target) * (target.scores[:, :, None] > target.scores[:, None, :])


def probable_pairs(target: Target) -> torch.Tensor:
    """Return float32 [lists, documents, documents]: the weight of (i, j) times the probability of i above j.

    Raises:
        InputError: the target has no pair probabilities.
    """
    if target.probabilities is None:
        raise InputError(
            "soft targets are the teacher's pair probabilities, and these labels have none; "
            "use targets: hard, or a teacher that compares documents in pairs"
        )
    pairs = real_pairs(target)
    return pairs * target.probabilities.masked_fill(pairs == 0, 0.0)


def mean_over_pairs(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return [lists]: the weighted mean of values [lists, documents, documents]; 0 if all weights are."""
    count = weights.sum(dim=(1, 2))
    return (values * weights).sum(dim=(1, 2)) / torch.where(count > 0, count, torch.ones_like(count))


def mean_over_documents(values: torch.Tensor, target: Target) -> torch.Tensor:
    """Return [lists]: the mean of values [lists, documents] over the real documents."""
    return values.masked_fill(~target.mask, 0.0).sum(dim=1) / target.mask.sum(dim=1).clamp(min=1)


def where_informative(per_list: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Return the losses, with an exact 0 (still in the graph) for a list whose pairs prefer neither side.

    Such lists are not counted in the step's mean, so they must add nothing to its sum, whatever the loss.

    Args:
        per_list: [lists], finite.
        pairs: [lists, documents, documents], how much speaks for i above j.
    """
    informative = (pairs != pairs.transpose(1, 2)).flatten(1).any(dim=1)
    return torch.where(informative, per_list, torch.zeros_like(per_list))
