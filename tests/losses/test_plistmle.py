from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from instruct_distill.losses.plistmle import loss
from instruct_distill.losses.target import Target


def target(*scores: list[float]) -> Target:
    return Target(torch.tensor(scores), torch.ones(len(scores), len(scores[0]), dtype=torch.bool))


def test_by_hand() -> None:
    """Three documents: α is 3, 1, 0, and the terms are log 3, log 2, 0."""
    found = loss(torch.zeros(1, 3), target([2.0, 3.0, 1.0]))
    assert found.item() == pytest.approx((3 * math.log(3) + math.log(2)) / 4, rel=1e-6)


def test_logarithmic_by_hand() -> None:
    found = loss(torch.zeros(1, 3), target([2.0, 3.0, 1.0]), position="logarithmic")
    weights = [1.0, 1 / math.log2(3), 0.5]
    expected = (weights[0] * math.log(3) + weights[1] * math.log(2)) / sum(weights)
    assert found.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("position", ["exponential", "logarithmic"])
def test_agrees_with_plain_loops(position: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64) * 2
    teacher = torch.randint(0, 5, (4, 6), generator=generator).float()
    found = loss(scores, target(*teacher.tolist()), position=position).tolist()
    for value, s, t in zip(found, scores.tolist(), teacher.tolist(), strict=True):
        total = weight = 0.0
        for i in range(6):
            rank = 1 + sum(other > t[i] for other in t)
            alpha = 2.0 ** (6 - rank) - 1 if position == "exponential" else 1 / math.log2(1 + rank)
            below = sum(math.exp(s[j]) for j in range(6) if t[j] < t[i])
            total += alpha * (math.log(math.exp(s[i]) + below) - s[i])
            weight += alpha
        assert value == pytest.approx(total / weight, rel=1e-8)


def test_a_wrong_top_costs_more_than_a_wrong_end() -> None:
    teacher = target([3.0, 2.0, 1.0, 0.0])
    top = loss(torch.tensor([[2.0, 3.0, 1.0, 0.0]]), teacher)
    end = loss(torch.tensor([[3.0, 2.0, 0.0, 1.0]]), teacher)
    assert top.item() > 1.5 * end.item()


def test_a_list_of_300_documents_does_not_overflow() -> None:
    scores = torch.zeros(1, 300, requires_grad=True)
    value = loss(scores, target([float(i) for i in range(300)]))
    value.sum().backward()
    # half of the weight is at the first rank, a quarter at the second, ...
    assert value.item() == pytest.approx(math.log(300), rel=2e-3)
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
