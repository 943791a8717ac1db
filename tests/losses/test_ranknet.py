from __future__ import annotations

import math

import pytest
import torch

from instruct_distill.errors import InputError
from instruct_distill.losses import LOSSES
from instruct_distill.losses.ranknet import loss
from instruct_distill.losses.target import Target


def target(*scores: list[float], lengths: list[int] | None = None) -> Target:
    lengths = lengths or [len(row) for row in scores]
    mask = torch.arange(max(map(len, scores)))[None, :] < torch.tensor(lengths)[:, None]
    return Target(torch.tensor(scores), mask)


def plain_loops(scores: list[float], teacher: list[float]) -> float:
    """The formula, with the teacher's ranks (1 is best) as the paper has them."""
    n = len(scores)
    rank = [1 + sum(other > mine for other in teacher) for mine in teacher]
    terms = [
        math.log1p(math.exp(scores[j] - scores[i])) for i in range(n) for j in range(n) if rank[i] < rank[j]
    ]
    return sum(terms) / len(terms)


def test_found_by_name() -> None:
    assert LOSSES.load("ranknet").loss is loss
    assert LOSSES.names() == ["ranknet"]
    with pytest.raises(InputError, match=r"unknown loss 'ranknett'.*ranknet"):
        LOSSES.load("ranknett")


def test_b21_hand_computed() -> None:
    # log(1 + exp(0.3 - 1.5))
    assert loss(torch.tensor([[1.5, 0.3]]), target([2.0, 1.0])).tolist() == pytest.approx([0.26328], abs=5e-6)
    assert loss(torch.tensor([[0.3, 1.5]]), target([2.0, 1.0])).tolist() == pytest.approx([1.46328], abs=5e-6)


def test_b21_all_ties_are_zero_with_a_gradient_of_zero() -> None:
    scores = torch.tensor([[0.4, 0.1, -0.2], [1.5, 0.3, 7.0]], requires_grad=True)
    per_list = loss(scores, target([1.0, 1.0, 1.0], [2.0, 1.0, 0.0], lengths=[3, 2]))
    assert per_list[0].item() == 0.0
    assert per_list[1].item() == pytest.approx(0.26328, abs=5e-6)
    per_list.sum().backward()
    assert scores.grad is not None
    assert scores.grad[0].tolist() == [0.0, 0.0, 0.0]
    # d/ds of log(1 + exp(s_1 - s_0)) is the sigmoid of s_1 - s_0, up and down; the padding gets nothing
    sigmoid = 1 / (1 + math.exp(1.2))
    assert scores.grad[1].tolist() == pytest.approx([-sigmoid, sigmoid, 0.0])


@pytest.mark.parametrize("teacher", [[5.0], [3.0, 3.0]])
def test_b21_a_list_without_a_pair_is_zero(teacher: list[float]) -> None:
    scores = torch.zeros(1, len(teacher), requires_grad=True)
    value = loss(scores, target(teacher))
    value.sum().backward()
    assert value.tolist() == [0.0]
    assert scores.grad is not None
    assert scores.grad.abs().sum().item() == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_b21_far_apart_logits_stay_finite(dtype: torch.dtype) -> None:
    scores = torch.tensor([[80.0, -80.0]], dtype=dtype, requires_grad=True)
    wrong = loss(scores, target([1.0, 2.0]))
    wrong.sum().backward()
    assert wrong.tolist() == pytest.approx([160.0])
    assert scores.grad is not None
    assert scores.grad.tolist() == [[1.0, -1.0]]
    right = loss(scores.detach(), target([2.0, 1.0]))
    assert 0.0 <= right.item() < 1e-30
    assert wrong.dtype == torch.promote_types(dtype, torch.float32)


def test_agrees_with_plain_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 7, generator=generator, dtype=torch.float64) * 3
    teacher = torch.randint(0, 4, (5, 7), generator=generator).float()
    found = loss(scores, Target(teacher, torch.ones(5, 7, dtype=torch.bool)))
    expected = [plain_loops(s, t) for s, t in zip(scores.tolist(), teacher.tolist(), strict=True)]
    assert found.tolist() == pytest.approx(expected, rel=1e-9)


def test_a_cycle_of_three_is_pulled_to_the_teachers_order() -> None:
    """Scores 0.2, 0.9, 0.5 are the ranks 3, 1, 2; mistaken for ranks they would be another order."""
    scores = torch.zeros(1, 3, requires_grad=True)
    loss(scores, target([0.2, 0.9, 0.5])).sum().backward()
    assert scores.grad is not None
    assert (-scores.grad[0]).argsort(descending=True).tolist() == [1, 2, 0]


def test_order_of_documents_does_not_matter() -> None:
    scores, teacher = torch.tensor([[0.3, -1.0, 2.0, 0.7]]), torch.tensor([[1.0, 3.0, 0.0, 2.0]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    moved = torch.tensor([2, 0, 3, 1])
    expected = loss(scores, Target(teacher, mask)).item()
    assert loss(scores[:, moved], Target(teacher[:, moved], mask)).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("rubbish", [0.0, 50.0, float("inf"), float("nan")])
def test_padding_reaches_neither_value_nor_gradient(rubbish: float) -> None:
    short = torch.tensor([[0.3, -1.0]], requires_grad=True)
    padded = torch.tensor([[0.3, -1.0, rubbish, rubbish]], requires_grad=True)
    expected = loss(short, target([1.0, 3.0]))
    found = loss(padded, target([1.0, 3.0, 9.0, 0.0], lengths=[2]))
    expected.sum().backward()
    found.sum().backward()
    assert found.tolist() == expected.tolist()
    assert short.grad is not None
    assert padded.grad is not None
    assert padded.grad.tolist() == [[*short.grad[0].tolist(), 0.0, 0.0]]


def test_weights_take_a_pair_out() -> None:
    teacher = target([3.0, 2.0, 1.0])
    weights = torch.ones(1, 3, 3)
    weights[0, 0, 1] = weights[0, 1, 0] = 0.0
    scores = torch.tensor([[0.5, 0.1, -0.4]])
    # left: (0, 2) and (1, 2)
    expected = (math.log1p(math.exp(-0.9)) + math.log1p(math.exp(-0.5))) / 2
    assert loss(scores, teacher._replace(weights=weights)).item() == pytest.approx(expected, rel=1e-6)
