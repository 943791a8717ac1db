"""Kill a run at random moments, start it again each time, and compare with a run that was left alone.

    python scripts/kill_and_resume.py recipes/tiny.yaml --kills 10

The label file must be the same byte for byte, and every figure of ``summary.json`` the same, times excepted.
A moment is a random share of the time that an undisturbed run takes, so all stages are hit. A run that ends
before its moment comes is made anew, until all kills are done.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def command(recipe: str, overrides: list[str], folder: Path, *, smoke: bool) -> list[str]:
    """The command line of one run."""
    options = ["--smoke"] if smoke else []
    return [sys.executable, str(ROOT / "train.py"), recipe, f"runs={folder}", *overrides, *options]


def finish(arguments: list[str]) -> float:
    """Run to the end; return the seconds that it took."""
    start = time.monotonic()
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the run failed with status {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return time.monotonic() - start


def outcome(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """The bytes of the label file, and the figures without times."""
    (run,) = (path for path in folder.iterdir() if path.is_dir())
    summary = json.loads((run / "evaluation" / "summary.json").read_text(encoding="utf-8"))
    del summary["_meta"]["seconds_per_query"]
    return (run / "labels.jsonl").read_bytes(), summary


def kill_and_resume(
    recipe: str,
    overrides: list[str],
    *,
    kills: int,
    seed: int,
    smoke: bool,
    work: Path,
    undisturbed: Path | None = None,
    within: float | None = None,
) -> list[str]:
    """Return one line a kill: when it came and which stages had been finished.

    Args:
        recipe: the recipe's file.
        overrides: ``key=value`` strings for it.
        kills: how many.
        seed: the moments are a function of it.
        smoke: run the recipe in its smallest size.
        work: an empty folder.
        undisturbed: the ``runs`` folder of a finished run of the same recipe; made first where left out.
        within: seconds in which a kill comes; the time of the undisturbed run where left out.

    Raises:
        SystemExit: a run failed, or its outcome differs from that of the undisturbed run.
    """
    draw = random.Random(seed)
    if undisturbed is None:
        undisturbed = work / "undisturbed"
        whole = finish(command(recipe, overrides, undisturbed, smoke=smoke))
        within = within or whole
    expected = outcome(undisturbed)
    assert within is not None
    folder = work / "killed"
    log: list[str] = []
    while len(log) < kills:
        process = subprocess.Popen(
            command(recipe, overrides, folder, smoke=smoke),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        moment = draw.uniform(0.1, 1.0) * within
        try:
            process.wait(timeout=moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            stages = sorted(path.name.split(".")[0] for path in folder.glob("*/*.done.json"))
            log.append(f"killed after {moment:.1f} s; finished: {', '.join(stages) or 'nothing'}")
            continue
        if process.returncode:
            finish(command(recipe, overrides, folder, smoke=smoke))
        check(expected, outcome(folder))
        shutil.rmtree(folder)
    finish(command(recipe, overrides, folder, smoke=smoke))
    check(expected, outcome(folder))
    return log


def check(expected: tuple[bytes, dict[str, Any]], found: tuple[bytes, dict[str, Any]]) -> None:
    """Compare two outcomes."""
    if expected[0] != found[0]:
        raise SystemExit("the label file of the killed run differs from that of the undisturbed run")
    if expected[1] != found[1]:
        raise SystemExit(f"the figures differ:\n{expected[1]}\n{found[1]}")


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
    parser.add_argument("--undisturbed", type=Path, help="runs folder of a finished run to compare with")
    parser.add_argument("--within", type=float, help="seconds in which a kill comes")
    arguments = parser.parse_args()
    if arguments.undisturbed and not arguments.within:
        parser.error("--undisturbed needs --within")
    with tempfile.TemporaryDirectory() as work:
        log = kill_and_resume(
            arguments.recipe,
            arguments.overrides,
            kills=arguments.kills,
            seed=arguments.seed,
            smoke=arguments.smoke,
            work=Path(work),
            undisturbed=arguments.undisturbed,
            within=arguments.within,
        )
    print("\n".join([*log, f"{len(log)} kills: same label file byte for byte, same figures"]))


if __name__ == "__main__":
    main()
