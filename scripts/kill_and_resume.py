"""Kill a run at random moments, start it again each time, and compare with a run that was left alone.

    python scripts/kill_and_resume.py recipes/tiny.yaml --kills 10
    python scripts/kill_and_resume.py recipes/tiny.yaml --kills 20 --processes 2 --labelling

(without a GPU the second needs ACCELERATE_USE_CPU=true.)

The label file must be the same byte for byte, and every figure of ``summary.json`` the same, times excepted.
A moment is a random share of the time that an undisturbed run takes, so all stages are hit. A run that ends
before its moment comes is made anew, until all kills are done.

With ``--labelling`` every kill comes while lists are being labelled, until the last shard is merged: after a
random number of the lists that are missing, and a random part of a second. What must be the same is the label
file, that of one undisturbed process. With several processes every other kill hits one of them only, the
others being ended by the launcher; the rest hit all of them and the launcher at once.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[1]
_LOOK = 0.01
_AFTER = 0.5
"""Seconds in which a kill comes once its number of lists is labelled: as long as the main process sleeps
between two looks at the others' shards."""


class Run(NamedTuple):
    """What is run again and again.

    Args:
        recipe: the recipe's file.
        overrides: ``key=value`` strings for it.
        smoke: run the recipe in its smallest size.
        processes: how many the launcher starts.
    """

    recipe: str
    overrides: Sequence[str] = ()
    smoke: bool = False
    processes: int = 1

    def command(self, folder: Path) -> list[str]:
        """The command line of one run; ``folder`` is where its folder goes."""
        several = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(self.processes)]
        launcher = several if self.processes > 1 else []
        options = ["--smoke"] if self.smoke else []
        train = str(ROOT / "train.py")
        return [sys.executable, *launcher, train, self.recipe, f"runs={folder}", *self.overrides, *options]

    def start(self, folder: Path) -> subprocess.Popen[bytes]:
        """Start a run; what it says is not kept."""
        quiet = subprocess.DEVNULL
        return subprocess.Popen(self.command(folder), cwd=ROOT, stdout=quiet, stderr=quiet)

    def finish(self, folder: Path) -> float:
        """Run to the end; return the seconds that it took."""
        start = time.monotonic()
        done = subprocess.run(self.command(folder), cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the run failed with status {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return time.monotonic() - start


def kill(process: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to a run: the launcher and every process that it started."""
    launcher = psutil.Process(process.pid)
    launcher.suspend()  # it starts nothing while its processes are counted
    family = [launcher, *launcher.children(recursive=True)]
    for each in family:
        each.kill()
    process.wait()
    psutil.wait_procs(family)


def kill_one(process: subprocess.Popen[bytes], draw: random.Random) -> int:
    """Send SIGKILL to one of the launcher's processes and wait until the launcher has ended the others.

    Returns:
        the number of the one that was killed.
    """
    workers = sorted(psutil.Process(process.pid).children(), key=lambda worker: int(worker.pid))
    number = draw.randrange(len(workers))
    workers[number].kill()
    process.wait()
    psutil.wait_procs(workers)
    return number


def until(process: subprocess.Popen[bytes], due: Callable[[], bool]) -> bool:
    """Wait for a moment; return whether the run was still at work when it came."""
    while process.poll() is None:
        if due():
            return True
        time.sleep(_LOOK)
    return False


# -- any moment ---------------------------------------------------------------------------------------------


def outcome(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """The bytes of the label file, and the figures without times."""
    (run,) = (path for path in folder.iterdir() if path.is_dir())
    summary = json.loads((run / "evaluation" / "summary.json").read_text(encoding="utf-8"))
    del summary["_meta"]["seconds_per_query"]
    return (run / "labels.jsonl").read_bytes(), summary


def kill_and_resume(
    run: Run,
    *,
    kills: int,
    seed: int,
    work: Path,
    undisturbed: Path | None = None,
    within: float | None = None,
) -> list[str]:
    """Return one line a kill: when it came and which stages had been finished.

    Args:
        run: what is run.
        kills: how many.
        seed: the moments are a function of it.
        work: an empty folder.
        undisturbed: the ``runs`` folder of a finished run of the same recipe; made first where left out.
        within: seconds in which a kill comes; the time of the undisturbed run where left out.

    Raises:
        SystemExit: a run failed, or its outcome differs from that of the undisturbed run.
    """
    draw = random.Random(seed)
    if undisturbed is None:
        undisturbed = work / "undisturbed"
        whole = run.finish(undisturbed)
        within = within or whole
    expected = outcome(undisturbed)
    assert within is not None
    folder = work / "killed"
    log: list[str] = []
    while len(log) < kills:
        process = run.start(folder)
        moment = draw.uniform(0.1, 1.0) * within
        end = time.monotonic() + moment
        if until(process, lambda end=end: time.monotonic() >= end):  # type: ignore[misc]
            kill(process)
            stages = sorted(path.name.split(".")[0] for path in folder.glob("*/*.done.json"))
            log.append(f"killed after {moment:.1f} s; finished: {', '.join(stages) or 'nothing'}")
            continue
        if process.returncode:
            run.finish(folder)
        check(expected, outcome(folder))
        shutil.rmtree(folder)
    run.finish(folder)
    check(expected, outcome(folder))
    return log


def check(expected: tuple[bytes, dict[str, Any]], found: tuple[bytes, dict[str, Any]]) -> None:
    """Compare two outcomes."""
    if expected[0] != found[0]:
        raise SystemExit("the label file of the killed run differs from that of the undisturbed run")
    if expected[1] != found[1]:
        raise SystemExit(f"the figures differ:\n{expected[1]}\n{found[1]}")


# -- while labelling ----------------------------------------------------------------------------------------


def labelled(folder: Path) -> int:
    """Lists whose labels are on the disk, in the label file and the shards of a run."""
    files = list(folder.glob("*/labels.jsonl*"))
    lines = 0
    for file in files:
        try:
            lines += file.read_bytes().count(b"\n")
        except FileNotFoundError:  # merged just now
            continue
    return max(0, lines - len(files))  # each has a header


def label_alone(run: Run, folder: Path) -> bytes:
    """Label without a disturbance; return the label file's bytes."""
    process = run.start(folder)
    if not until(process, lambda: any(folder.glob("*/label.done.json"))) and process.returncode:
        run.finish(folder)  # fails again, and says why
    if process.poll() is None:
        kill(process)  # the stages after are of no interest here
    (file,) = folder.glob("*/labels.jsonl")
    return file.read_bytes()


def kill_while_labelling(run: Run, *, kills: int, seed: int, work: Path) -> list[str]:
    """Return one line a kill: who was killed, and how many lists were labelled by then.

    Args:
        run: what is run.
        kills: how many.
        seed: the moments are a function of it.
        work: an empty folder.

    Raises:
        SystemExit: a run failed, or its label file differs from that of one undisturbed process.
    """
    draw = random.Random(seed)
    expected = label_alone(run._replace(processes=1), work / "undisturbed")
    lists = expected.count(b"\n") - 1
    folder = work / "killed"
    log: list[str] = []
    while len(log) < kills:
        before = labelled(folder)
        goal = before + max(1, math.ceil(draw.random() * (lists - before)))
        delay = draw.uniform(0.0, _AFTER)
        moment = _Moment(folder, goal, delay)
        process = run.start(folder)
        struck = until(process, moment.due_or_done) and not moment.done
        if struck:
            if run.processes > 1 and len(log) % 2:
                who = f"process {kill_one(process, draw)} of {run.processes}"
            else:
                kill(process)
                who = "all processes" if run.processes > 1 else "the process"
            count = min(labelled(folder), lists)
            log.append(f"killed {who}, {count} of {lists} lists labelled ({count - before} by this run)")
            print(log[-1], flush=True)
            continue
        if process.poll() is None:
            kill(process)
        elif process.returncode:
            run.finish(folder)
        _compare(expected, folder)
        shutil.rmtree(folder)
    label_alone(run, folder)
    _compare(expected, folder)
    return log


class _Moment:
    """A time after some list was labelled; ``done`` where the stage was finished before it came."""

    def __init__(self, folder: Path, lists: int, delay: float) -> None:
        self.done = False
        self._folder, self._lists, self._delay = folder, lists, delay
        self._end = math.inf

    def due_or_done(self) -> bool:
        if self._end == math.inf and labelled(self._folder) >= self._lists:
            self._end = time.monotonic() + self._delay
        self.done = any(self._folder.glob("*/label.done.json"))
        return self.done or time.monotonic() >= self._end


def _compare(expected: bytes, folder: Path) -> None:
    (file,) = folder.glob("*/labels.jsonl")
    if file.read_bytes() != expected:
        raise SystemExit(f"{file} differs from the file that one undisturbed process made")


def main() -> None:
    """Parse the command line, do it, and print the kills."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--labelling", action="store_true", help="kill only while lists are labelled")
    parser.add_argument("--undisturbed", type=Path, help="runs folder of a finished run to compare with")
    parser.add_argument("--within", type=float, help="seconds in which a kill comes")
    chosen = parser.parse_args()
    if chosen.undisturbed and not chosen.within:
        parser.error("--undisturbed needs --within")
    if chosen.labelling and (chosen.undisturbed or chosen.within):
        parser.error("--labelling makes its own undisturbed run and chooses its moments by the labels")
    run = Run(chosen.recipe, chosen.overrides, chosen.smoke, chosen.processes)
    with tempfile.TemporaryDirectory() as work:
        if chosen.labelling:
            log = kill_while_labelling(run, kills=chosen.kills, seed=chosen.seed, work=Path(work))
            print(f"{len(log)} kills: same label file byte for byte as by one undisturbed process")
            return
        log = kill_and_resume(
            run,
            kills=chosen.kills,
            seed=chosen.seed,
            work=Path(work),
            undisturbed=chosen.undisturbed,
            within=chosen.within,
        )
    print("\n".join([*log, f"{len(log)} kills: same label file byte for byte, same figures"]))


if __name__ == "__main__":
    main()
