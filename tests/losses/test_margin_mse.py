from __future__ import annotations

import pytest
import torch

from instruct_distill.losses.margin_mse import loss
from instruct_distill.losses.target import Target


def target(*scores: list[float]) -> Target:
    return Target(torch.tensor(scores), torch.ones(len(scores), len(scores[0]), dtype=torch.bool))


def test_by_hand() -> None:
    """Margins 1, 3 and 2 of the teacher, 2, 2 and 0 of the student."""
    found = loss(torch.tensor([[2.0, 0.0, 0.0]]), target([4.0, 3.0, 1.0]))
    assert found.item() == pytest.approx((1 + 1 + 4) / 3, rel=1e-6)


def test_a_constant_does_not_matter_and_the_scale_is_the_teachers() -> None:
    teacher = target([4.0, 3.0, 1.0])
    assert loss(torch.tensor([[-6.0, -7.0, -9.0]]), teacher).item() == 0.0
    assert loss(torch.tensor([[2.0, 1.5, 0.5]]), teacher, scale=0.5).item() == 0.0
    assert loss(torch.tensor([[4.0, 3.0, 1.0]]), teacher, scale=0.5).item() > 0.0


def test_equal_scores_make_no_pair() -> None:
    """Left: (0, 1) and (0, 2), whose margins are 1."""
    found = loss(torch.tensor([[1.0, 0.0, -5.0]]), target([1.0, 0.0, 0.0]))
    assert found.item() == pytest.approx((0 + 25) / 2, rel=1e-6)


def test_agrees_with_plain_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    teacher = torch.randint(0, 4, (4, 6), generator=generator).float()
    for value, s, t in zip(
        loss(scores, target(*teacher.tolist()), scale=2.0), scores.tolist(), teacher.tolist(), strict=True
    ):
        errors = [((s[i] - s[j]) - 2 * (t[i] - t[j])) ** 2 for i in range(6) for j in range(6) if t[i] > t[j]]
        assert value.item() == pytest.approx(sum(errors) / len(errors), rel=1e-9)
