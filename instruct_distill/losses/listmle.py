"""ListMLE: the likelihood of the teacher's order, drawn from the student's scores one document at a time."""

from __future__ import annotations

import torch

from instruct_distill.losses.target import (
    Target,
    mean_over_documents,
    ordered_pairs,
    student_scores,
    where_informative,
)


def loss(scores: torch.Tensor, target: Target) -> torch.Tensor:
    """Return the mean over a list's documents of −log(exp s_i / (exp s_i + Σ_{j below i} exp s_j)).

    Xia et al., "Listwise approach to learning to rank: theory and algorithm" (ICML 2008): the likelihood
    loss, under the Plackett-Luce model; its sum over documents is a mean here.

    Args:
        scores: [lists, documents], the student's logits; any float format, computed in float32 or better.
        target: the teacher's scores and mask. Ties: a document competes with those that the teacher scores
            strictly lower, never with its equals, so that no order has to be made up for them. A pair weight
            of 0 also takes j out of the sum of i; other pair weights are not used.

    Returns:
        [lists], a list in which the teacher prefers nothing gives exactly 0, with a gradient of 0.

    When to use:
        Only the teacher's order is known (permutations, runs) and lists have few ties.

    Example:
        >>> import torch
        >>> from instruct_distill.losses.target import Target
        >>> target = Target(torch.tensor([[2.0, 1.0]]), torch.tensor([[True, True]]))
        >>> loss(torch.tensor([[1.5, 0.3]]), target)
        tensor([0.1316])
    """
    scores = student_scores(scores, target)
    pairs = ordered_pairs(target)
    return where_informative(mean_over_documents(negative_log_likelihoods(scores, pairs), target), pairs)


def negative_log_likelihoods(scores: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Return [lists, documents]: −log of the probability that i is drawn before all documents below it.

    Args:
        scores: [lists, documents], finite.
        pairs: [lists, documents, documents], above 0 where j is below i.
    """
    against = (scores[:, None, :] - scores[:, :, None]).masked_fill(pairs <= 0, torch.finfo(scores.dtype).min)
    alone = torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
    return against.masked_fill(alone, 0.0).logsumexp(dim=2)
