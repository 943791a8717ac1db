from __future__ import annotations

import pytest

from instruct_distill.training.parameters import TrainingParameters
from instruct_distill.training.schedule import learning_rate


def test_b24_linear_peaks_after_the_warm_up_and_ends_at_zero() -> None:
    parameters = TrainingParameters(learning_rate=0.3, schedule="linear", warmup_steps=10)
    rates = [learning_rate(parameters, step, 40) for step in range(40)]
    assert rates[:10] == pytest.approx([0.03 * (step + 1) for step in range(10)])
    assert max(rates) == rates[9] == pytest.approx(0.3)
    # from there on it falls by a thirtieth of the peak a step
    assert rates[9:] == pytest.approx([0.01 * left for left in range(30, -1, -1)])
    assert rates[39] == 0.0


def test_constant_stays_at_the_peak() -> None:
    parameters = TrainingParameters(learning_rate=3e-5)
    assert {learning_rate(parameters, step, 40) for step in range(40)} == {3e-5}
    warm = TrainingParameters(learning_rate=3e-5, warmup_steps=3)
    assert [learning_rate(warm, step, 40) for step in range(5)] == pytest.approx(
        [1e-5, 2e-5, 3e-5, 3e-5, 3e-5]
    )


def test_warm_up_longer_than_the_run() -> None:
    parameters = TrainingParameters(learning_rate=1.0, schedule="linear", warmup_steps=10)
    assert [learning_rate(parameters, step, 4) for step in range(4)] == pytest.approx([0.1, 0.2, 0.3, 0.4])
