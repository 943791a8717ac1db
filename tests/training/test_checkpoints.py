from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from instruct_distill.errors import InputError
from instruct_distill.training.checkpoints import load_checkpoint, save_checkpoint
from instruct_distill.training.master_weights import MasterWeights


def trained(steps: int, dtype: torch.dtype = torch.float32) -> tuple[MasterWeights, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2, dtype=dtype)
    weights = MasterWeights(model)
    optimizer = torch.optim.AdamW(weights.masters, lr=0.01, fused=True)
    for _ in range(steps):
        step(weights, optimizer)
    return weights, optimizer


def step(weights: MasterWeights, optimizer: torch.optim.Optimizer) -> None:
    for master in weights.masters:
        master.grad = master.detach() ** 2 + 0.1
    optimizer.step()


def values(weights: MasterWeights) -> list[list[float]]:
    return [master.flatten().tolist() for master in weights.masters]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_goes_on_as_if_it_had_not_stopped(tmp_path: Path, dtype: torch.dtype) -> None:
    weights, optimizer = trained(3, dtype)
    save_checkpoint(tmp_path, 3, weights, optimizer, {"note": "x"}, keep=1)
    other, again = trained(0, dtype)
    found = load_checkpoint(tmp_path, other, again)
    assert found is not None
    assert (found.step, found.state["note"]) == (3, "x")
    for _ in range(4):
        step(weights, optimizer)
        step(other, again)
    assert values(other) == values(weights)


def test_b38_newest_by_number_and_only_complete_ones(tmp_path: Path) -> None:
    weights, optimizer = trained(1)
    assert load_checkpoint(tmp_path / "none", weights, optimizer) is None
    for number in (900, 1000):
        save_checkpoint(tmp_path, number, weights, optimizer, {}, keep=5)
    half = tmp_path / "step-1100"
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"")
    (tmp_path / ".step-1200.tmp").mkdir()
    (tmp_path / "step-best").mkdir()
    found = load_checkpoint(tmp_path, weights, optimizer)
    assert found is not None
    assert found.step == 1000


def test_b38_keeps_the_newest(tmp_path: Path) -> None:
    weights, optimizer = trained(1)
    for number in (900, 1000, 1100):
        save_checkpoint(tmp_path, number, weights, optimizer, {}, keep=2)
    assert names(tmp_path) == ["step-1000", "step-1100"]
    save_checkpoint(tmp_path, 1200, weights, optimizer, {}, keep=1)
    assert names(tmp_path) == ["step-1200"]
    assert json.loads((tmp_path / "step-1200" / "state.json").read_text()) == {"step": 1200}


def test_what_an_interrupted_save_left_is_replaced(tmp_path: Path) -> None:
    weights, optimizer = trained(1)
    left = tmp_path / ".step-1.tmp"
    left.mkdir()
    (left / "state.json").write_text("{")
    (tmp_path / "step-1").mkdir()
    save_checkpoint(tmp_path, 1, weights, optimizer, {}, keep=1)
    assert names(tmp_path) == ["step-1"]
    assert load_checkpoint(tmp_path, weights, optimizer) is not None


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    weights, optimizer = trained(1)
    save_checkpoint(tmp_path, 1, weights, optimizer, {}, keep=1)
    file = tmp_path / "step-1" / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(InputError, match=r"step-1 cannot be read .*; remove that folder"):
        load_checkpoint(tmp_path, weights, optimizer)


def test_another_models_checkpoint_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, *trained(1), {}, keep=1)
    weights = MasterWeights(nn.Linear(4, 2))
    with pytest.raises(InputError, match="belongs to another model"):
        load_checkpoint(tmp_path, weights, torch.optim.AdamW(weights.masters))


def test_what_a_kill_left_unfinished_is_cleared(tmp_path: Path) -> None:
    """At any step: with another checkpoint_every the same step may never be saved again."""
    weights, optimizer = trained(1)
    (tmp_path / ".step-7.tmp").mkdir()
    (tmp_path / ".step-7.tmp" / "weights.safetensors").write_bytes(b"torn")
    save_checkpoint(tmp_path, 8, weights, optimizer, {}, keep=1)
    assert names(tmp_path) == ["step-8"]
