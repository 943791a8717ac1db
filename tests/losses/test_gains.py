from __future__ import annotations

import math

import pytest
import torch

from instruct_distill.losses.gains import discounts, gains, ideal_dcg
from instruct_distill.losses.target import Target

LIKE = torch.zeros((), dtype=torch.float64)


def target(scores: list[float], length: int | None = None) -> Target:
    mask = torch.arange(len(scores)) < (len(scores) if length is None else length)
    return Target(torch.tensor([scores]), mask[None])


def test_from_the_worst_to_the_best() -> None:
    assert gains(target([0.0, 3.0, 1.0]), "linear", LIKE)[0].tolist() == pytest.approx([0.0, 1.0, 1 / 3])
    assert gains(target([0.0, 3.0, 1.0]), "exponential", LIKE)[0].tolist() == pytest.approx([0.0, 1.0, 1 / 7])
    assert gains(target([-5.0, -2.0, -4.0]), "exponential", LIKE)[0].tolist() == pytest.approx(
        [0.0, 1.0, 1 / 7]
    )


def test_large_scores() -> None:
    found = gains(target([0.0, 1980.0, 1979.0, 5.0]), "exponential", torch.zeros(()))
    assert found[0].tolist() == [0.0, 1.0, 0.5, 0.0]


@pytest.mark.parametrize("gain", ["linear", "exponential"])
def test_nothing_to_gain_and_padding(gain: str) -> None:
    assert gains(target([2.0, 2.0, 7.0], 2), gain, LIKE)[0].tolist() == [0.0, 0.0, 0.0]  # type: ignore[arg-type]
    assert gains(target([2.0, math.nan], 0), gain, LIKE)[0].tolist() == [0.0, 0.0]  # type: ignore[arg-type]
    assert gains(target([2.0, 3.0, math.nan], 2), gain, LIKE)[0].tolist() == [0.0, 1.0, 0.0]  # type: ignore[arg-type]


def test_discounts_and_the_ideal() -> None:
    assert discounts(torch.tensor([1.0, 3.0, 7.0])).tolist() == [1.0, 2.0, 3.0]
    found = ideal_dcg(torch.tensor([[0.5, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    assert found.tolist() == [[pytest.approx(1 + 0.5 / math.log2(3))], [1.0]]
