"""How sure the teacher is that one document is better than another, from its comparisons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from instruct_distill.records import Comparison


def pair_probabilities(documents: int, comparisons: Iterable[Comparison]) -> npt.NDArray[Any]:
    """Return float32 [documents, documents]: the teacher's probability that i is better than j.

    With m_ij the margin for the document shown first, i, it is ½[σ(m_ij) + σ(−m_ji)] where both orders were
    asked, and σ(m_ij) or σ(−m_ji) where one was. A bias for a place that is the same in both orders cancels:
    m_ij = m_ji gives exactly ½.

    Args:
        documents: how many the list has.
        comparisons: the questions asked; the mean counts of several with the same documents in one order.

    Returns:
        p, with p_ij + p_ji = 1; both are 0 for two documents that were not compared, and for i = j.
    """
    total = np.zeros((documents, documents))
    count = np.zeros((documents, documents))
    for first, second, margin in comparisons:
        total[first, second] += np.tanh(margin / 2)  # σ(m) = ½ + ½ tanh(m/2), which is odd: ties are exact
        count[first, second] += 1
    in_order = total / np.maximum(count, 1)
    orders = (count > 0).astype(float) + (count > 0).T
    lead = (in_order - in_order.T) / np.maximum(orders, 1)
    return np.where(orders > 0, 0.5 + 0.5 * lead, 0.0).astype(np.float32)
