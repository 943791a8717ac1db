from __future__ import annotations

import numpy as np
import pytest

from instruct_distill.errors import InputError
from instruct_distill.probability import Calibration, fit, probabilities, win_rates


def test_win_rates_of_sums_over_both_orders() -> None:
    # three documents: 2(n-1) = 4 questions each
    assert win_rates([4.0, 2.0, 0.0], sums=True) == [1.0, 0.5, 0.0]
    assert win_rates([3.0], sums=True) == [0.5]


def test_win_rates_of_an_order() -> None:
    assert win_rates([-1.0, 7.0, 7.0, -5.0], sums=False) == pytest.approx([1 / 3, 2.5 / 3, 2.5 / 3, 0.0])
    assert win_rates([], sums=False) == []


def test_the_fit_finds_what_made_the_rates() -> None:
    scores = [[-40.0, -38.0, -35.0], [-41.0, -36.5, -33.0]]
    rates = [[float(1 / (1 + np.exp(-(0.8 * s + 29.0)))) for s in each] for each in scores]
    found = fit(scores, rates)
    assert (found.slope, found.intercept) == (pytest.approx(0.8, abs=1e-4), pytest.approx(29.0, abs=1e-2))
    assert (found.lists, found.documents) == (2, 6)
    assert probabilities(np.array(scores[0], dtype=np.float32), found) == pytest.approx(rates[0], abs=1e-4)


def test_without_a_fit_it_is_the_sigmoid() -> None:
    found = probabilities(np.array([0.0, 100.0, -2.0], dtype=np.float32), None)
    assert found == pytest.approx([0.5, 1.0, 0.1192029], abs=1e-6)


def test_probabilities_of_high_scores_differ() -> None:
    scores = np.array([17.5, 20.0, 25.0, 30.0], dtype=np.float32)  # in float32 all of them would be 1
    found = probabilities(scores, None)
    assert np.all(np.diff(found) > 0)
    assert np.all(found < 1)
    assert np.log(found / (1 - found)) == pytest.approx(scores, rel=1e-2)


def test_probabilities_keep_the_order_of_scores() -> None:
    calibration = Calibration(slope=0.3, intercept=-1.0, lists=1, documents=3)
    found = probabilities(np.array([3.0, -2.0, 0.5], dtype=np.float32), calibration)
    assert np.argsort(-found).tolist() == [0, 2, 1]


def test_scores_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(InputError, match="do not rise with the teacher's win rates"):
        fit([[1.0, 2.0, 3.0]], [[1.0, 0.5, 0.0]])
    with pytest.raises(InputError, match="without held-back lists"):
        fit([], [])
