from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from instruct_distill.errors import InputError
from instruct_distill.training.checkpoints import load_checkpoint, save_checkpoint
from instruct_distill.training.parameters import TrainingParameters
from instruct_distill.training.updates.plain import PlainUpdater


class Weights(PlainUpdater):
    """Three times two weights, with the gradient w² + 0.1."""

    def __init__(self, dtype: torch.dtype = torch.float32, width: int = 3) -> None:
        torch.manual_seed(0)
        self.layer = nn.Linear(width, 2, dtype=dtype)
        super().__init__(self.layer, TrainingParameters(clip=0.0))  # type: ignore[arg-type]

    def learn(self, steps: int) -> Weights:
        for _ in range(steps):
            for weight in self.layer.parameters():
                self.backward(weight, weight.detach() ** 2 + 0.1, last=True)
            self.step(0.01)
        return self

    @property
    def values(self) -> list[list[float]]:
        return [weight.flatten().tolist() for weight in self.layer.parameters()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_goes_on_as_if_it_had_not_stopped(tmp_path: Path, dtype: torch.dtype) -> None:
    weights = Weights(dtype).learn(3)
    save_checkpoint(tmp_path, 3, weights, {"note": "x"}, keep=1)
    other = Weights(dtype)
    assert other.values != weights.values
    found = load_checkpoint(tmp_path, other)
    assert found is not None
    assert (found.step, found.state["note"]) == (3, "x")
    assert other.learn(4).values == weights.learn(4).values


def test_b38_newest_by_number_and_only_complete_ones(tmp_path: Path) -> None:
    weights = Weights().learn(1)
    assert load_checkpoint(tmp_path / "none", weights) is None
    for number in (900, 1000):
        save_checkpoint(tmp_path, number, weights, {}, keep=5)
    half = tmp_path / "step-1100"
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"")
    (tmp_path / ".step-1200.tmp").mkdir()
    (tmp_path / "step-best").mkdir()
    found = load_checkpoint(tmp_path, weights)
    assert found is not None
    assert found.step == 1000


def test_b38_keeps_the_newest(tmp_path: Path) -> None:
    weights = Weights().learn(1)
    for number in (900, 1000, 1100):
        save_checkpoint(tmp_path, number, weights, {}, keep=2)
    assert names(tmp_path) == ["step-1000", "step-1100"]
    save_checkpoint(tmp_path, 1200, weights, {}, keep=1)
    assert names(tmp_path) == ["step-1200"]
    assert json.loads((tmp_path / "step-1200" / "state.json").read_text())["step"] == 1200


def test_b38_keeps_all_and_never_none(tmp_path: Path) -> None:
    weights = Weights().learn(1)
    for number in (900, 1000, 1100):
        save_checkpoint(tmp_path, number, weights, {}, keep="all")
    assert names(tmp_path) == ["step-1000", "step-1100", "step-900"]
    assert TypeAdapter(TrainingParameters).validate_python({"keep": "all"}).keep == "all"
    for number in (0, -1):  # what other programs take for all, or for none
        with pytest.raises(ValidationError, match="keep"):
            TypeAdapter(TrainingParameters).validate_python({"keep": number})


def test_b38_the_best_stays_beside_the_newest_and_all_means_all(tmp_path: Path) -> None:
    weights = Weights().learn(1)
    for number in (90, 100, 1000):
        save_checkpoint(tmp_path, number, weights, {}, keep=1, best=100 if number > 90 else 90)
    assert names(tmp_path) == ["step-100", "step-1000"]
    save_checkpoint(tmp_path, 1100, weights, {}, keep="all")
    assert names(tmp_path) == ["step-100", "step-1000", "step-1100"]


def test_what_an_interrupted_save_left_is_replaced(tmp_path: Path) -> None:
    weights = Weights().learn(1)
    left = tmp_path / ".step-1.tmp"
    left.mkdir()
    (left / "state.json").write_text("{")
    (tmp_path / "step-1").mkdir()
    save_checkpoint(tmp_path, 1, weights, {}, keep=1)
    assert names(tmp_path) == ["step-1"]
    assert load_checkpoint(tmp_path, weights) is not None


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    weights = Weights().learn(1)
    save_checkpoint(tmp_path, 1, weights, {}, keep=1)
    file = tmp_path / "step-1" / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(InputError, match=r"step-1 cannot be read .*; remove that folder"):
        load_checkpoint(tmp_path, weights)


def test_another_models_checkpoint_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, Weights().learn(1), {}, keep=1)
    with pytest.raises(InputError, match="belongs to another model"):
        load_checkpoint(tmp_path, Weights(width=4))


def test_what_a_kill_left_unfinished_is_cleared(tmp_path: Path) -> None:
    """At any step: with another checkpoint_every the same step may never be saved again."""
    weights = Weights().learn(1)
    (tmp_path / ".step-7.tmp").mkdir()
    (tmp_path / ".step-7.tmp" / "weights.safetensors").write_bytes(b"torn")
    save_checkpoint(tmp_path, 8, weights, {}, keep=1)
    assert names(tmp_path) == ["step-8"]
