"""Evaluating any ranker on any collection with judgements, in one call."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import overload

from instruct_distill.candidates.baselines import baselines, orderable
from instruct_distill.errors import InputError
from instruct_distill.evaluation.joining import joined
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.random_order import random_order_means
from instruct_distill.evaluation.ranker import Ranker, Timing, rerank, run_of, timing_of
from instruct_distill.evaluation.results import evaluate_run, recall_ceiling
from instruct_distill.evaluation.several import TaskResults, with_means
from instruct_distill.evaluation.system_run import rank_with_resume, same_systems
from instruct_distill.evaluation.task import TaskResult, compare_systems
from instruct_distill.evaluation.task_data import task_queries
from instruct_distill.evaluation.task_names import task_sections
from instruct_distill.records import Qrels, Run
from instruct_distill.sources.collection import Collection
from instruct_distill.trec import write_qrels, write_run

RERANKER = "reranker"

Names = list[str] | tuple[str, ...]


@overload
def evaluate(
    ranker: Ranker,
    task: str | EvaluationParameters,
    *,
    depth: int = ...,
    metrics: Sequence[str] | None = ...,
    seed: int = ...,
    folder: str | os.PathLike[str] | None = ...,
) -> TaskResult: ...


@overload
def evaluate(
    ranker: Ranker,
    task: Names,
    *,
    depth: int = ...,
    metrics: Sequence[str] | None = ...,
    seed: int = ...,
    folder: str | os.PathLike[str] | None = ...,
) -> TaskResults: ...


def evaluate(
    ranker: Ranker,
    task: str | EvaluationParameters | Names,
    *,
    depth: int = 100,
    metrics: Sequence[str] | None = None,
    seed: int = 13,
    folder: str | os.PathLike[str] | None = None,
) -> TaskResult | TaskResults:
    """Rerank the candidates of a task, or of several, and compare with the first stage.

    Args:
        ranker: a :class:`~instruct_distill.Reranker` or anything with its ``rank``.
        task: the name of a known task such as ``dl19`` (:mod:`~instruct_distill.evaluation.tasks`), a
            collection's name such as ``beir:FOLDER`` (its test split; the lists that it brings, or BM25
            candidates), or a recipe's task section, which then says depth and metrics itself. A list of
            names, which may be those of suites, gives several results and the means over them.
        depth: candidates of each query.
        metrics: names as in ir_measures; the task's own, or nDCG@1, @5 and @10, where left out.
        seed: for sampling and intervals.
        folder: where each task's runs are written, a query at a time; called again, it goes on from there.

    Returns:
        ``first_stage`` and ``reranker`` (for recommendations the baselines too) side by side: means,
        values of each query, intervals, times; for several tasks a :class:`TaskResults`.

    Raises:
        InputError: the collection has no judgements, or cannot be read; depth or a metric is not usable;
            the folder holds the runs of something else.
    """
    rankers = {RERANKER: ranker}
    if isinstance(task, EvaluationParameters):
        return side_by_side(rankers, task, seed=seed, folder=folder)
    sections = task_sections([task] if isinstance(task, str) else task, depth=depth, metrics=metrics)
    if not isinstance(task, str):
        return with_means([side_by_side(rankers, section, seed=seed, folder=folder) for section in sections])
    if len(sections) > 1:
        raise InputError(f"{task!r} is {len(sections)} tasks; give it in a list, [{task!r}]")
    return side_by_side(rankers, sections[0], seed=seed, folder=folder)


def side_by_side(
    rankers: Mapping[str, Ranker],
    parameters: EvaluationParameters,
    *,
    seed: int = 13,
    folder: str | os.PathLike[str] | None = None,
) -> TaskResult:
    """Let several rankers order the same candidates of a task.

    Args:
        rankers: name of the system → what ranks.
        parameters: the task.
        seed: for sampling and intervals.
        folder: as for :func:`evaluate`.

    Raises:
        InputError: as :func:`evaluate`.
    """
    data = task_queries(parameters, seed=seed)
    candidates = data.candidates(parameters)
    documents = joined(data.documents(candidates), parameters.joining)
    runs: dict[str, Run] = {
        "first_stage": candidates,
        **baselines(data.collection, data.queries, candidates, parameters.candidates),
    }
    task_folder = None if folder is None else Path(folder) / parameters.task
    if task_folder is not None:
        same_systems(task_folder, candidates, parameters.depth, rankers)
        write_qrels(task_folder / "qrels.txt", data.qrels)
        for system, run in runs.items():
            write_run(task_folder / f"{system}.trec", run, system)
    timings: dict[str, Timing] = {}
    for system, ranker in rankers.items():
        if task_folder is None:
            lists = list(
                rerank(ranker, data.queries, candidates, documents, depth=parameters.depth, name=system)
            )
        else:
            lists = rank_with_resume(
                ranker,
                data.queries,
                candidates,
                documents,
                file=task_folder / f"{system}.jsonl",
                depth=parameters.depth,
                name=system,
            )
        runs[system] = run_of(lists)
        timing = timing_of(lists)
        if timing:
            timings[system] = timing
        if task_folder is not None:
            write_run(task_folder / f"{system}.trec", runs[system], system)
    return task_result(parameters, data.qrels, runs, timings, seed=seed, collection=data.collection)


def task_result(
    parameters: EvaluationParameters,
    qrels: Qrels,
    runs: Mapping[str, Run],
    timings: dict[str, Timing],
    *,
    seed: int,
    collection: Collection | None = None,
) -> TaskResult:
    """Put the runs of one task side by side.

    Args:
        parameters: the task's section: metrics and which queries count.
        qrels: the judgements.
        runs: system → run; ``first_stage`` first, which gives the ceiling.
        timings: system → time, of those that were measured.
        seed: for the intervals.
        collection: where the task is from; what recommendations are compared with needs it.
    """
    evaluations = {
        system: evaluate_run(
            qrels,
            run,
            parameters.metrics,
            relevance_level=parameters.relevance_level,
            all_judged=parameters.all_judged,
        )
        for system, run in runs.items()
    }
    ceiling = recall_ceiling(
        qrels,
        runs["first_stage"],
        parameters.metrics,
        relevance_level=parameters.relevance_level,
        all_judged=parameters.all_judged,
    )
    differences = compare_systems(evaluations, seed=seed)
    result = TaskResult(parameters.task, evaluations, ceiling, timings, differences)
    if collection is None or collection.popularity() is None:
        return result
    random_order = random_order_means(
        qrels,
        orderable(collection, qrels, runs["first_stage"], parameters.candidates),
        parameters.metrics,
        relevance_level=parameters.relevance_level,
        all_judged=parameters.all_judged,
    )
    notes = (f"popularity: {collection.popularity_source() or 'as the collection has it'}",)
    return dataclasses.replace(result, random_order=random_order, notes=notes)
