from __future__ import annotations

import math

import numpy as np
import pytest

from instruct_distill.records import Comparison
from instruct_distill.training.soft_pairs import pair_probabilities


def sigmoid(margin: float) -> float:
    return 1 / (1 + math.exp(-margin))


def test_both_orders_by_hand() -> None:
    p = pair_probabilities(2, [Comparison(0, 1, 2.0), Comparison(1, 0, 0.5)])
    assert p.dtype == np.float32
    assert p[0, 1] == pytest.approx((sigmoid(2.0) + sigmoid(-0.5)) / 2, rel=1e-6)
    assert p[1, 0] == pytest.approx((sigmoid(0.5) + sigmoid(-2.0)) / 2, rel=1e-6)
    assert p[0, 1] + p[1, 0] == pytest.approx(1.0, rel=1e-6)


def test_one_order_by_hand() -> None:
    p = pair_probabilities(3, [Comparison(2, 0, 1.5)])
    expected = np.zeros((3, 3))
    expected[2, 0], expected[0, 2] = sigmoid(1.5), sigmoid(-1.5)
    np.testing.assert_allclose(p, expected, rtol=1e-6)


@pytest.mark.parametrize("margin", [0.0, 0.1, 3.0, 17.3, 500.0])
def test_a_bias_for_a_place_is_exactly_a_half(margin: float) -> None:
    p = pair_probabilities(2, [Comparison(0, 1, margin), Comparison(1, 0, margin)])
    assert p.tolist() == [[0.0, 0.5], [0.5, 0.0]]


def test_of_several_in_one_order_the_mean_counts() -> None:
    p = pair_probabilities(2, [Comparison(0, 1, 2.0), Comparison(0, 1, -1.0), Comparison(1, 0, 0.5)])
    first = (sigmoid(2.0) + sigmoid(-1.0)) / 2
    assert p[0, 1] == pytest.approx((first + sigmoid(-0.5)) / 2, rel=1e-6)


def test_sure_and_nothing() -> None:
    p = pair_probabilities(2, [Comparison(0, 1, 900.0), Comparison(1, 0, -900.0)])
    assert p.tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert pair_probabilities(2, []).tolist() == [[0.0, 0.0], [0.0, 0.0]]
