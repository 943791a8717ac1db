"""Memory of the label stage as the number of queries grows: the real stage with a model that answers at once.

    python scripts/benchmarks/memory_of_labels.py --queries 10000 100000

For each number of queries a collection is made up: ten candidates a query, each a passage of about 60 words
that is in no other list. All pairs are asked in both orders, 9 million comparisons for 100,000 queries: some
minutes on one core. Each stage is a process of its own. One JSON line a number: the peak of its resident
memory, what it had before the stage began, and the size of all texts.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np

from instruct_distill.evaluation.memory import process_peak
from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.pipeline import label
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.teacher import Teacher
from instruct_distill.prompts.named import named_prompt
from instruct_distill.recipe import Recipe
from instruct_distill.teachers.labelling import strategy_of
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context

CANDIDATES = 10
WORDS = 60


class InstantEngine:
    """Answers by lot."""

    def __init__(self) -> None:
        self.prompt = named_prompt("pairwise-passage")
        self._numbers = np.random.default_rng(13)

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        return self._numbers.normal(size=(len(questions), 2)).astype(np.float32)

    def log_likelihood(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        return self._numbers.normal(size=len(questions)).astype(np.float32)

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        return [""] * len(questions)


def make_inputs(folder: Path, queries: int) -> int:
    """Write documents, queries and candidates; return the bytes of all passages."""
    corpus, run = folder / "corpus", folder / "runs" / "memory"
    corpus.mkdir(parents=True)
    run.mkdir(parents=True)
    numbers = np.random.default_rng(13)
    with (
        open(corpus / "documents.tsv", "w", encoding="utf-8") as documents,
        open(corpus / "queries.tsv", "w", encoding="utf-8") as questions,
        open(run / "candidates.trec", "w", encoding="utf-8") as candidates,
    ):
        for i in range(queries):
            questions.write(f"query-{i}\twhat is known of number {i}\n")
            for j in range(CANDIDATES):
                words = " ".join(f"w{number}" for number in numbers.integers(0, 100_000, WORDS))
                documents.write(f"passage-{i}-{j}\t{words}\n")
                candidates.write(f"query-{i} Q0 passage-{i}-{j} {j + 1} {CANDIDATES - j} first_stage\n")
    return (corpus / "documents.tsv").stat().st_size


def recipe_of(folder: Path) -> Recipe:
    """The recipe whose label stage is run."""
    return Recipe.from_dict(
        {
            "name": "memory",
            "runs": str(folder / "runs"),
            "collection": f"files:{folder}/corpus",
            "candidates": {"depth": CANDIDATES},
            "teacher": {"model": "instant", "strategy": "allpairs"},
            "student": {"model": "none"},
        }
    )


def instant_teacher(parameters: TeacherParameters, context: Context) -> Teacher:
    """What takes the place of loading a model."""
    engine = InstantEngine()
    return Teacher(parameters, strategy_of(parameters, context), engine.prompt, engine, "none", "fp32")


def stage(folder: Path) -> dict[str, float]:
    """Run the label stage in this process, and return what it took."""
    import torch  # noqa: F401 (the stage imports it; its size is not the labels')

    before, began = resident(), time.monotonic()
    with patch.object(label, "load_teacher", instant_teacher):
        statistics = label.label_candidates(Inputs(recipe_of(folder)))
    return {
        "comparisons": statistics["comparisons"],
        "before_mb": before / 1e6,
        "peak_mb": process_peak() / 1e6,
        "seconds": time.monotonic() - began,
    }


def resident() -> float:
    """Bytes of this process that are in memory now."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        return float(stream.read().split()[1]) * resource.getpagesize()


def measured(queries: Sequence[int]) -> Iterator[dict[str, float]]:
    """Yield the figures of each number of queries."""
    for count in queries:
        with tempfile.TemporaryDirectory() as name:
            texts = make_inputs(Path(name), count)
            command = [sys.executable, __file__, "--stage", name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr)
            found = json.loads(done.stdout.splitlines()[-1])
            yield {"queries": count, "texts_mb": texts / 1e6, **found}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--queries", type=int, nargs="+", default=[10_000, 100_000], metavar="N")
    parser.add_argument(
        "--stage", type=Path, metavar="FOLDER", help="run the stage there (used by the script)"
    )
    options = parser.parse_args(arguments)
    if options.stage:
        print(json.dumps(stage(options.stage)))
        return
    for figures in measured(options.queries):
        print(json.dumps({key: round(value, 1) for key, value in figures.items()}), flush=True)


if __name__ == "__main__":
    main()
