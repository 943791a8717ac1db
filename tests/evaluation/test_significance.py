from __future__ import annotations

import math
import random

import pytest

from instruct_distill.errors import InputError
from instruct_distill.evaluation.significance import Interval, interval, paired_interval


def test_interval_of_a_known_mean() -> None:
    """Percentile intervals of 400 normal values lie near mean ± 1.96 standard errors."""
    generator = random.Random(5)
    values = [generator.gauss(0.5, 0.2) for _ in range(400)]
    mean = sum(values) / 400
    error = math.sqrt(sum((v - mean) ** 2 for v in values) / 400) / math.sqrt(400)
    found = interval(values, seed=1)
    assert found.mean == pytest.approx(mean)
    assert found.low == pytest.approx(mean - 1.96 * error, abs=0.1 * error)
    assert found.high == pytest.approx(mean + 1.96 * error, abs=0.1 * error)


def test_paired_interval_is_that_of_the_differences() -> None:
    a = {f"q{i}": 0.1 * (i % 7) for i in range(43)}
    b = {f"q{i}": 0.05 * (i % 5) for i in range(43)}
    differences = [a[q] - b[q] for q in sorted(a)]
    assert paired_interval(a, b, seed=3) == interval(differences, seed=3)


def test_pairs_are_formed_by_query_not_by_position() -> None:
    a = {"q1": 1.0, "q2": 0.0, "q3": 0.5}
    b = {"q3": 0.5, "q2": 0.0, "q1": 1.0}
    assert paired_interval(a, b, seed=1) == Interval(0.0, 0.0, 0.0)


def test_one_seed_gives_one_interval() -> None:
    values = [0.1, 0.9, 0.4, 0.3, 0.8]
    assert interval(values, seed=1) == interval(values, seed=1)
    assert interval(values, seed=1, resamples=100) != interval(values, seed=2, resamples=100)


def test_more_confidence_is_a_wider_interval() -> None:
    values = [0.1 * (i % 10) for i in range(50)]
    narrow, wide = interval(values, confidence=0.5, seed=1), interval(values, confidence=0.99, seed=1)
    assert narrow.low is not None
    assert narrow.high is not None
    assert wide.low is not None
    assert wide.high is not None
    assert wide.low < narrow.low < narrow.mean < narrow.high < wide.high


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert interval([0.25, 0.25, 0.25], seed=1) == Interval(0.25, 0.25, 0.25)


def test_a_single_query_differs() -> None:
    """Where BCa has no answer, the percentile method has one."""
    found = paired_interval({"q1": 1.0, "q2": 0.5, "q3": 0.5}, {"q1": 0.0, "q2": 0.5, "q3": 0.5}, seed=1)
    assert found == Interval(pytest.approx(1 / 3), 0.0, 1.0)


def test_one_value_has_no_interval() -> None:
    assert interval([0.25], seed=1) == Interval(0.25, None, None)


def test_no_value_and_values_that_are_not_finite_are_errors() -> None:
    with pytest.raises(InputError, match="no value"):
        interval([], seed=1)
    with pytest.raises(InputError, match="value 2 of 2 is not finite"):
        interval([0.5, math.nan], seed=1)


def test_other_queries_are_an_error() -> None:
    with pytest.raises(InputError, match=r"not the same queries \(2 and 1; query 'q2'"):
        paired_interval({"q1": 1.0, "q2": 0.0}, {"q1": 1.0}, seed=1)
