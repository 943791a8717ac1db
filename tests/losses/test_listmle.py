from __future__ import annotations

import itertools
import math

import pytest
import torch

from instruct_distill.losses.listmle import loss
from instruct_distill.losses.target import Target


def target(*scores: list[float]) -> Target:
    return Target(torch.tensor(scores), torch.ones(len(scores), len(scores[0]), dtype=torch.bool))


def drawn(scores: list[float], order: tuple[int, ...]) -> float:
    """The probability of an order under the Plackett-Luce model, one draw after another."""
    left, probability = list(order), 1.0
    for i in order:
        probability *= math.exp(scores[i]) / sum(math.exp(scores[j]) for j in left)
        left.remove(i)
    return probability


def test_by_hand() -> None:
    """Equal scores: a third, then a half, then certainty; a mean over three documents."""
    found = loss(torch.zeros(1, 3), target([2.0, 3.0, 1.0]))
    assert found.item() == pytest.approx((math.log(3) + math.log(2)) / 3, rel=1e-6)


def test_is_the_likelihood_of_the_teachers_order() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 5, generator=generator, dtype=torch.float64) * 2
    teacher = torch.stack([torch.randperm(5, generator=generator) for _ in range(4)]).float()
    for value, s, t in zip(
        loss(scores, target(*teacher.tolist())), scores.tolist(), teacher.tolist(), strict=True
    ):
        order = tuple(sorted(range(5), key=lambda i, t=t: -t[i]))
        assert 5 * value.item() == pytest.approx(-math.log(drawn(s, order)), rel=1e-9)
    # and so it is a distribution over all orders
    (s,) = scores[:1].tolist()
    total = sum(
        math.exp(-5 * loss(scores[:1], target([float(-order.index(i)) for i in range(5)])).item())
        for order in itertools.permutations(range(5))
    )
    assert total == pytest.approx(1.0, rel=1e-9)


def test_ties_do_not_compete() -> None:
    """Two best ones against the worst: each is compared with it alone, in whatever order they stand."""
    scores = torch.tensor([[0.5, -1.0, 0.2]], requires_grad=True)
    value = loss(scores, target([1.0, 1.0, 0.0]))
    value.sum().backward()
    expected = (math.log1p(math.exp(0.2 - 0.5)) + math.log1p(math.exp(0.2 + 1.0))) / 3
    assert value.item() == pytest.approx(expected, rel=1e-6)
    # no pull between the two: each has the gradient that it would have without the other
    assert scores.grad is not None
    assert scores.grad[0, 0].item() == pytest.approx(-1 / (1 + math.exp(0.3)) / 3, rel=1e-5)
    assert scores.grad[0, 1].item() == pytest.approx(-1 / (1 + math.exp(-1.2)) / 3, rel=1e-5)


def test_documents_of_equal_text_do_not_compete() -> None:
    weights = torch.ones(1, 3, 3)
    weights[0, 0, 1] = weights[0, 1, 0] = 0.0
    found = loss(torch.zeros(1, 3), target([3.0, 2.0, 1.0])._replace(weights=weights))
    # 0 against 2, 1 against 2
    assert found.item() == pytest.approx(2 * math.log(2) / 3, rel=1e-6)
