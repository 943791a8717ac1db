"""What a report shows, read from the files of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from safetensors import safe_open

from instruct_distill.errors import InputError
from instruct_distill.evaluation.evaluate import task_result
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.ranker import Timing
from instruct_distill.evaluation.summary import META
from instruct_distill.evaluation.task import TaskResult
from instruct_distill.files import read_json, read_jsonl
from instruct_distill.records import Qrels, Run
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.trec import read_run


@dataclass(frozen=True)
class TaskFacts:
    """One task of a run, evaluated again from its files.

    Args:
        result: figures, intervals and times.
        qrels: the judgements.
        runs: system → run.
        contamination: what of the task was trained on, as in ``summary.json``; empty where nothing was
            trained.
    """

    result: TaskResult
    qrels: Qrels
    runs: dict[str, Run]
    contamination: dict[str, Any]


@dataclass(frozen=True)
class RunFacts:
    """One run.

    Args:
        name: the folder's name.
        tasks: task → facts.
        recipe: the resolved recipe's text; empty for an evaluation without one.
        labels: statistics of the labels, as the stage ``label`` wrote them.
        training: the lines of ``training.jsonl``.
        trained: what the stage ``train`` said of itself.
        environment: machine and versions.
        parameters: weights of the student, counted in its files; None where there is none.
    """

    name: str
    tasks: dict[str, TaskFacts]
    recipe: str
    labels: dict[str, Any]
    training: list[dict[str, Any]]
    trained: dict[str, Any]
    environment: dict[str, Any]
    parameters: int | None


def read_run_facts(folder: Path, *, seed: int = 13) -> RunFacts:
    """Read a run's folder, or one that ``evaluate --output`` wrote.

    Args:
        folder: the folder.
        seed: for the intervals.

    Raises:
        InputError: it holds no finished evaluation, or a file of it is damaged.
    """
    evaluated = folder / "evaluation" if (folder / "evaluation").is_dir() else folder
    if not (evaluated / "summary.json").is_file():
        raise InputError(
            f"{folder} has no summary.json: a report needs the folder of a run that was evaluated, or one "
            "that 'evaluate --output' wrote"
        )
    summary = read_json(evaluated / "summary.json")
    about = summary[META]
    tasks = {
        name: _task(evaluated / name, name, figures, about, seed)
        for name, figures in summary.items()
        if name != META
    }
    recipe = folder / "recipe.yaml"
    return RunFacts(
        name=folder.resolve().name,
        tasks=tasks,
        recipe=recipe.read_text(encoding="utf-8") if recipe.is_file() else "",
        labels=_outcome(folder / "label.done.json"),
        training=_json_lines(folder / "training.jsonl"),
        trained=_outcome(folder / "train.done.json"),
        environment=about.get("environment", {}),
        parameters=_parameters(folder / "student"),
    )


def _task(
    folder: Path,
    name: str,
    figures: Mapping[str, Mapping[str, float]],
    about: Mapping[str, Any],
    seed: int,
) -> TaskFacts:
    if not (folder / "qrels.txt").is_file():
        raise InputError(f"{folder}/qrels.txt is not there; a report needs the judgements of the task")
    qrels = read_qrels(folder / "qrels.txt")
    runs = {system: read_run(folder / f"{system}.trec") for system in figures}
    settings = about["tasks"][name]
    parameters = EvaluationParameters(
        collection=f"files:{name}",  # nothing is opened: the files of the task are all there
        name=name,
        metrics=list(next(iter(figures.values()))),
        relevance_level=settings["relevance_level"],
        all_judged=settings["all_judged"],
    )
    timings = {
        system: Timing(**values) for system, values in about["seconds_per_query"].get(name, {}).items()
    }
    result = dataclasses.replace(
        task_result(parameters, qrels, runs, timings, seed=seed),
        random_order=settings.get("random_order", {}),
        notes=tuple(settings.get("notes", ())),
    )
    return TaskFacts(result, qrels, runs, about.get("contamination", {}).get(name, {}))


def _outcome(file: Path) -> dict[str, Any]:
    return dict(read_json(file).get("outcome") or {}) if file.is_file() else {}


def _json_lines(file: Path) -> list[dict[str, Any]]:
    return [record for _, record in read_jsonl(file)] if file.is_file() else []


def _parameters(student: Path) -> int | None:
    """Count the weights in a folder's safetensors files, from their headers."""
    total = 0
    for file in sorted(student.glob("*.safetensors")):
        with safe_open(file, framework="numpy") as tensors:
            total += sum(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
    return total or None
