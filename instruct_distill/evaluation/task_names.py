"""What people write for a task, turned into task sections: names of the registry, or collections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from instruct_distill.errors import InputError
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.tasks import NDCG, SUITES, TASKS, Task
from instruct_distill.registry import nearest
from instruct_distill.sources import open_collection, prefixes


def task_sections(
    names: Iterable[str], *, depth: int = 100, metrics: Sequence[str] | None = None
) -> list[EvaluationParameters]:
    """Return a section for each task that is named, in the order given; suites are taken apart.

    A name is one of: a task (``dl19``), a suite (``nano-beir``), ``TASK=COLLECTION`` for a task whose data
    lie elsewhere, or a collection with judgements (``beir:FOLDER``). A collection may be followed by
    ``,qrels=FILE`` and ``,run=FILE`` (candidates). A suite's task that is also given with its data is taken
    from there. Everything is checked before anything is ranked.

    Args:
        names: the names.
        depth: candidates of each query.
        metrics: names as in ir_measures; the task's own where left out.

    Raises:
        InputError: a name is not known, a task's data must be named, or a task is named twice.
    """
    sections: dict[str, EvaluationParameters] = {}
    placed: set[str] = set()
    missing: list[Task] = []
    given = list(names)
    elsewhere = {name for name in (_split(each)[0] for each in given) if name}
    for each in given:
        if each in SUITES:
            for name in SUITES[each].tasks:
                if name in sections or name in elsewhere:
                    continue
                if TASKS[name].collection is None:
                    missing.append(TASKS[name])
                else:
                    sections[name] = _section(name, depth, metrics)
            continue
        if each in TASKS and TASKS[each].collection is None:
            missing.append(TASKS[each])
            continue
        section = _section(each, depth, metrics)
        if section.task in placed:
            raise InputError(
                f"two tasks are called {section.task!r} ({sections[section.task].collection} and "
                f"{section.collection}); evaluate them in two calls"
            )
        placed.add(section.task)
        sections[section.task] = section
    if missing:
        lines = [f"{task.name}: its data must be named ({task.obtain})" for task in missing]
        if sections:
            lines.append(f"without them: {' '.join(sections)}")
        raise InputError("\n".join(lines))
    if not sections:
        raise InputError("no task was given; `instruct-distill tasks` lists those that are known")
    return list(sections.values())


def _split(text: str) -> tuple[str, str, dict[str, str]]:
    """Return (task or nothing, collection, files) of ``TASK=COLLECTION,qrels=FILE,run=FILE``."""
    head, *rest = re.split(r",(qrels|run)=", text)
    files = dict(zip(rest[::2], rest[1::2], strict=True))
    name, equals, collection = head.partition("=")
    # a folder may have '=' in its name, behind the prefix's colon
    return (name, collection, files) if equals and ":" not in name else ("", head, files)


def _section(text: str, depth: int, metrics: Sequence[str] | None) -> EvaluationParameters:
    name, collection, files = _split(text)
    task = TASKS.get(name or collection)
    if name and task is None:
        raise InputError(f"{text!r}: unknown task {name!r}{nearest(name, TASKS)} ({_ADVICE})")
    if not name:
        task = task or next((known for known in TASKS.values() if known.collection == collection), None)
        collection = task.collection if task and task.collection else collection
    candidates: dict[str, Any] = {"depth": depth, "drop_self": bool(task and task.drop_self)}
    content: dict[str, Any] = {"collection": collection, "candidates": candidates}
    if metrics is None:
        metrics = task.metrics if task else NDCG
    content["metrics"] = metrics if isinstance(metrics, str) else list(metrics)
    if "qrels" in files:
        content["qrels"] = files["qrels"]
    if "run" in files:
        candidates |= {"method": "run", "file": files["run"]}
    elif task and (task.collection == collection or task.candidates in ("pool", "popular")):
        candidates["method"] = task.candidates
    if task:
        content |= {"name": task.name, "relevance_level": task.relevance_level, "joining": task.joining}
    section = _validated(content)
    opened = open_collection(collection)
    # what ir_datasets calls scored documents is seldom a first stage in order
    if "method" not in candidates and not collection.startswith("irds:") and opened.given() is not None:
        section = _validated({**content, "candidates": {**candidates, "method": "given"}})
    return section


_ADVICE = "`instruct-distill tasks` lists the known tasks"


def _validated(content: dict[str, Any]) -> EvaluationParameters:
    try:
        return TypeAdapter(EvaluationParameters).validate_python(content)
    except ValidationError as error:
        problems = [
            f"{detail['loc'][-1]}: {detail['msg'].removeprefix('Value error, ')}" for detail in error.errors()
        ]
        if content["collection"].partition(":")[0] not in prefixes():
            problems.append(
                f"nor is it a task{nearest(content['collection'], [*TASKS, *SUITES])} ({_ADVICE})"
            )
        raise InputError("; ".join(problems)) from None
