"""Table 4 of arXiv 2311.01555: Acc@1 on ReDial, pools of ten movies.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/reproduce/table4.py --run runs/redial-smollm2

Paper, ours and their difference side by side. No model is asked unless its row is named by --rows:

    random, popularity, bm25   measured on the sample of 325 examples, always; random in closed form
    pointwise-*, pairwise-*, distilled-*   read from runs/redial-flan-t5-SIZE, the finished run of that recipe
    listwise-*, and the two above without a run   need --rows and the model, from the hub or in --models
    --run FOLDER   any other finished run: a row for each of its systems, beside which the paper has nothing

The paper's cells are multiples of 1/325, those of distilled students of 1/345; which examples these were is
not known, so a difference has the error of two samples. In brackets: 95% bootstrap interval over examples.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cells import Cell, cells_table, percent, summary_of
from published import BASELINES_4, TABLE_4

from instruct_distill.errors import InputError
from instruct_distill.evaluation.evaluate import evaluate
from instruct_distill.evaluation.measures import per_query
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.ranker import Ranker
from instruct_distill.evaluation.significance import interval
from instruct_distill.evaluation.summary import summary, write_summary
from instruct_distill.recipe import Recipe
from instruct_distill.records import Document, Query, RankedDocument
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.trec import read_run

ROOT = Path(__file__).resolve().parents[2]
METRIC = "Success@1"
SIZES = ("xl", "large", "base")
SYSTEMS = {"pointwise": "zero_shot", "pairwise": "teacher", "distilled": "student"}
"""Method → the system of a finished run."""

STRATEGIES = {
    "listwise": ("listwise", "listwise-movie"),
    "pairwise": ("allpairs", "pairwise-movie"),
    "pointwise": ("relevance_generation", "pointwise-movie"),
}
"""Method → strategy and prompt that ask a model."""

SAMPLE = 325
"""Examples of which the paper's cells are multiples, besides those of its students."""

PROMPTS = {"listwise": 1, "pairwise": 90, "pointwise": 10}
"""Method → prompts for a pool of ten."""


class Measured(NamedTuple):
    """One of our figures.

    Args:
        accuracy: Acc@1 in percent.
        seconds: a query's, the median, or None.
        about: where it comes from, and how sure it is.
    """

    accuracy: float
    seconds: float | None
    about: str


class _AsGiven:
    """Leaves a pool in its order, which is random."""

    def rank(self, query: Query, documents: Sequence[Document]) -> list[RankedDocument]:
        return [
            RankedDocument(i, document.doc_id, -float(i), i + 1, document.text)
            for i, document in enumerate(documents)
        ]


def task_of(method: str) -> str:
    """The recipes' task whose sample has the size of the paper's."""
    return "pool-345" if method == "distilled" else "pool-325"


def section_of(recipe: Recipe, method: str) -> EvaluationParameters:
    """That task, as it stands in the recipe."""
    return next(task for task in recipe.evaluation if task.task == task_of(method))


def ranker_of(method: str, model: str) -> Ranker:
    """A model that is asked as a method says."""
    from instruct_distill.pipeline.teacher import load_teacher
    from instruct_distill.teachers.parameters import TeacherParameters
    from instruct_distill.teachers.ranker import StrategyRanker
    from instruct_distill.teachers.strategy import Context

    strategy, prompt = STRATEGIES[method]
    teacher = load_teacher(
        TeacherParameters(model=model, strategy=strategy, prompt=prompt),
        Context(qrels=lambda: None, query_ids=list),
    )
    return StrategyRanker(teacher.strategy, teacher.engine)


def measured(method: str, model: str, section: EvaluationParameters, output: Path) -> Measured:
    """Ask a model about every pool; stopped and started again, it goes on."""
    result = evaluate(ranker_of(method, model), section, folder=output)
    content = summary([result])
    write_summary(output / "summary.json", content)
    found = from_run(output, section.task, "reranker")
    assert found is not None
    return found


def from_run(folder: Path, task: str, system: str) -> Measured | None:
    """What a finished run says of a system on a task, or None."""
    content = summary_of(folder)
    if content is None or system not in content.get(task, {}):
        return None
    figure = percent(content[task][system], [METRIC]).get(METRIC)
    if figure is None:
        return None
    timing = content["_meta"]["seconds_per_query"].get(task, {}).get(system, {})
    queries = content["_meta"]["tasks"][task]["queries"]
    return Measured(
        figure, timing.get("median"), f"{folder.name}, {queries} examples{_bounds(folder, task, system)}"
    )


def _bounds(folder: Path, task: str, system: str) -> str:
    """The interval, from the run's own files."""
    places = (folder / "evaluation" / task, folder / task)
    files = next((place for place in places if (place / "qrels.txt").is_file()), None)
    if files is None or not (files / f"{system}.trec").is_file():
        return ""
    qrels = read_qrels(files / "qrels.txt")
    values = per_query(qrels, read_run(files / f"{system}.trec"), [METRIC])
    found = interval([values.get(q, {}).get(METRIC, 0.0) for q in qrels], seed=13)
    return "" if found.low is None else f" [{100 * found.low:.2f}, {100 * (found.high or 0.0):.2f}]"


def baselines(section: EvaluationParameters) -> dict[str, Measured]:
    """The three baselines on the sample of 325 examples; a random order in closed form."""
    result = evaluate(_AsGiven(), section)
    found = {"random": Measured(100 * result.random_order[METRIC], None, "closed form: one target in ten")}
    for system in ("popularity", "bm25"):
        values = list(result.evaluations[system].values(METRIC).values())
        mean, low, high = interval(values, seed=13)
        about = f"{len(values)} examples [{100 * (low or 0.0):.2f}, {100 * (high or 0.0):.2f}]"
        if system == "popularity":
            about += f"; {result.notes[0].removeprefix('popularity: ')}"
        found[system] = Measured(100 * mean, None, about)
    return found


def needs(method: str, size: str, labelled: int) -> str:
    """What a cell that was not measured needs; ``labelled`` examples are what its recipe trains on."""
    model = f"google/flan-t5-{size}"
    if method == "distilled":
        hours = labelled * TABLE_4["pairwise"][size][1] / 3600
        return (
            f"recipes/redial-flan-t5-{size}.yaml: {model}, {labelled * PROMPTS['pairwise']:,} prompts to "
            f"label, about {hours:.1f} GPU hours at the paper's speed ('plan --calibrate' says what they are "
            "on yours)"
        )
    hours = SAMPLE * TABLE_4[method][size][1] / 3600
    return (
        f"--rows {method}-{size}: {model}, {SAMPLE * PROMPTS[method]:,} prompts, about {hours:.2g} GPU hours "
        "at the paper's speed"
    )


def cells_of(
    row: str, paper: tuple[float, float | None] | None, ours: Measured | None, about: str
) -> Iterator[Cell]:
    """Acc@1, and the time of a query where anybody measured one."""
    accuracy, seconds = paper or (None, None)
    about = ours.about if ours else about
    yield Cell(row, "Acc@1", accuracy, ours.accuracy if ours else None, about)
    if seconds is not None or (ours and ours.seconds is not None):
        yield Cell(row, "s/query", seconds, ours.seconds if ours else None, about)


def systems_of(folder: Path) -> Iterator[tuple[str, Measured]]:
    """Every system of a finished run that the baselines above are not, on each task that has Acc@1.

    Raises:
        InputError: the folder holds no finished run, or none with Acc@1.
    """
    content: Mapping[str, Any] = summary_of(folder) or {}
    rows = [
        (f"{folder.name} {system}, {task}", found)
        for task, systems in content.items()
        if task != "_meta"
        for system in systems
        if (found := from_run(folder, task, system)) is not None
    ]
    if not rows:
        raise InputError(f"{folder}: no evaluation/summary.json with {METRIC}; give a finished run's folder")
    yield from rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, run what was asked for, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="hub", help="a folder with the models' folders; 'hub' downloads")
    parser.add_argument("--rows", default="", help="rows whose model is asked, separated by commas")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="where finished runs are")
    parser.add_argument("--run", type=Path, action="append", default=[], help="another finished run's folder")
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "table4")
    chosen = parser.parse_args(arguments)
    if not os.environ.get("INSTRUCT_DISTILL_DATA"):
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with redial")
    rows = [(method, size) for method in TABLE_4 for size in SIZES]
    asked = [name.strip() for name in chosen.rows.split(",") if name.strip()]
    able = {f"{method}-{size}" for method, size in rows if method in STRATEGIES}
    if unknown := [name for name in asked if name not in able]:
        parser.error(f"--rows {', '.join(unknown)}: no row that asks a model")
    cells: list[Cell] = []
    try:
        recipe = Recipe.load(ROOT / "recipes" / "redial-flan-t5-base.yaml")
        labelled = len(recipe.open().queries(recipe.queries.split))
        own = baselines(section_of(recipe, "pairwise"))
        for name, figure in BASELINES_4.items():
            cells += cells_of(name, (figure, None), own[name], "")
        for method, size in rows:
            name = f"{method}-{size}"
            model = f"flan-t5-{size}"
            ours = None
            if name in asked:
                place = f"google/{model}" if chosen.models == "hub" else str(Path(chosen.models) / model)
                ours = measured(method, place, section_of(recipe, method), chosen.output / name)
            elif method in SYSTEMS:
                ours = from_run(chosen.runs / f"redial-{model}", task_of(method), SYSTEMS[method])
            cells += cells_of(name, TABLE_4[method][size], ours, needs(method, size, labelled))
        for folder in chosen.run:
            for name, found in systems_of(folder):
                cells += cells_of(name, None, found, "")
    except InputError as error:
        parser.error(str(error))
    print(cells_table(cells))


if __name__ == "__main__":
    main()
