"""How far the student's order is the teacher's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.stats import kendalltau


def mean_kendall(teacher: Sequence[Sequence[float]], student: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the mean Kendall τ-b over lists, and the number of lists that have one.

    Args:
        teacher: scores of each list's documents.
        student: scores of the same documents.
    """
    values = []
    for wanted, got in zip(teacher, student, strict=True):
        if len(set(wanted)) > 1 and len(set(got)) > 1:
            value = float(kendalltau(wanted, got).statistic)
            if math.isfinite(value):
                values.append(value)
    return (sum(values) / len(values) if values else 0.0), len(values)
