from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from instruct_distill.losses.kl import loss as kl
from instruct_distill.losses.listnet import loss
from instruct_distill.losses.target import Target


def target(*scores: list[float]) -> Target:
    return Target(torch.tensor(scores), torch.ones(len(scores), len(scores[0]), dtype=torch.bool))


def test_by_hand() -> None:
    """The teacher has 3/4 and 1/4, the student 2/3 and 1/3."""
    found = loss(torch.tensor([[math.log(2), 0.0]]), target([math.log(3), 0.0]))
    assert found.item() == pytest.approx(-0.75 * math.log(2 / 3) - 0.25 * math.log(1 / 3), rel=1e-6)


def test_the_temperature_softens_the_teacher_alone() -> None:
    """9 : 1 becomes 3 : 1; the student's 2 : 1 stays."""
    found = loss(torch.tensor([[math.log(2), 0.0]]), target([math.log(9), 0.0]), temperature=2.0)
    assert found.item() == pytest.approx(-0.75 * math.log(2 / 3) - 0.25 * math.log(1 / 3), rel=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_agrees_with_another_implementation(temperature: float) -> None:
    generator = np.random.default_rng(0)
    scores, teacher = generator.normal(size=(5, 7)) * 3, generator.integers(0, 9, size=(5, 7)).astype(float)
    wanted, found = np.exp(teacher / temperature), np.exp(scores)
    wanted, found = wanted / wanted.sum(1, keepdims=True), found / found.sum(1, keepdims=True)
    expected = -(wanted * np.log(found)).sum(1)
    got = loss(torch.tensor(scores), target(*teacher.tolist()), temperature=temperature)
    assert got.tolist() == pytest.approx(expected.tolist(), rel=1e-7)


def test_is_kl_with_the_teachers_entropy() -> None:
    scores, teacher = torch.tensor([[0.3, -1.0, 2.0]]), target([1.0, 0.0, 2.0])
    p = torch.softmax(teacher.scores, dim=1)
    entropy = -(p * p.log()).sum().item()
    assert loss(scores, teacher).item() == pytest.approx(kl(scores, teacher).item() + entropy, rel=1e-6)
