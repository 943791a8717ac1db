from __future__ import annotations

import math

import pytest
import torch

from instruct_distill.losses.bce import loss
from instruct_distill.losses.target import Target


def target(*scores: list[float]) -> Target:
    return Target(torch.tensor(scores), torch.ones(len(scores), len(scores[0]), dtype=torch.bool))


def log_loss(score: float, degree: float) -> float:
    p = 1 / (1 + math.exp(-score))
    return -degree * math.log(p) - (1 - degree) * math.log(1 - p)


def test_by_hand() -> None:
    """Scores 2, 12 and 7 are the degrees 0, 1 and 0.5."""
    found = loss(torch.tensor([[0.0, 2.0, -1.0]]), target([2.0, 12.0, 7.0]))
    expected = (math.log(2) + log_loss(2.0, 1.0) + log_loss(-1.0, 0.5)) / 3
    assert found.item() == pytest.approx(expected, rel=1e-6)


def test_the_teachers_logits_as_degrees() -> None:
    """σ(ln 3) is 3/4 and σ(−ln 3) is 1/4; a student with the same logits has no gradient."""
    teacher = target([math.log(3), -math.log(3)])
    found = loss(torch.tensor([[0.0, 1.0]]), teacher, labels="sigmoid")
    assert found.item() == pytest.approx((log_loss(0.0, 0.75) + log_loss(1.0, 0.25)) / 2, rel=1e-6)
    scores = teacher.scores.clone().requires_grad_()
    loss(scores, teacher, labels="sigmoid").sum().backward()
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx([0.0, 0.0], abs=1e-7)


def test_agrees_with_plain_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    teacher = torch.randn(4, 6, generator=generator) * 4
    for value, s, t in zip(
        loss(scores, target(*teacher.tolist())), scores.tolist(), teacher.tolist(), strict=True
    ):
        terms = [log_loss(a, (b - min(t)) / (max(t) - min(t))) for a, b in zip(s, t, strict=True)]
        assert value.item() == pytest.approx(sum(terms) / 6, rel=1e-9)
