"""Whether two systems differ: tests on the differences of their values, query by query."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from scipy.stats import permutation_test, ttest_1samp

from instruct_distill.evaluation.significance import MAX_RESAMPLED_VALUES

RESAMPLES = 100_000
"""Random signs for each query: p is known to about 0.001 where it is 0.05."""


def randomisation_test(differences: Sequence[float], *, resamples: int = RESAMPLES, seed: int) -> float:
    """Return the two-sided p value of Fisher's paired randomisation test of the mean.

    The two values of each query are exchanged at random (Smucker, Allan and Carterette, CIKM 2007). Where
    all exchanges together are no more than ``resamples``, p is exact.

    Args:
        differences: one a query.
        resamples: number of random exchanges.
        seed: the same seed gives the same p.
    """
    data = np.asarray(differences, dtype=np.float64)
    if data.size < 2 or not data.any():  # both signs of a single difference are as far from 0
        return 1.0
    found = permutation_test(
        (data,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, min(resamples, MAX_RESAMPLED_VALUES // data.size)),
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def t_test(differences: Sequence[float]) -> float | None:
    """Return the two-sided p value of Student's paired t test, or None for fewer than two queries."""
    data = np.asarray(differences, dtype=np.float64)
    if data.size < 2:
        return None
    if not data.any():
        return 1.0
    with warnings.catch_warnings():
        # Of equal differences scipy warns that their variance is rounding; t is huge then, and p is 0.
        warnings.simplefilter("ignore", RuntimeWarning)
        p = float(ttest_1samp(data, 0.0).pvalue)
    return p if math.isfinite(p) else None


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p values corrected for their number by Holm's step-down method (Holm 1979).

    Unknown ones stay unknown and do not count.
    """
    known = sorted((p, position) for position, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, position) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        corrected[position] = highest
    return corrected
