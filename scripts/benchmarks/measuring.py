"""What every benchmark does in the same way: take turns, measure the machine's own limit, write its line.

A measurement on a machine that others use is worth something only beside another of the same minutes:
systems take turns, and medians are compared. The limit is the rate of plain matrix products, measured
between the turns.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from instruct_distill.environment import environment

ROOT = Path(__file__).resolve().parents[2]
LINES = ROOT / "docs" / "benchmarks"
"""Where the lines of real runs are kept."""

ROWS = 4096
"""Rows of the matrices whose product is the limit: a full batch of tokens."""


class HasSeconds(Protocol):
    """Anything that knows how long it took."""

    @property
    def seconds(self) -> float:
        """Wall time."""


Measured = TypeVar("Measured", bound=HasSeconds)
Name = TypeVar("Name", bound=Hashable)


class Timed(NamedTuple):
    """One piece of work, done.

    Args:
        answers: what came out.
        seconds: wall time.
        busy: what all threads of the process computed in that time, in seconds.
    """

    answers: Any
    seconds: float
    busy: float


def timed(work: Callable[[], Any]) -> Timed:
    """Do some work and say how long it took; a GPU is waited for."""
    began, busy = time.perf_counter(), time.process_time()
    answers = work()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()
    return Timed(answers, time.perf_counter() - began, time.process_time() - busy)


def take_turns(
    systems: Mapping[Name, Callable[[], Measured]],
    rounds: int,
    rate: Callable[[Name], float] = lambda name: 1.0,
) -> dict[Name, list[tuple[Measured, float]]]:
    """Let the systems do the same work, one after another, each round begun by the next of them.

    Args:
        systems: name → what it does.
        rounds: turns of each.
        rate: measures the machine's limit for a system, before and after each of its turns.

    Returns:
        name → its turns, each with the mean of the limits before and after it.
    """
    names = [*systems]
    found: dict[Name, list[tuple[Measured, float]]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            before = rate(name)
            done = systems[name]()
            found[name].append((done, (before + rate(name)) / 2))
    return found


def seconds_of(turns: Sequence[tuple[HasSeconds, float]]) -> float:
    """The median of some turns."""
    return statistics.median(done.seconds for done, _ in turns)


def share_of(turns: Sequence[tuple[HasSeconds, float]], operations: float) -> float:
    """The median share of the machine's limit that so many useful operations a turn come to."""
    return statistics.median(operations / done.seconds / rate for done, rate in turns)


def matrix_rate(width: int, inner: int, dtype: Any, seconds: float, device: str = "cpu") -> float:
    """Operations a second of a feed-forward layer's two matrix products on a full batch, the best of some.

    Args:
        width: the model's.
        inner: the feed-forward layer's.
        dtype: torch's.
        seconds: how long to try.
        device: where.
    """
    import torch

    rows = torch.randn(ROWS, width, device=device).to(dtype)
    up = torch.randn(width, inner, device=device).to(dtype)
    down = torch.randn(inner, width, device=device).to(dtype)
    with torch.inference_mode():
        (rows @ up) @ down
        best, end, done = float("inf"), time.perf_counter() + seconds, 0
        while time.perf_counter() < end or done < 5:
            done += 1
            best = min(best, timed(lambda: (rows @ up) @ down).seconds)
    return 4 * ROWS * width * inner / best


def line_of(work: str, script: str, given: Sequence[str], *, smoke: bool, **content: Any) -> dict[str, Any]:
    """Return a line of a benchmark's file.

    Args:
        work: what was measured.
        script: the file's name.
        given: its arguments.
        smoke: whether it was the small size, whose figures mean nothing.
        content: what came out.
    """
    return {
        "work": work,
        "date": datetime.date.today().isoformat(),
        "smoke": smoke,
        "command": " ".join(["python", f"scripts/benchmarks/{script}", *given]),
        "environment": environment(),
        "busy_machine": busy_machine(),
        **content,
    }


def busy_machine() -> float | None:
    """Processes that wanted a core in the last minute, this one included; None where nobody counts them."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def append(line: Mapping[str, Any], out: Path | None, default: str) -> None:
    """Append a line to a file.

    Args:
        line: from :func:`line_of`.
        out: the file that was asked for, or None.
        default: the file of ``docs/benchmarks`` for a real run; a smoke run writes nothing there.
    """
    if out is None and line["smoke"]:
        return
    out = out or LINES / default
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(out, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; its first column is text, the others are figures."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a command line with what every benchmark takes."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--smoke", action="store_true", help="the smallest size, in seconds; figures mean nothing"
    )
    made.add_argument("--rounds", type=int, default=3, help="turns of each system (3)")
    made.add_argument("--out", type=Path, help="where the line goes; nowhere with --smoke")
    return made


def data_folder(made: argparse.ArgumentParser) -> Path:
    """Return the folder of collections; without one the command line ends with an error."""
    folder = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not folder:
        made.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl, scifact and t5-tokenizer")
    return Path(folder)
