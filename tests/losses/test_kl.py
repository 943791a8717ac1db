from __future__ import annotations

import math

import pytest
import torch
from scipy.special import rel_entr, softmax

from instruct_distill.losses.kl import loss
from instruct_distill.losses.target import Target


def target(*scores: list[float]) -> Target:
    return Target(torch.tensor(scores), torch.ones(len(scores), len(scores[0]), dtype=torch.bool))


def test_by_hand() -> None:
    """The teacher has 3/4 and 1/4, the student 1/2 and 1/2."""
    found = loss(torch.tensor([[5.0, 5.0]]), target([math.log(3), 0.0]))
    assert found.item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5), rel=1e-6)


def test_the_temperature_softens_both_and_keeps_the_gradients_size() -> None:
    """9 : 1 becomes 3 : 1 for the teacher, 4 : 1 becomes 2 : 1 for the student; times 2²."""
    found = loss(torch.tensor([[math.log(4), 0.0]]), target([math.log(9), 0.0]), temperature=2.0)
    expected = 4 * (0.75 * math.log(0.75 * 3 / 2) + 0.25 * math.log(0.25 * 3))
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_zero_where_the_scores_are_the_teachers_up_to_a_constant() -> None:
    scores = torch.tensor([[4.0, 2.0, 7.0]], requires_grad=True)
    value = loss(scores, target([1.0, -1.0, 4.0]), temperature=3.0)
    value.sum().backward()
    assert value.item() == pytest.approx(0.0, abs=1e-6)
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx([0.0] * 3, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_agrees_with_scipy(temperature: float) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 7, generator=generator, dtype=torch.float64) * 3
    teacher = torch.randint(0, 9, (5, 7), generator=generator).float()
    wanted = softmax(teacher.double().numpy() / temperature, axis=1)
    found = softmax(scores.numpy() / temperature, axis=1)
    expected = temperature**2 * rel_entr(wanted, found).sum(axis=1)
    got = loss(scores, target(*teacher.tolist()), temperature=temperature)
    assert got.tolist() == pytest.approx(expected.tolist(), rel=1e-7)
