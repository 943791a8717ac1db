"""``training.jsonl``: a line for each optimizer step, and for each measurement on the dev set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instruct_distill.files import write_whole


def write_line(log: Path, record: Mapping[str, Any]) -> None:
    """Append a line."""
    with open(log, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(dict(record), ensure_ascii=False) + "\n")


def cut_log(log: Path, done: int) -> None:
    """Take out the lines of steps after the checkpoint: they are done again."""
    if not log.exists():
        log.parent.mkdir(parents=True, exist_ok=True)
        return
    kept = []
    # bytes: a kill may have torn the last line inside a character
    for line in log.read_bytes().splitlines():
        try:
            if json.loads(line)["step"] <= done:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            break
    with write_whole(log, "wb") as stream:
        stream.writelines(line + b"\n" for line in kept)
