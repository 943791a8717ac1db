from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from instruct_distill.losses.lambda_loss import loss
from instruct_distill.losses.target import Target

SCHEMES = ["ndcg1", "ndcg2", "ndcg2++", "lambdarank", "arp1", "arp2"]


def target(*scores: list[float]) -> Target:
    return Target(torch.tensor(scores), torch.ones(len(scores), len(scores[0]), dtype=torch.bool))


def sorted_first(
    scores: list[float], grades: list[float], scheme: str, exponential: bool, sigma: float, mu: float
) -> float:
    """The formulas with everything sorted by the student's scores, as in allRank; none are equal."""
    order = np.argsort(scores)[::-1]
    s, y = np.array(scores)[order], np.array(grades)[order]
    gain = 2.0**y - 1 if exponential else y
    discount = np.log2(np.arange(len(s)) + 2.0)
    normal = gain / (np.sort(gain)[::-1] / discount).sum()
    total, pairs = 0.0, 0
    for i in range(len(s)):
        for j in range(len(s)):
            if i == j or (scheme not in ("ndcg1", "arp1") and y[i] <= y[j]):
                continue
            swap = abs(1 / discount[i] - 1 / discount[j]) * abs(normal[i] - normal[j])
            d = abs(i - j)
            bound = (1 / math.log2(1 + d) - 1 / math.log2(2 + d)) * abs(normal[i] - normal[j])
            weight = {
                "ndcg1": normal[i] / discount[i],
                "ndcg2": bound,
                "ndcg2++": mu * bound + swap,
                "lambdarank": swap,
                "arp1": gain[i] / gain.max(),
                "arp2": abs(gain[i] - gain[j]) / gain.max(),
            }[scheme]
            total -= math.log2((1 / (1 + math.exp(-sigma * (s[i] - s[j])))) ** weight)
            pairs += 1
    return total / pairs


@pytest.mark.parametrize("gain", ["linear", "exponential"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_agrees_with_another_implementation(scheme: Any, gain: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    teacher = torch.randint(0, 4, (5, 8), generator=generator).float()
    teacher[:, 0], teacher[:, 1] = 0.0, 3.0  # grades from 0 on: the lowest gain is 0 in both
    found = loss(scores, target(*teacher.tolist()), scheme=scheme, gain=gain, sigma=1.5, mu=4.0)
    expected = [
        sorted_first(s, t, scheme, gain == "exponential", 1.5, 4.0)
        for s, t in zip(scores.tolist(), teacher.tolist(), strict=True)
    ]
    assert found.tolist() == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("scheme", "weight"),
    [
        ("lambdarank", 1 - 1 / math.log2(3)),
        ("ndcg2", 1 - 1 / math.log2(3)),
        ("ndcg2++", 11 * (1 - 1 / math.log2(3))),
        ("arp2", 1.0),
    ],
)
def test_one_pair_by_hand(scheme: Any, weight: float) -> None:
    """Gains 1 and 0, ideal DCG 1, ranks 2 and 1."""
    found = loss(torch.tensor([[0.0, 1.0]]), target([3.0, 2.0]), scheme=scheme)
    assert found.item() == pytest.approx(weight * math.log2(1 + math.e), rel=1e-6)


def test_ndcg1_by_hand_goes_over_all_pairs() -> None:
    """G/D is 1 / log2(3) for the first document, at rank 2, and 0 for the second; two ordered pairs."""
    found = loss(torch.tensor([[0.0, 1.0]]), target([3.0, 2.0]), scheme="ndcg1")
    assert found.item() == pytest.approx(math.log2(1 + math.e) / math.log2(3) / 2, rel=1e-6)


def test_pairs_at_the_top_count_more() -> None:
    """The same wrong order of two neighbours, at the top and at the bottom."""
    teacher = target([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])
    top = loss(torch.tensor([[4.0, 5.0, 3.0, 2.0, 1.0, 0.0]]), teacher, scheme="lambdarank")
    bottom = loss(torch.tensor([[5.0, 4.0, 3.0, 2.0, 0.0, 1.0]]), teacher, scheme="lambdarank")
    assert top.item() > 1.2 * bottom.item()


def test_sums_over_many_comparisons_do_not_overflow() -> None:
    teacher = target([198.0, 0.0, 3.0, 197.0])
    for scheme in SCHEMES:
        value = loss(torch.zeros(1, 4), teacher, scheme=scheme, gain="exponential")  # type: ignore[arg-type]
        assert 0 < value.item() < 10


def test_a_student_that_scores_all_alike_has_a_gradient() -> None:
    """One rank for all would make every difference of discounts 0."""
    scores = torch.zeros(1, 3, requires_grad=True)
    loss(scores, target([2.0, 3.0, 1.0]), scheme="lambdarank").sum().backward()
    assert scores.grad is not None
    assert (-scores.grad[0]).argsort(descending=True).tolist() == [1, 0, 2]


def test_documents_of_equal_text_make_no_pair() -> None:
    weights = torch.ones(1, 3, 3)
    weights[0, 0, 1] = weights[0, 1, 0] = 0.0
    teacher = target([1.0, 0.0, 0.0])._replace(weights=weights)
    # left of ARP-Loss2: (0, 2), whose gains differ by 1
    found = loss(torch.tensor([[0.0, 9.0, 1.0]]), teacher, scheme="arp2")
    assert found.item() == pytest.approx(math.log2(1 + math.e), rel=1e-6)
