"""Time of a whole recipe by stage, and what of the wall time no stage accounts for.

    python scripts/benchmarks/whole_recipe.py recipes/quickstart.yaml

The recipe is run by ``train.py`` in a process of its own, into a new folder. A stage's time is that from its
``STAGE.started.json`` to its ``STAGE.done.json``, the wall time that from the start of the process to its
end, the interpreter's and the imports' included: at least 95% should be in the stages. ``--smoke`` runs
recipes/tiny.yaml with a random T5, where the imports take most of the time. Nothing is compared; one JSON
line is appended to ``docs/benchmarks/recipe.jsonl``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from measuring import ROOT, append, data_folder, line_of, parser, table

from instruct_distill.errors import InputError
from instruct_distill.pipeline.stage import STAGES

EVERY = 0.01
"""Seconds between two looks at the run's folder: a stage's first note is there only while it works."""


class Ran(NamedTuple):
    """A finished run.

    Args:
        seconds: stage → seconds, in the order of the stages.
        wall: seconds from the start of the process to its end.
    """

    seconds: dict[str, float]
    wall: float

    @property
    def share(self) -> float:
        """What the stages account for."""
        return sum(self.seconds.values()) / self.wall


def run_recipe(arguments: Sequence[str], folder: Path, settings: dict[str, str]) -> Ran:
    """Run a recipe and note when its stages begin and end.

    Args:
        arguments: the recipe's file and what follows it.
        folder: where the run's folder will be made.
        settings: environment variables besides those that are set.

    Raises:
        InputError: the run failed, or left no finished stage.
    """
    began = time.time()
    child = subprocess.Popen(
        [sys.executable, "train.py", *arguments, f"runs={folder}"], cwd=ROOT, env={**os.environ, **settings}
    )
    starts: dict[str, float] = {}
    while child.poll() is None:
        for note in folder.glob("*/*.started.json"):
            try:
                starts[note.name.partition(".")[0]] = note.stat().st_mtime
            except FileNotFoundError:  # the stage has ended in this moment
                continue
        time.sleep(EVERY)
    wall = time.time() - began
    if child.returncode:
        raise InputError(f"{' '.join(arguments)}: the run failed; its own message stands above")
    ends = {file.name.partition(".")[0]: file.stat().st_mtime for file in folder.glob("*/*.done.json")}
    missed = [stage for stage in ends if stage not in starts]
    if missed or not ends:
        raise InputError(f"{folder}: nobody saw the stages begin: {', '.join(missed) or 'there are none'}")
    return Ran({stage: ends[stage] - starts[stage] for stage in STAGES if stage in ends}, wall)


def save_tiny_t5(folder: Path, data: Path) -> None:
    """Write a small T5 with random weights and T5's tokenizer."""
    from label_throughput import SMOKE_SHAPE, random_t5
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(data / "t5-tokenizer")
    model = random_t5(SMOKE_SHAPE, tokenizer)
    model.config.tie_word_embeddings = False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, run, print, and append the line."""
    made = parser(__doc__)
    made.add_argument(
        "recipe", nargs="?", default="recipes/quickstart.yaml", help="(recipes/quickstart.yaml)"
    )
    made.add_argument("changes", nargs="*", metavar="key=value", help="what the recipe says otherwise")
    chosen = made.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        given, settings = [chosen.recipe, *chosen.changes], {}
        if chosen.smoke:
            save_tiny_t5(Path(folder) / "t5", data_folder(made))
            # of pairs, random weights choose one answer only
            asked = ["teacher.strategy=query_generation", "teacher.prompt=query-generation"]
            given = ["recipes/tiny.yaml", "training.epochs=1", *asked]
            settings = {"INSTRUCT_DISTILL_TINY_T5": f"{folder}/t5", "ACCELERATE_USE_CPU": "true"}
        try:
            ran = run_recipe(given, Path(folder) / "runs", settings)
        except InputError as error:
            made.error(str(error))
    line = line_of(
        "recipe",
        "whole_recipe.py",
        given,
        smoke=chosen.smoke,
        recipe=given[0],
        seconds={stage: round(seconds, 3) for stage, seconds in ran.seconds.items()},
        wall=round(ran.wall, 3),
        share=round(ran.share, 4),
    )
    append(line, chosen.out, "recipe.jsonl")
    rows = [[stage, f"{seconds:.1f}", f"{seconds / ran.wall:.1%}"] for stage, seconds in ran.seconds.items()]
    rows.append(["whole process", f"{ran.wall:.1f}", f"{ran.share:.1%} in stages"])
    print(table(["stage", "s", "of the wall time"], rows))


if __name__ == "__main__":
    main()
