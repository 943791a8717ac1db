"""Checkpoints: complete or absent, newest by number, resumed exactly."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, Literal, NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.files import read_json
from instruct_distill.training.processes import process_state
from instruct_distill.training.updates.updater import Updater

_NAME = re.compile(r"step-(\d+)")


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
    updater: Updater,
    state: dict[str, Any],
    keep: int | Literal["all"],
    best: int | None = None,
) -> None:
    """Write ``step-N``, under a temporary name until it is whole; remove all but the newest and the best.

    Every process calls it: each may have a part of the weights to write.

    Args:
        folder: where checkpoints are.
        step: optimizer steps that are done.
        updater: holds weights and optimizer.
        state: what the loop wants back.
        keep: how many of the newest stay.
        best: the step whose checkpoint stays in any case.
    """
    processes = process_state()
    temporary = folder / f".step-{step}.tmp"
    if processes.is_main_process:
        for unfinished in folder.glob(".step-*.tmp"):  # left by a process that was killed
            shutil.rmtree(unfinished, ignore_errors=True)
        temporary.mkdir(parents=True)
    processes.wait_for_everyone()
    updater.save(temporary)
    processes.wait_for_everyone()
    if processes.is_main_process:
        launch = {"kind": updater.kind, "processes": processes.num_processes}
        _complete_checkpoint(folder, temporary, {"step": step, "launch": launch, **state})
        if keep != "all":
            for number, old in _complete(folder)[:-keep]:
                if number != best:
                    shutil.rmtree(old)
    processes.wait_for_everyone()


def _complete_checkpoint(folder: Path, temporary: Path, state: dict[str, Any]) -> None:
    (temporary / "state.json").write_text(json.dumps(state), encoding="utf-8")
    for file in temporary.rglob("*"):
        if file.is_file():
            with open(file, "rb") as stream:
                os.fsync(stream.fileno())
    target = folder / f"step-{state['step']}"
    if target.exists():
        shutil.rmtree(target)
    os.replace(temporary, target)


def load_checkpoint(folder: Path, updater: Updater) -> Checkpoint | None:
    """Load the newest complete checkpoint into weights and optimizer; None where there is none.

    Raises:
        InputError: the checkpoint is damaged or belongs to another model, or its weights are spread in
            another way than this launch spreads them.
    """
    complete = _complete(folder)
    if not complete:
        return None
    step, path = complete[-1]
    state = read_json(path / "state.json")
    made = state.pop("launch", None) if isinstance(state, dict) else None
    if not isinstance(made, dict) or not {"kind", "processes"} <= made.keys() or state.get("step") != step:
        raise InputError(f"{path / 'state.json'}: damaged; remove {path} to go on from the one before it")
    processes = process_state().num_processes
    if made["kind"] != updater.kind or (updater.in_lockstep and made["processes"] != processes):
        raise InputError(
            f"{path} was made by a launch of the kind {made['kind']} with {made['processes']} processes; "
            f"this one is {updater.kind} with {processes}. Launch as before, or remove {folder} to train "
            "from the start"
        )
    updater.load(path)
    return Checkpoint(step, state)


def load_step(folder: Path, step: int, updater: Updater) -> None:
    """Load the weights of a step's checkpoint.

    Raises:
        InputError: it is not there, or is damaged.
    """
    path = folder / f"step-{step}"
    if not (path / "state.json").exists():
        raise InputError(f"{path}, the best checkpoint, is not there; use redo=train")
    updater.load(path)
