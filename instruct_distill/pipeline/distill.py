"""The stages in their order: (write,) retrieve, label, train, evaluate; each begins where a run stopped."""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.files import read_json
from instruct_distill.pipeline.evaluate import evaluate_systems
from instruct_distill.pipeline.fingerprints import (
    evaluated_from,
    labelled_from,
    retrieved_from,
    trained_from,
    written_from,
)
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.label import label_candidates
from instruct_distill.pipeline.out_of_memory import memory_advice
from instruct_distill.pipeline.retrieve import retrieve_candidates
from instruct_distill.pipeline.run_lock import only_run
from instruct_distill.pipeline.stage import STAGES, Stage, redo, this_process
from instruct_distill.pipeline.train import train_student
from instruct_distill.pipeline.write import write_training_queries
from instruct_distill.recipe import Recipe

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Result:
    """What a run produced.

    Args:
        folder: the run's folder.
        student: the student's folder.
        summary: the content of ``summary.json``: task → system → metric → value, and ``_meta``; empty
            before the last stage.
        table: the printed table; empty before the last stage.
    """

    folder: Path
    student: Path
    summary: dict[str, Any]
    table: str


class _Plan(NamedTuple):
    """What a stage reads and what it does.

    Args:
        keys: the parts of the recipe that it reads.
        made_from: gives the fingerprints of what it reads besides.
        work: does it, and returns what it found out.
        grows: keys whose larger value goes on from what is there.
    """

    keys: dict[str, Any]
    made_from: Callable[[], dict[str, str]]
    work: Callable[[Inputs], dict[str, Any]]
    grows: tuple[str, ...] = ()


def distill(recipe: Recipe, *, until: str = STAGES[-1], redo_from: str | None = None) -> Result:
    """Run a recipe, going on from what is there already.

    Args:
        recipe: what to do.
        until: the last stage to run.
        redo_from: make this stage and those after it again; the old files are moved aside.

    Raises:
        InputError: an input is not usable, a stage is another recipe's, a figure is not as expected, or
            another run is at work in the folder.
        MemoryShortageError: the memory is not enough; the message names the recipe's keys to change.
        NonFiniteScoreError: a model answered with NaN or infinity.
    """
    folder = recipe.folder
    if until == STAGES[-1] and (missing := recipe.needed_files()):
        raise InputError("\n".join(["files that the recipe names are not there:", *missing]))
    # the others wait for the main process at the end of each stage
    with only_run(folder) if this_process()[0] == 0 else contextlib.nullcontext():
        if redo_from is not None:
            if this_process()[1] > 1:
                raise InputError(f"redo={redo_from} moves files aside: launch it once with one process")
            aside = redo(folder, redo_from)
            logger.info(
                "redo=%s: %s", redo_from, f"old files are in {aside}" if aside else "nothing was there"
            )
        _run_stages(Inputs(recipe), STAGES[: STAGES.index(until) + 1])
    summary, table = folder / "evaluation" / "summary.json", folder / "evaluation" / "table.txt"
    return Result(
        folder,
        folder / "student",
        read_json(summary) if summary.exists() else {},
        table.read_text(encoding="utf-8") if table.exists() else "",
    )


def _run_stages(inputs: Inputs, names: Sequence[str]) -> None:
    is_main = this_process()[0] == 0
    plans = _plans(inputs)
    for name in names:
        if name not in plans:
            continue
        plan = plans[name]
        stage = Stage(inputs.folder, name, plan.keys, plan.made_from(), plan.grows)
        if stage.outcome() is not None:
            logger.info("%s: done before", name)
            continue
        if is_main:
            stage.begin()
            inputs.recipe.save(inputs.folder / "recipe.yaml")
        with memory_advice(name, inputs.recipe):
            outcome = plan.work(inputs)
        if is_main:
            stage.finish(outcome)
        stage.wait()
        gc.collect()


def _plans(inputs: Inputs) -> dict[str, _Plan]:
    recipe = inputs.recipe
    content = recipe.as_dict()
    searched = ("collection", "name", "queries", "qrels", "candidates")
    teacher, queries = recipe.teacher.answer_settings, recipe.queries.settings
    training = {
        k: v for k, v in content["training"].items() if k not in ("checkpoint_every", "keep", "trackers")
    }
    writing = _Plan(
        {"queries": queries, **{k: content[k] for k in ("seed", "collection")}},
        lambda: written_from(inputs),
        write_training_queries,
    )
    return {
        **({"write": writing} if recipe.queries.generate else {}),
        "retrieve": _Plan(
            {"queries": queries, **{k: content[k] for k in ("seed", "collection", "candidates")}}
            | {"evaluation": [{key: task[key] for key in searched} for task in content["evaluation"]]},
            lambda: retrieved_from(inputs),
            retrieve_candidates,
        ),
        "label": _Plan(
            {"teacher": teacher, "qrels": recipe.qrels},
            lambda: labelled_from(inputs),
            label_candidates,
        ),
        "train": _Plan(
            {"seed": recipe.seed, "student": content["student"], "training": training},
            lambda: trained_from(inputs),
            train_student,
            grows=("training.epochs",),
        ),
        "evaluate": _Plan(
            {k: content[k] for k in ("seed", "evaluation", "student")} | {"teacher": teacher},
            lambda: evaluated_from(inputs),
            evaluate_systems,
        ),
    }
