"""What a stage of a run leaves behind: ``STAGE.done.json``, and how it is known that it is still valid."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from instruct_distill.errors import InputError, StaleStageError
from instruct_distill.files import read_json, write_json

STAGES = ("write", "retrieve", "label", "train", "evaluate")
"""The stages in their order; ``write`` is there only where a recipe has queries written."""

OUTPUTS = {
    "write": ("queries.jsonl", "queries.answers.jsonl"),
    "retrieve": ("candidates.trec", "evaluation/*/first_stage.trec", "evaluation/*/qrels.txt"),
    "label": ("labels.jsonl", "labels.jsonl.process-*"),
    "train": ("checkpoints", "student", "training.jsonl"),
    "evaluate": ("evaluation/summary.json", "evaluation/table.txt", "evaluation/*/*", "report.html"),
}
"""What each stage writes into the run's folder, as glob patterns."""


NEEDED = {
    "write": ("queries.jsonl",),
    "retrieve": ("candidates.trec",),
    "label": ("labels.jsonl",),
    "train": ("student/reranker.json",),
    "evaluate": ("evaluation/summary.json",),
}
"""What a finished stage has left without fail."""


def this_process() -> tuple[int, int]:
    """Return (rank, number of processes) of this launch, without importing torch."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def digest(*paths: str | os.PathLike[str]) -> str:
    """Return a SHA-256 over the content of files, those that are not there included as such."""
    total = hashlib.sha256()
    for path in map(Path, paths):
        size = path.stat().st_size if path.exists() else None
        total.update(f"{path.name}\0{size}\0".encode())
        if size is not None:
            with open(path, "rb") as stream:
                while block := stream.read(1 << 22):
                    total.update(block)
    return total.hexdigest()


def outputs(folder: Path, stage: str) -> list[Path]:
    """Return the files and folders that a stage, finished or not, has left in a run's folder."""
    found = dict.fromkeys(path for pattern in OUTPUTS[stage] for path in sorted(folder.glob(pattern)))
    # what was retrieved for each task lies among the systems' runs
    retrieved = ("first_stage.trec", "qrels.txt")
    return [path for path in found if stage == "retrieve" or path.name not in retrieved]


def flatten(content: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested dicts and lists as one dict with dotted keys."""
    if isinstance(content, Mapping):
        items = [(str(key), value) for key, value in content.items()]
    elif isinstance(content, (list, tuple)):
        items = [(str(key), value) for key, value in enumerate(content)]
    else:
        return {prefix: content}
    flat: dict[str, Any] = {}
    for key, value in items:
        flat.update(flatten(value, f"{prefix}.{key}" if prefix else key))
    return flat


class Stage:
    """One stage of one run.

    Args:
        folder: the run's folder.
        name: one of :data:`STAGES`.
        keys: the parts of the recipe that the stage reads.
        inputs: name → fingerprint of what it reads besides.
        grows: keys whose larger value goes on from what is there, such as the number of epochs.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        keys: Mapping[str, Any],
        inputs: Mapping[str, str],
        grows: Sequence[str] = (),
    ) -> None:
        self.folder, self.name = folder, name
        self._grows = grows
        self._reads = {"keys": flatten(keys), "inputs": dict(inputs)}
        text = json.dumps(self._reads, sort_keys=True, ensure_ascii=False)
        self._hash = hashlib.sha256(text.encode("utf-8")).hexdigest()

    @property
    def done_file(self) -> Path:
        """Written last."""
        return self.folder / f"{self.name}.done.json"

    @property
    def _started_file(self) -> Path:
        return self.folder / f"{self.name}.started.json"

    def outcome(self) -> dict[str, Any] | None:
        """Return what the finished stage found out, or None where it is not finished.

        Raises:
            StaleStageError: the stage, finished or begun, belongs to another recipe or to other inputs.
        """
        for file in (self.done_file, self._started_file):
            there = _note(file)
            if there is not None:
                if not isinstance(there, dict) or "hash" not in there:
                    raise InputError(f"{file}: damaged; use redo={self.name} to make the stage again")
                if there["hash"] != self._hash:
                    if self._goes_on_from(there):
                        continue
                    if file == self._started_file and not outputs(self.folder, self.name):
                        return None  # it stopped before it wrote anything, at a misspelt model say
                    raise StaleStageError(self._difference(there))
                if file == self.done_file:
                    if any(not list(self.folder.glob(name)) for name in NEEDED[self.name]):
                        raise InputError(
                            f"{self.folder}: the stage {self.name} was finished, but "
                            f"{' or '.join(NEEDED[self.name])} is not there; use redo={self.name}"
                        )
                    outcome: dict[str, Any] = there["outcome"]
                    return outcome
        return None

    def _goes_on_from(self, there: Mapping[str, Any]) -> bool:
        """Whether all that differs is that a key that may grow has grown."""
        old, new = dict(there.get("keys", {})), dict(self._reads["keys"])
        grown = [key for key in self._grows if key in old and key in new and old[key] < new[key]]
        for key in grown:
            del old[key], new[key]
        return bool(grown) and old == new and there.get("inputs") == self._reads["inputs"]

    def begin(self) -> None:
        """Note what the stage is about to be made from, so that its unfinished files are not mistaken."""
        write_json(self._started_file, {"hash": self._hash, **self._reads})

    def finish(self, outcome: Mapping[str, Any]) -> None:
        """Write the done-file."""
        write_json(self.done_file, {"hash": self._hash, **self._reads, "outcome": dict(outcome)})
        self._started_file.unlink(missing_ok=True)

    def wait(self) -> dict[str, Any]:
        """Wait until the main process has finished the stage, and return its outcome.

        Polls the file rather than waiting in a collective operation, which would time out after some minutes.
        """
        while (outcome := self.outcome()) is None:
            time.sleep(0.2)
        return outcome

    def _difference(self, there: Mapping[str, Any]) -> str:
        lines = []
        for kind in ("keys", "inputs"):
            old, new = there.get(kind, {}), self._reads[kind]
            for key in dict.fromkeys([*old, *new]):
                if old.get(key) != new.get(key):
                    lines.append(f"  {key}: {_short(old.get(key))} there, {_short(new.get(key))} now")
        return "\n".join(
            [
                f"{self.folder}: the stage '{self.name}' was made from something else than this recipe says",
                *lines[:20],
                "Two ways on: give the run another name (name=...), or make the stage and those after it "
                f"again (redo={self.name}; the old files are moved aside).",
            ]
        )


def _note(file: Path) -> Any:
    """Return the content of a stage's file, or None where there is none."""
    if not file.exists():
        return None
    try:
        return read_json(file) or {}
    except InputError:
        if file.exists():
            raise
        return None  # the main process has finished the stage in this moment


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def redo(folder: Path, stage: str) -> Path | None:
    """Move the files of a stage and of those after it aside; nothing is deleted.

    Returns:
        the folder where they are now, or None where there was nothing to move.

    Raises:
        InputError: there is no such stage.
    """
    if stage not in STAGES:
        raise InputError(f"redo={stage}: unknown stage (known: {', '.join(STAGES)})")
    there: list[Path] = []
    for name in STAGES[STAGES.index(stage) :]:
        notes = [folder / f"{name}.done.json", folder / f"{name}.started.json"]
        there += [path for path in notes if path.exists()] + outputs(folder, name)
    if not there:
        return None
    number = 1
    while (aside := folder / f"old-{number}").exists():
        number += 1
    # a file goes before the folder that holds it
    for path in sorted(set(there), reverse=True):
        target = aside / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
    return aside
