"""Evaluating any ranker on any collection with judgements, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

from instruct_distill.candidates.baselines import baselines
from instruct_distill.errors import InputError
from instruct_distill.evaluation.joining import joined
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.ranker import Ranker, Timing, rerank, run_of, timing_of
from instruct_distill.evaluation.results import evaluate_run, recall_ceiling
from instruct_distill.evaluation.several import TaskResults, with_means
from instruct_distill.evaluation.task import TaskResult, compare_systems
from instruct_distill.evaluation.task_data import task_queries
from instruct_distill.evaluation.task_names import task_sections
from instruct_distill.records import Qrels, Run

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
) -> TaskResult: ...


@overload
def evaluate(
    ranker: Ranker,
    task: Names,
    *,
    depth: int = ...,
    metrics: Sequence[str] | None = ...,
    seed: int = ...,
) -> TaskResults: ...


def evaluate(
    ranker: Ranker,
    task: str | EvaluationParameters | Names,
    *,
    depth: int = 100,
    metrics: Sequence[str] | None = None,
    seed: int = 13,
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

    Returns:
        ``first_stage`` and ``reranker`` (for pools ``bm25`` and ``popularity`` too) side by side: means,
        values of each query, intervals, times; for several tasks a :class:`TaskResults`.

    Raises:
        InputError: the collection has no judgements, or cannot be read; depth or a metric is not usable.
    """
    if isinstance(task, EvaluationParameters):
        return _evaluate(ranker, task, seed)
    sections = task_sections([task] if isinstance(task, str) else task, depth=depth, metrics=metrics)
    if not isinstance(task, str):
        return with_means([_evaluate(ranker, section, seed) for section in sections])
    if len(sections) > 1:
        raise InputError(f"{task!r} is {len(sections)} tasks; give it in a list, [{task!r}]")
    return _evaluate(ranker, sections[0], seed)


def _evaluate(ranker: Ranker, parameters: EvaluationParameters, seed: int) -> TaskResult:
    data = task_queries(parameters, seed=seed)
    candidates = data.candidates(parameters)
    documents = joined(data.documents(candidates), parameters.joining)
    lists = list(rerank(ranker, data.queries, candidates, documents, depth=parameters.depth, name="evaluate"))
    runs: dict[str, Run] = {
        "first_stage": candidates,
        **baselines(data.collection, data.queries, candidates, parameters.candidates),
        RERANKER: run_of(lists),
    }
    timing = timing_of(lists)
    return task_result(parameters, data.qrels, runs, {RERANKER: timing} if timing else {}, seed=seed)


def task_result(
    parameters: EvaluationParameters,
    qrels: Qrels,
    runs: Mapping[str, Run],
    timings: dict[str, Timing],
    *,
    seed: int,
) -> TaskResult:
    """Put the runs of one task side by side.

    Args:
        parameters: the task's section: metrics and which queries count.
        qrels: the judgements.
        runs: system → run; ``first_stage`` first, which gives the ceiling.
        timings: system → time, of those that were measured.
        seed: for the intervals.
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
    return TaskResult(parameters.task, evaluations, ceiling, timings, compare_systems(evaluations, seed=seed))
