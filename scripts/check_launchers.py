"""Train the same student under every launch file, and compare: one command for a machine with GPUs.

    python scripts/check_launchers.py --model FOLDER

Candidates and labels of the example collection are made once; then the stage ``train`` runs with each file of
``recipes/launch``, in fp32 on the same lists, and what it did is compared with one process without a launch
file: the largest relative difference of a step's loss, and of a score of the written student. The number of
processes is that of the GPUs (two for a machine without). The table says what was left out, and why; the exit
status is 1 where a launch failed or learned something else.

The model is a small T5-like or decoder-only folder without dropout (a T5's ``dropout_rate`` can be set to 0
in its config.json): dropout draws by process, and is no mistake.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch

ROOT = Path(__file__).resolve().parents[1]
LAUNCH = ROOT / "recipes" / "launch"
ALLOWED = 1e-3
"""Largest relative difference: several processes add up in another order, and AdamW makes much of little."""


class Outcome(NamedTuple):
    """What a training did.

    Args:
        losses: of its steps.
        scores: of the written student.
    """

    losses: list[float]
    scores: list[float]


class Row(NamedTuple):
    """A line of the table.

    Args:
        name: the launch file.
        processes: how many were started; 0 where it was left out.
        result: ``ok``, or what is wrong, or why it was left out.
        seconds: of the stage, start included.
        loss: largest relative difference of a loss.
        score: largest difference of a score, relative to the largest score.
    """

    name: str
    processes: int
    result: str
    seconds: float = 0.0
    loss: float = 0.0
    score: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether it was tried and is not as it should be."""
        return self.processes > 0 and self.result != "ok"


def processes_of(name: str, gpus: int) -> tuple[int, str]:
    """Return how many processes to start for a launch file, or 0 and why none."""
    if name.startswith("deepspeed") and find_spec("deepspeed") is None:
        return 0, "the extra deepspeed is not installed"
    if name == "cpu":
        return 1, ""
    if name == "gpu":
        return (1, "") if gpus else (0, "no GPU")
    if name in ("multi-gpu", "multi-node"):
        return (gpus // 2 * 2, "") if gpus > 1 else (0, f"needs 2 GPUs, here: {gpus}")
    return (gpus or 2), ""


def commands(name: str, processes: int, stage: Sequence[str]) -> list[list[str]]:
    """Return the commands that are run at one time: one a machine, several of which are this one."""
    start = [sys.executable, "-m", "accelerate.commands.launch", "--num_cpu_threads_per_process", "1"]
    start += ["--config_file", str(LAUNCH / f"{name}.yaml"), "--num_processes", str(processes)]
    if name == "multi-node":
        start += ["--num_machines", "2", "--main_process_ip", "127.0.0.1", "--main_process_port", "29511"]
        return [[*start, "--machine_rank", str(rank), *stage] for rank in range(2)]
    return [[*start, "--main_process_port", "0", *stage]]


def visible(processes: int, machine: int, machines: int) -> dict[str, str]:
    """Return the variable that gives each of several machines on this one its own GPUs."""
    if machines == 1:
        return {}
    own = processes // machines
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(machine * own, (machine + 1) * own)))}


def run_all(started: Sequence[Sequence[str]], processes: int, log: Path) -> bool:
    """Run commands at one time; return whether all of them ended well."""
    with open(log, "w", encoding="utf-8") as stream:
        running = [
            subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **visible(processes, machine, len(started))},
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
            for machine, command in enumerate(started)
        ]
        statuses = [process.wait() for process in running]
    return not any(statuses)


def outcome(run: Path) -> Outcome:
    """Read what a finished stage ``train`` left, and score two texts with its student on the CPU."""
    from instruct_distill import Reranker

    lines = (run / "training.jsonl").read_text(encoding="utf-8").splitlines()
    reranker = Reranker.from_pretrained(run / "student", device="cpu", dtype="fp32")
    texts = ("The lighthouse keeper trims the lamp.", "A recipe for bread with seeds.")
    scores = reranker.score([("who looks after the lamp", text) for text in texts])
    return Outcome([json.loads(line)["loss"] for line in lines], [float(score) for score in scores])


def compare(name: str, processes: int, seconds: float, expected: Outcome, found: Outcome) -> Row:
    """Return the line of the table for a training that ended."""
    loss = max(abs(a - b) / max(abs(a), 1e-6) for a, b in zip(expected.losses, found.losses, strict=True))
    largest = max(map(abs, expected.scores))
    score = max(abs(a - b) for a, b in zip(expected.scores, found.scores, strict=True)) / largest
    result = "ok" if max(loss, score) <= ALLOWED else "learned something else"
    return Row(name, processes, result, seconds, loss, score)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text."""
    lines = [f"{'launch file':26} {'processes':>9} {'seconds':>8} {'loss':>9} {'score':>9}  result"]
    for row in rows:
        figures = f"{'-':>9} {'-':>8} {'-':>9} {'-':>9}"
        if row.processes:
            figures = f"{row.processes:9d} {row.seconds:8.1f} {row.loss:9.1e} {row.score:9.1e}"
        lines.append(f"{row.name:26} {figures}  {row.result if row.processes else 'left out: ' + row.result}")
    return "\n".join(lines)


def check(
    model: str, recipe: Path, overrides: Sequence[str], names: Sequence[str], gpus: int, work: Path
) -> list[Row]:
    """Train under each launch file.

    Args:
        model: the folder of a small model, for teacher and student.
        recipe: the recipe.
        overrides: ``key=value`` strings for it.
        names: the launch files, without ``.yaml``.
        gpus: how many GPUs there are.
        work: an empty folder.

    Raises:
        SystemExit: the run without a launch file failed.
    """
    keys = [f"runs={work / 'runs'}", f"student.model={model}", f"teacher.model={model}"]
    keys += ["training.precision=fp32", "student.dtype=fp32", *overrides]

    def stage(verb: str, name: str) -> list[str]:
        return ["-m", "instruct_distill", verb, str(recipe), f"name={name}", *keys]

    log = work / "alone.log"
    if not run_all([[sys.executable, *stage("label", "labelled")]], 1, log):
        raise SystemExit(f"labelling failed:\n{log.read_text(encoding='utf-8')[-3000:]}")
    shutil.copytree(work / "runs" / "labelled", work / "runs" / "alone")
    if not run_all([[sys.executable, *stage("train", "alone")]], 1, log):
        raise SystemExit(f"training failed:\n{log.read_text(encoding='utf-8')[-3000:]}")
    expected = outcome(work / "runs" / "alone")

    rows = []
    for name in names:
        processes, why = processes_of(name, gpus)
        if not processes:
            rows.append(Row(name, 0, why))
            continue
        run, log = work / "runs" / name, work / f"{name}.log"
        shutil.copytree(work / "runs" / "labelled", run)
        began = time.monotonic()
        ended_well = run_all(commands(name, processes, stage("train", name)), processes, log)
        seconds = time.monotonic() - began
        if ended_well:
            rows.append(compare(name, processes, seconds, expected, outcome(run)))
        else:
            last = log.read_text(encoding="utf-8").strip().splitlines()[-1:]
            rows.append(Row(name, processes, f"failed: {log}: {' '.join(last)[:120]}", seconds))
        print(table(rows[-1:]).splitlines()[1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Parse the command line, check, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = sorted(path.stem for path in LAUNCH.glob("*.yaml"))
    parser.add_argument("--model", required=True, help="folder of a small model without dropout")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="for the recipe")
    parser.add_argument("--recipe", type=Path, default=ROOT / "recipes" / "tiny.yaml")
    parser.add_argument("--only", nargs="+", choices=known, default=known, metavar="NAME")
    parser.add_argument("--logs", type=Path, help="an empty or new folder where runs and logs stay")
    arguments = parser.parse_args()
    os.environ.setdefault("INSTRUCT_DISTILL_TINY_T5", arguments.model)
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.logs or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        gpus = torch.cuda.device_count()
        recipe, overrides = arguments.recipe, arguments.overrides
        rows = check(arguments.model, recipe, overrides, arguments.only, gpus, work.resolve())
        print(table(rows))
        if any(row.failed for row in rows):
            raise SystemExit(1)


if __name__ == "__main__":
    main()
