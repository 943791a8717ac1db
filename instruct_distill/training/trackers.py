"""TensorBoard, Weights & Biases, MLflow and the other trackers that accelerate knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

from instruct_distill.errors import InputError
from instruct_distill.registry import nearest


class Trackers:
    """Where the figures of each step go besides ``training.jsonl``; used by the main process alone.

    Args:
        names: accelerate's names, such as ``tensorboard``.
        run: the name of the run.
        folder: where trackers that write files put them.
        settings: what is noted once.

    Raises:
        InputError: there is no such tracker, or its package is not installed.
    """

    def __init__(self, names: Sequence[str], run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self._open = []
        installed = [str(name.value) for name in get_available_trackers()]
        for name in names:
            if name not in LOGGER_TYPE_TO_CLASS:
                known = list(LOGGER_TYPE_TO_CLASS)
                raise InputError(
                    f"unknown tracker {name!r}{nearest(name, known)} (known: {', '.join(sorted(known))})"
                )
            if name not in installed:
                raise InputError(f"tracker {name!r}: its package is not installed; pip install {name}")
            make = LOGGER_TYPE_TO_CLASS[name]
            tracker = make(run, str(folder)) if make.requires_logging_directory else make(run)
            tracker.start()
            tracker.store_init_configuration(dict(settings))
            self._open.append(tracker)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Note the figures of an optimizer step."""
        for tracker in self._open:
            tracker.log(dict(values), step=step)

    def close(self) -> None:
        """Write what is still held back."""
        for tracker in self._open:
            tracker.finish()
