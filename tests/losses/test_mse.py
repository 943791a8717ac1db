from __future__ import annotations

import pytest
import torch

from instruct_distill.losses.mse import loss
from instruct_distill.losses.target import Target


def test_by_hand_over_the_real_documents() -> None:
    mask = torch.tensor([[True, True, True], [True, True, False]])
    target = Target(torch.tensor([[4.0, 3.0, 1.0], [1.0, 0.0, 9.0]]), mask)
    scores = torch.tensor([[2.0, 3.0, 2.0], [1.0, 2.0, 7.0]])
    assert loss(scores, target).tolist() == pytest.approx([(4 + 0 + 1) / 3, (0 + 4) / 2], rel=1e-6)
    assert loss(scores, target, scale=0.5).tolist() == pytest.approx(
        [(0 + 2.25 + 2.25) / 3, (0.25 + 4) / 2], rel=1e-6
    )


def test_agrees_with_torchs_own() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    teacher = torch.randint(0, 4, (4, 6), generator=generator).float()
    expected = [
        torch.nn.functional.mse_loss(s, t.double()).item() for s, t in zip(scores, teacher, strict=True)
    ]
    found = loss(scores, Target(teacher, torch.ones(4, 6, dtype=torch.bool)))
    assert found.tolist() == pytest.approx(expected, rel=1e-9)
