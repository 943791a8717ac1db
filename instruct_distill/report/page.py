"""The page itself: one file, no network, every text escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from instruct_distill.errors import InputError
from instruct_distill.evaluation.compare import Pair, compare
from instruct_distill.evaluation.significance import interval
from instruct_distill.evaluation.table import notes_on_queries
from instruct_distill.files import write_whole
from instruct_distill.report import plots
from instruct_distill.report.facts import RunFacts, TaskFacts, read_run_facts
from instruct_distill.sources.collection import Collection

FILE = "report.html"
MAIN_METRIC = "nDCG@10"
SMOOTHED_STEPS = 10

Texts = Callable[[RunFacts, str], "Collection | None"]
"""Gives the collection of a run's task, from which the texts of its queries come, or None."""


def write_report(
    folders: Sequence[str | Path],
    output: str | Path | None = None,
    *,
    reference: str | None = None,
    texts: Texts = lambda run, task: None,
    seed: int = 13,
) -> Path:
    """Write the report of one run, or of several side by side.

    Args:
        folders: folders of runs, or of ``evaluate --output``.
        output: the file; ``report.html`` in the folder where one run is given.
        reference: the system whose time a query is 1 in the plot of times, as the report names it; the last
            one that was timed where left out.
        texts: where the texts of the shown queries and documents come from.
        seed: for intervals and tests.

    Returns:
        the file.

    Raises:
        InputError: a folder holds no finished evaluation, two runs have one name, several runs have no
            ``output``, or there is no such reference.
    """
    if output is None and len(folders) != 1:
        raise InputError(f"{len(folders)} runs were given; name the file of their report with --output")
    runs = [read_run_facts(Path(folder), seed=seed) for folder in folders]
    if len({run.name for run in runs}) < len(runs):
        raise InputError("two of the runs have one name; a report tells runs apart by their folders' names")
    target = Path(folders[0]) / FILE if output is None else Path(output)
    environment = Environment(
        loader=PackageLoader("instruct_distill.report", "."), autoescape=True, undefined=StrictUndefined
    )
    names = list(dict.fromkeys(task for run in runs for task in run.tasks))
    tasks = [_task(runs, task, reference, texts, seed) for task in names]
    page = environment.get_template("page.html").render(
        title=", ".join(run.name for run in runs),
        tasks=tasks,
        runs=[_about(run) for run in runs],
    )
    with write_whole(target) as stream:
        stream.write(page)
    return target


def _task(
    runs: Sequence[RunFacts], task: str, reference: str | None, texts: Texts, seed: int
) -> dict[str, Any]:
    """Everything that the page shows of one task, over all runs that have it."""
    having = [run for run in runs if task in run.tasks]
    first = having[0].tasks[task].result
    metric = MAIN_METRIC if MAIN_METRIC in first.ceiling else next(iter(first.ceiling))
    rows: list[dict[str, Any]] = []
    values, notes = [], []
    for run in having:
        result = run.tasks[task].result
        for system, evaluation in result.evaluations.items():
            if system == "first_stage" and run is not having[0]:
                if evaluation.means == first.evaluations["first_stage"].means:
                    continue
                notes.append(f"{run.name}: another first stage than {having[0].name}")
            value = interval(list(evaluation.values(metric).values()), seed=seed)
            difference = result.differences.get(system, {}).get("first_stage", {}).get(metric)
            timing = result.timings.get(system)
            rows.append(
                {
                    "name": system if len(runs) == 1 else f"{run.name}: {system}",
                    "means": [f"{evaluation.means[name]:.4f}" for name in first.ceiling],
                    "interval": _bounds(value.low, value.high, "{:.3f}"),
                    "difference": None
                    if difference is None
                    else f"{difference.mean:+.4f} {_bounds(difference.low, difference.high, '{:+.3f}')}",
                    "seconds": timing.median if timing else None,
                    "documents": timing.documents_per_second if timing else None,
                    "judged": f"{evaluation.judged_at_10:.0%}",
                    "ties": evaluation.ties,
                    "best": False,
                    "series": len(rows),
                    "value": evaluation.means[metric],
                    "parameters": run.parameters if system in ("student", "zero_shot") else None,
                }
            )
            values.append(value)
        notes += [
            note if len(runs) == 1 else f"{run.name}: {note}"
            for note in (*result.notes, *notes_on_queries(result.evaluations))
        ]
    max(rows, key=lambda row: row["value"])["best"] = True
    sized = [row for row in rows if row["parameters"] and row["name"].endswith("student")]
    return {
        "name": task,
        "metric": metric,
        "metrics": list(first.ceiling),
        "ceiling": [f"{value:.4f}" for value in first.ceiling.values()],
        "random_order": [f"{value:.4f}" for value in first.random_order.values()],
        "queries": len(next(iter(first.evaluations.values())).per_query),
        "rows": rows,
        "notes": list(dict.fromkeys(notes)),
        "means": Markup(  # noqa: S704 (drawn here; matplotlib escapes the text in it)
            plots.means(metric, [row["name"] for row in rows], values, first.ceiling[metric])
        ),
        "latency": _latency(rows, metric, reference),
        "size": _plane(sized, "parameters", metric, "weights of the student") if len(sized) > 1 else None,
        "changes": [_changes(run, task, metric, texts, seed) for run in having],
        "contamination": [
            (run.name, _contamination(run.tasks[task])) for run in having if run.tasks[task].contamination
        ],
    }


def _latency(rows: Sequence[Mapping[str, Any]], metric: str, reference: str | None) -> dict[str, Any] | None:
    timed = [row for row in rows if row["seconds"]]
    if not timed:
        return None
    chosen = next((row for row in timed if row["name"] == reference), None)
    if reference is not None and chosen is None:
        raise InputError(
            f"no system {reference!r} was timed; reference is one of "
            f"{', '.join(row['name'] for row in timed)}"
        )
    chosen = chosen or timed[-1]
    relative = [{**row, "relative": row["seconds"] / chosen["seconds"]} for row in timed]
    label = f"median time a query, {chosen['name']} = 1 ({chosen['seconds']:.3g} s)"
    return {"plot": _plane(relative, "relative", metric, label), "reference": chosen["name"]}


def _plane(rows: Sequence[Mapping[str, Any]], key: str, metric: str, label: str) -> Markup:
    points = [plots.Point(row["name"], float(row[key]), float(row["value"]), row["series"]) for row in rows]
    return Markup(plots.plane(points, label, metric))  # noqa: S704 (as above)


def _changes(run: RunFacts, task: str, metric: str, texts: Texts, seed: int) -> dict[str, Any]:
    """The last system against the first stage, query by query."""
    facts = run.tasks[task]
    system = list(facts.runs)[-1]
    collection = texts(run, task)
    shown = {name: facts.runs[name] for name in ("first_stage", system)}
    about = next(iter(facts.result.evaluations.values()))
    found: Pair = compare(
        shown,
        facts.qrels,
        metrics=[metric],
        collection=collection,
        relevance_level=about.relevance_level,
        all_judged=about.all_judged,
        seed=seed,
    ).pairs[0]
    before = facts.result.evaluations["first_stage"].values(metric)
    after = facts.result.evaluations[system].values(metric)
    label = f"{metric}: {system} - first_stage"
    return {
        "run": run.name,
        "system": system,
        "test": found.tests[metric],
        "plot": Markup(plots.gains([after[q] - before[q] for q in before], label)),  # noqa: S704 (as above)
        "gained": found.gained,
        "lost": found.lost,
        "texts": collection is not None,
    }


def _contamination(facts: TaskFacts) -> dict[str, Any]:
    found = facts.contamination
    without = found.get("without_found_queries", {})
    return {
        "compared": found["compared"],
        "queries": {
            kind: value["count"] for kind, value in found["queries"].items() if isinstance(value, Mapping)
        },
        "documents": {
            kind: value["count"] for kind, value in found["documents"].items() if isinstance(value, Mapping)
        },
        "examples": [
            (kind, example.get("test_text", example["test"]), example.get("training_text", ""))
            for kind, value in found["queries"].items()
            if isinstance(value, Mapping)
            for example in value["examples"][:3]
        ],
        "without": without.get("systems", {}),
        "left": without.get("queries_left"),
    }


def _about(run: RunFacts) -> dict[str, Any]:
    losses = [line for line in run.training if "loss" in line]
    curve = None
    if losses:
        steps, values = [line["step"] for line in losses], [line["loss"] for line in losses]
        curve = Markup(plots.curve(steps, values, SMOOTHED_STEPS))  # noqa: S704 (as above)
    seconds = list(accumulate(line.get("seconds", 0.0) for line in losses))
    return {
        "name": run.name,
        "recipe": run.recipe,
        "labels": {key: value for key, value in run.labels.items() if value is not None},
        "curve": curve,
        "trained": run.trained,
        "minutes": seconds[-1] / 60 if seconds else None,
        "environment": run.environment,
        "parameters": run.parameters,
    }


def _bounds(low: float | None, high: float | None, form: str) -> str:
    return "" if low is None or high is None else f"[{form.format(low)}, {form.format(high)}]"
