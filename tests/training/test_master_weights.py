from __future__ import annotations

import pytest
import torch
from torch import nn

from instruct_distill.training.master_weights import MasterWeights


def layer(dtype: torch.dtype, device: torch.device) -> nn.Linear:
    made = nn.Linear(4, 1, bias=False, dtype=dtype, device=device)
    with torch.no_grad():
        made.weight.copy_(torch.tensor([[1.0, 2.0, -1.0, 0.5]]))
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exact_weights_are_their_own_masters(dtype: torch.dtype, device: torch.device) -> None:
    model = layer(dtype, device)
    assert MasterWeights(model).masters[0] is model.weight


def test_updates_too_small_for_bf16_add_up(device: torch.device) -> None:
    """1000 steps of 1e-4 move a weight by 0.1; bf16 near 1 has steps of 0.0078 and would not move at all."""
    model = layer(torch.bfloat16, device)
    weights = MasterWeights(model)
    optimizer = torch.optim.SGD(weights.masters, lr=1e-4)
    ones = torch.ones(1, 4, dtype=torch.bfloat16, device=device)
    for _ in range(1000):
        model(ones).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        weights.publish()
    assert weights.masters[0].tolist() == [pytest.approx([0.9, 1.9, -1.1, 0.4], abs=1e-4)]
    assert model.weight.tolist() == [pytest.approx([0.9, 1.9, -1.1, 0.4], rel=2**-8)]

    lost = layer(torch.bfloat16, device)
    plain = torch.optim.SGD(lost.parameters(), lr=1e-4)
    for _ in range(10):
        lost(ones).sum().backward()
        plain.step()
        plain.zero_grad(set_to_none=True)
    assert lost.weight.tolist()[0][0] == 1.0


def test_gradients_of_micro_batches_are_added_in_float32(device: torch.device) -> None:
    """256 + 1 + 1 + 1 is 259; in bf16 each + 1 would be lost."""
    model = layer(torch.bfloat16, device)
    weights = MasterWeights(model)
    for size in (256.0, 1.0, 1.0, 1.0):
        model(torch.full((1, 4), size, dtype=torch.bfloat16, device=device)).sum().backward()
        assert model.weight.grad is None
    (gradient,) = weights.gradients()
    assert gradient.dtype == torch.float32
    assert gradient.tolist() == [[259.0] * 4]


def test_a_weight_that_was_not_used_has_a_gradient_of_zero(device: torch.device) -> None:
    weights = MasterWeights(layer(torch.bfloat16, device))
    assert [gradient.tolist() for gradient in weights.gradients()] == [[[0.0] * 4]]


def test_frozen_weights_have_no_master(device: torch.device) -> None:
    model = layer(torch.bfloat16, device)
    model.weight.requires_grad_(False)
    assert MasterWeights(model).masters == []


def test_publish_and_release(device: torch.device) -> None:
    model = layer(torch.bfloat16, device)
    weights = MasterWeights(model)
    with torch.no_grad():
        weights.masters[0].copy_(torch.tensor([[0.1, 0.2, 0.3, 0.4]]))
    weights.publish()
    assert model.weight.tolist() == [pytest.approx([0.1, 0.2, 0.3, 0.4], rel=2**-8)]
    weights.release()
    model(torch.ones(1, 4, dtype=torch.bfloat16, device=device)).sum().backward()
    assert model.weight.grad is not None
    assert weights.masters[0].grad is None


def test_large_gradients_are_added_in_pieces(device: torch.device) -> None:
    """More numbers than one piece has, and a shorter last one; then a new step in the same memory."""
    model = nn.Linear(700, 1000, bias=False, dtype=torch.bfloat16, device=device)
    weights = MasterWeights(model)
    generator = torch.Generator().manual_seed(1)
    parts = [torch.randn(1000, 700, generator=generator).bfloat16().to(device) for _ in range(3)]
    for _ in range(2):
        for part in parts:
            (model.weight * part).sum().backward()
        (gradient,) = weights.gradients()
        assert torch.equal(gradient, parts[0].float() + parts[1].float() + parts[2].float())
        weights.forget_gradients()
        assert not gradient.any()
