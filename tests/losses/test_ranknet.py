from __future__ import annotations

import math
from typing import Any

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
    assert LOSSES.names() == [
        "approx_ndcg",
        "bce",
        "kl",
        "lambda_loss",
        "listmle",
        "listnet",
        "margin_mse",
        "mse",
        "plistmle",
        "ranknet",
    ]
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


def soft(*scores: list[float], probabilities: list[list[list[float]]]) -> Target:
    return target(*scores)._replace(probabilities=torch.tensor(probabilities))


def test_soft_targets_by_hand() -> None:
    """Two documents, 0.75 : 0.25, logits ln 3 apart: the student is as sure as the teacher."""
    teacher = soft([1.0, 0.0], probabilities=[[[0.0, 0.75], [0.25, 0.0]]])
    scores = torch.tensor([[math.log(3), 0.0]], requires_grad=True)
    value = loss(scores, teacher, targets="soft")
    value.sum().backward()
    entropy = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert value.item() == pytest.approx(entropy, rel=1e-6)
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx([0.0, 0.0], abs=1e-7)
    # surer than the teacher, and in the wrong order
    for above in (3.0, -1.0):
        expected = 0.75 * math.log1p(math.exp(-above)) + 0.25 * math.log1p(math.exp(above))
        found = loss(torch.tensor([[above, 0.0]]), teacher, targets="soft")
        assert found.item() == pytest.approx(expected, rel=1e-6)


def test_soft_targets_are_binary_cross_entropy() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64) * 3
    upper = torch.rand(4, 6, 6, generator=generator).triu(1)
    probabilities = upper + (1 - upper.transpose(1, 2)).tril(-1)
    teacher = Target(torch.zeros(4, 6), torch.ones(4, 6, dtype=torch.bool), None, probabilities)
    i, j = torch.triu_indices(6, 6, offset=1)
    expected = torch.nn.functional.binary_cross_entropy(
        torch.sigmoid(scores[:, i] - scores[:, j]), probabilities[:, i, j].double(), reduction="none"
    )
    found = loss(scores, teacher, targets="soft")
    assert found.tolist() == pytest.approx(expected.mean(dim=1).tolist(), rel=1e-6)


def test_soft_targets_leave_out_pairs_that_were_not_compared() -> None:
    p = [[[0.0, 0.9, 0.0], [0.1, 0.0, 0.0], [0.0, 0.0, 0.0]]]
    scores = torch.tensor([[0.2, 0.1, 7.0]], requires_grad=True)
    value = loss(scores, soft([2.0, 1.0, 0.0], probabilities=p), targets="soft")
    value.sum().backward()
    expected = 0.9 * math.log1p(math.exp(-0.1)) + 0.1 * math.log1p(math.exp(0.1))
    assert value.item() == pytest.approx(expected, rel=1e-6)
    assert scores.grad is not None
    assert scores.grad[0, 2].item() == 0.0


def test_soft_targets_see_what_equal_scores_hide_and_a_half_says_nothing() -> None:
    """Chosen first in either order, so that the hard scores are equal; but once surer than the other time."""
    hidden = soft([1.0, 1.0], probabilities=[[[0.0, 0.6], [0.4, 0.0]]])
    scores = torch.tensor([[0.0, 1.0]], requires_grad=True)
    assert loss(scores, hidden).item() == 0.0
    assert loss(scores, hidden, targets="soft").item() > 0.6
    half = soft([1.0, 0.0], probabilities=[[[0.0, 0.5], [0.5, 0.0]]])
    value = loss(scores, half, targets="soft")
    value.sum().backward()
    assert value.item() == 0.0
    assert scores.grad is not None
    assert scores.grad[0].tolist() == [0.0, 0.0]


def test_soft_targets_without_probabilities_are_an_error() -> None:
    with pytest.raises(InputError, match=r"labels have none; use targets: hard"):
        loss(torch.zeros(1, 2), target([1.0, 0.0]), targets="soft")


@pytest.mark.parametrize("weights", ["margin", "rank"])
def test_weighted_mean_by_plain_loops(weights: Any) -> None:
    generator = torch.Generator().manual_seed(2)
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64) * 3
    teacher = torch.randint(0, 4, (4, 6), generator=generator).float() * 5
    found = loss(scores, Target(teacher, torch.ones(4, 6, dtype=torch.bool)), weights=weights)
    for value, s, t in zip(found.tolist(), scores.tolist(), teacher.tolist(), strict=True):
        rank = [1 + sum(other > mine for other in t) for mine in t]
        total = weight = 0.0
        for i in range(6):
            for j in range(6):
                if rank[i] < rank[j]:
                    w = t[i] - t[j] if weights == "margin" else 1 / (rank[i] + rank[j])
                    total += w * math.log1p(math.exp(s[j] - s[i]))
                    weight += w
        assert value == pytest.approx(total / weight, rel=1e-8)


def test_weights_of_soft_pairs_by_hand() -> None:
    """Margins |0.8 − 0.2| and |0.5 − 0.5|: the pair that the teacher leaves open does not count."""
    p = [[[0.0, 0.8, 0.5], [0.2, 0.0, 0.0], [0.5, 0.0, 0.0]]]
    teacher = soft([2.0, 1.0, 1.0], probabilities=p)
    scores = torch.tensor([[0.4, 0.1, -3.0]])
    first = 0.8 * math.log1p(math.exp(-0.3)) + 0.2 * math.log1p(math.exp(0.3))
    second = 0.5 * math.log1p(math.exp(-3.4)) + 0.5 * math.log1p(math.exp(3.4))
    assert loss(scores, teacher, targets="soft").item() == pytest.approx((first + second) / 2, rel=1e-6)
    assert loss(scores, teacher, targets="soft", weights="margin").item() == pytest.approx(first, rel=1e-6)
    # ranks 1, 2, 2: both pairs have 1 / (1 + 2)
    found = loss(scores, teacher, targets="soft", weights="rank").item()
    assert found == pytest.approx((first + second) / 2, rel=1e-6)
