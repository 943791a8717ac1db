"""Evaluating any ranker on any collection with judgements, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import TypeAdapter, ValidationError

from instruct_distill.candidates.baselines import baselines
from instruct_distill.errors import InputError
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.ranker import Ranker, Timing, rerank, run_of, timing_of
from instruct_distill.evaluation.results import evaluate_run, recall_ceiling
from instruct_distill.evaluation.task import TaskResult, compare_systems
from instruct_distill.evaluation.task_data import task_queries
from instruct_distill.records import Qrels, Run

RERANKER = "reranker"


def evaluate(
    ranker: Ranker,
    task: str | EvaluationParameters,
    *,
    depth: int = 100,
    metrics: Sequence[str] = ("nDCG@1", "nDCG@5", "nDCG@10"),
    seed: int = 13,
) -> TaskResult:
    """Rerank a collection's candidates and compare with the first stage.

    Args:
        ranker: a :class:`~instruct_distill.Reranker` or anything with its ``rank``.
        task: a collection's name, such as ``beir:FOLDER`` (its test split, BM25 candidates), or a recipe's
            task section, which then says depth and metrics itself.
        depth: candidates of each query.
        metrics: names as in ir_measures.
        seed: for sampling and intervals.

    Returns:
        ``first_stage`` and ``reranker`` (for pools ``bm25`` and ``popularity`` too) side by side: means,
        values of each query, intervals, times.

    Raises:
        InputError: the collection has no judgements, or cannot be read; depth or a metric is not usable.
    """
    parameters = task if isinstance(task, EvaluationParameters) else _section(task, depth, metrics)
    data = task_queries(parameters, seed=seed)
    candidates = data.candidates(parameters)
    documents = data.documents(candidates)
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


def _section(collection: str, depth: int, metrics: Sequence[str]) -> EvaluationParameters:
    given = {
        "collection": collection,
        "candidates": {"depth": depth},
        "metrics": metrics if isinstance(metrics, str) else list(metrics),
    }
    try:
        return TypeAdapter(EvaluationParameters).validate_python(given)
    except ValidationError as error:
        problems = [
            f"{detail['loc'][-1]}: {detail['msg'].removeprefix('Value error, ')}" for detail in error.errors()
        ]
        raise InputError("; ".join(problems)) from None
