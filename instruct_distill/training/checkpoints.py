"""Checkpoints: complete or absent, newest by number, resumed exactly."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file

from instruct_distill.errors import InputError
from instruct_distill.files import read_json
from instruct_distill.training.master_weights import MasterWeights

_NAME = re.compile(r"step-(\d+)")
_ADAM_STATE = ("step", "exp_avg", "exp_avg_sq")


class Checkpoint(NamedTuple):
    """What a checkpoint holds besides tensors.

    Args:
        step: optimizer steps that are done.
        state: what the loop wants back.
    """

    step: int
    state: dict[str, Any]


def _complete(folder: Path) -> list[tuple[int, Path]]:
    """Complete checkpoints, oldest first, by number: step-900 comes before step-1000."""
    if not folder.is_dir():
        return []
    found = [(int(m.group(1)), path) for path in folder.iterdir() if (m := _NAME.fullmatch(path.name))]
    return sorted((step, path) for step, path in found if (path / "state.json").exists())


def save_checkpoint(
    folder: Path,
    step: int,
    weights: MasterWeights,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    keep: int,
) -> None:
    """Write ``step-N``, under a temporary name until it is whole, and remove all but the newest ``keep``."""
    target = folder / f"step-{step}"
    temporary = folder / f".step-{step}.tmp"
    for unfinished in folder.glob(".step-*.tmp"):  # left by a process that was killed
        shutil.rmtree(unfinished, ignore_errors=True)
    temporary.mkdir(parents=True)
    masters = {name: master.detach() for name, (_, master) in weights.named.items()}
    save_file(
        {name: tensor.contiguous() for name, tensor in masters.items()}, temporary / "weights.safetensors"
    )
    adam = {
        f"{key}/{name}": optimizer.state[master][key].contiguous()
        for name, (_, master) in weights.named.items()
        if master in optimizer.state
        for key in _ADAM_STATE
    }
    save_file(adam, temporary / "optimizer.safetensors")
    (temporary / "state.json").write_text(json.dumps({"step": step, **state}), encoding="utf-8")
    for file in temporary.iterdir():
        with open(file, "rb") as stream:
            os.fsync(stream.fileno())
    if target.exists():
        shutil.rmtree(target)
    os.replace(temporary, target)
    for _, old in _complete(folder)[:-keep]:
        shutil.rmtree(old)


def load_checkpoint(
    folder: Path, weights: MasterWeights, optimizer: torch.optim.Optimizer
) -> Checkpoint | None:
    """Load the newest complete checkpoint into weights and optimizer; None where there is none.

    Raises:
        InputError: the checkpoint is damaged or belongs to another model.
    """
    complete = _complete(folder)
    if not complete:
        return None
    step, path = complete[-1]
    try:
        saved = load_file(path / "weights.safetensors")
        adam = load_file(path / "optimizer.safetensors")
    except Exception as error:  # safetensors raises its own type for a damaged file
        raise InputError(
            f"{path} cannot be read ({error}); remove that folder to go on from an earlier state"
        ) from None
    shapes = {name: master.shape for name, (_, master) in weights.named.items()}
    if {name: tensor.shape for name, tensor in saved.items()} != shapes:
        raise InputError(f"{path} belongs to another model: names or shapes of its weights differ")
    weights.load(saved)
    for name, (_, master) in weights.named.items():
        if f"{_ADAM_STATE[0]}/{name}" in adam:
            optimizer.state[master] = {key: adam[f"{key}/{name}"].to(master.device) for key in _ADAM_STATE}
    return Checkpoint(step, read_json(path / "state.json"))
