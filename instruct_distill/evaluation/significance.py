"""How sure a mean, or the difference of two means, is: bootstrap intervals over queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import bootstrap

from instruct_distill.errors import InputError

MAX_RESAMPLED_VALUES = 4_000_000
"""Values that are resampled in one go (32 MB)."""


class Interval(NamedTuple):
    """A mean and its interval.

    Args:
        mean: the mean of the values.
        low: lower end, or None where fewer than two values leave it unknown.
        high: upper end, or None likewise.
    """

    mean: float
    low: float | None
    high: float | None


def interval(
    values: Sequence[float], *, confidence: float = 0.95, resamples: int = 10_000, seed: int
) -> Interval:
    """Return the mean of the values and its percentile bootstrap interval.

    The percentile method has an answer for every set of two values or more; BCa has none where
    leaving out any one value changes nothing, as with two rankers that agree on almost every query.

    Args:
        values: one value a query.
        confidence: share of the resampled means inside the interval, between 0 and 1.
        resamples: number of resampled means.
        seed: the same seed gives the same interval.

    Raises:
        InputError: there is no value, or one is not finite.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        raise InputError("no value was given; expected one value a query")
    if not np.isfinite(data).all():
        raise InputError(
            f"value {int(np.flatnonzero(~np.isfinite(data))[0]) + 1} of {data.size} is not finite"
        )
    if data.size < 2:
        return Interval(float(data[0]), None, None)
    if (data == data[0]).all():
        return Interval(float(data[0]), float(data[0]), float(data[0]))
    found = bootstrap(
        (data,),
        np.mean,
        n_resamples=resamples,
        confidence_level=confidence,
        method="percentile",
        vectorized=True,
        batch=max(1, min(resamples, MAX_RESAMPLED_VALUES // data.size)),
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(float(data.mean()), float(found.low), float(found.high))


def paired_interval(
    a: Mapping[str, float],
    b: Mapping[str, float],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int,
) -> Interval:
    """Return the mean of ``a - b`` over queries and its interval.

    Args:
        a: query id → value of the one system.
        b: query id → value of the other system, for the same queries.
        confidence: share of the resampled means inside the interval, between 0 and 1.
        resamples: number of resampled means.
        seed: the same seed gives the same interval.

    Raises:
        InputError: the two have not the same queries.
    """
    if a.keys() != b.keys():
        example = sorted(a.keys() ^ b.keys())[0]
        raise InputError(
            f"the two systems have not the same queries ({len(a)} and {len(b)}; query {example!r} is in one "
            "of them only); evaluate both with the same qrels"
        )
    # The order of the queries must not change the resamples.
    differences = [a[query_id] - b[query_id] for query_id in sorted(a)]
    return interval(differences, confidence=confidence, resamples=resamples, seed=seed)
