from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad

from instruct_distill.evaluation.paired_tests import holm, randomisation_test, t_test


def t_density(t: float, freedom: int) -> float:
    """Student's density, not normalised."""
    return float((1 + t * t / freedom) ** (-(freedom + 1) / 2))


def t_test_by_integration(differences: list[float]) -> float:
    n = len(differences)
    mean = sum(differences) / n
    variance = sum((d - mean) ** 2 for d in differences) / (n - 1)
    t = abs(mean) / (variance / n) ** 0.5
    tail = quad(t_density, t, np.inf, args=(n - 1,))[0]
    return float(tail / quad(t_density, 0, np.inf, args=(n - 1,))[0])


def exact_randomisation(differences: list[float]) -> float:
    """All sign changes, one after the other."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(value >= observed - 1e-12 for value in sums) / len(sums)


DIFFERENCES = [0.31, -0.12, 0.27, 0.08, 0.0, 0.41, -0.05, 0.19, 0.22, -0.33]


def test_t_test_is_the_integral_of_the_density() -> None:
    assert t_test(DIFFERENCES) == pytest.approx(t_test_by_integration(DIFFERENCES), rel=1e-6)


def test_randomisation_is_exact_where_all_exchanges_can_be_made() -> None:
    assert randomisation_test(DIFFERENCES, seed=1) == pytest.approx(exact_randomisation(DIFFERENCES))
    assert randomisation_test([1.0, 1.0, 1.0], seed=1) == pytest.approx(2 / 8)


def test_sampled_exchanges_come_near_the_exact_value() -> None:
    exact = exact_randomisation(DIFFERENCES)
    sampled = randomisation_test(DIFFERENCES, resamples=1000, seed=1)
    assert sampled != exact
    assert sampled == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 1000) ** 0.5)
    assert sampled == randomisation_test(DIFFERENCES, resamples=1000, seed=1)


def test_the_sign_of_the_difference_does_not_matter() -> None:
    turned = [-d for d in DIFFERENCES]
    assert t_test(turned) == pytest.approx(t_test(DIFFERENCES))
    assert randomisation_test(turned, seed=1) == pytest.approx(randomisation_test(DIFFERENCES, seed=1))


def test_equal_runs_and_single_queries() -> None:
    assert t_test([0.0, 0.0]) == 1.0
    assert randomisation_test([0.0, 0.0], seed=1) == 1.0
    assert t_test([0.5]) is None
    assert randomisation_test([0.5], seed=1) == 1.0
    assert t_test([0.5, 0.5, 0.5]) == 0.0


def test_holm() -> None:
    """The smallest p of four counts four times, the next three times, and none falls below one before it."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, None, 0.7]) == [1.0, None, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []
