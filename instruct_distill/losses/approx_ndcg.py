"""ApproxNDCG: nDCG with ranks that are smooth in the scores, maximised."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveFloat

from instruct_distill.losses.gains import discounts, gains, ideal_dcg
from instruct_distill.losses.target import Target, ordered_pairs, student_scores, where_informative


def loss(
    scores: torch.Tensor,
    target: Target,
    *,
    temperature: PositiveFloat = 1.0,
    gain: Literal["linear", "exponential"] = "linear",
) -> torch.Tensor:
    """Return 1 − Σ_i G_i / log₂(1 + π_i), with the smooth rank π_i = 1 + Σ_{j≠i} σ((s_j − s_i) / T).

    Qin et al., "A general approximation framework for direct optimization of information retrieval measures"
    (2010), equations (19) to (21); G is the gain divided by the ideal DCG and the paper's α is 1/T.

    Args:
        scores: [lists, documents], the student's logits; any float format, computed in float32 or better.
        target: the teacher's scores and mask; pair weights are not used.
        temperature: T; lower is nearer to nDCG, and flatter where documents are far apart.
        gain: ``linear`` or ``exponential``, both from the list's lowest score on (see ``gains``).

    Returns:
        [lists] between 0 and 1; a list in which the teacher prefers nothing gives exactly 0, with a gradient
        of 0.

    When to use:
        A student that ranks well already and shall gain some nDCG: it is not convex, and documents that are
        far out of place get hardly a gradient.

    Example:
        >>> import torch
        >>> from instruct_distill.losses.target import Target
        >>> target = Target(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, True]]))
        >>> loss(torch.tensor([[0.0, 0.0]]), target)
        tensor([0.2435])
    """
    scores = student_scores(scores, target)
    above = torch.sigmoid((scores[:, None, :] - scores[:, :, None]) / temperature)
    itself = torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
    ranks = 1.0 + above.masked_fill(itself | ~target.mask[:, None, :], 0.0).sum(dim=2)
    gained = gains(target, gain, scores)
    ndcg = (gained / ideal_dcg(gained) / discounts(ranks)).sum(dim=1)
    return where_informative(1.0 - ndcg, ordered_pairs(target))
