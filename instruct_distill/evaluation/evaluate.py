"""Evaluating any ranker on any collection with judgements, in one call."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.ranker import Ranker, rerank, run_of, timing_of
from instruct_distill.evaluation.results import evaluate_run, recall_ceiling
from instruct_distill.evaluation.task import TaskResult, compare_systems
from instruct_distill.evaluation.task_data import task_queries
from instruct_distill.records import Run

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
        task: a collection's name, such as ``beir:FOLDER`` (its test split, BM25 candidates), or a task section
            of a recipe, which then says depth and metrics itself.
        depth: candidates of each query.
        metrics: names as in ir_measures.
        seed: for sampling and intervals.

    Returns:
        the systems ``first_stage`` and ``reranker`` side by side: means, values of each query, intervals, times.

    Raises:
        InputError: the collection has no judgements, or cannot be read.
    """
    parameters = task if isinstance(task, EvaluationParameters) else _section(task, depth, metrics)
    data = task_queries(parameters, seed=seed)
    candidates = data.candidates(parameters)
    documents = data.documents(candidates)
    lists = list(rerank(ranker, data.queries, candidates, documents, depth=parameters.depth, name="evaluate"))
    runs: dict[str, Run] = {"first_stage": candidates, RERANKER: run_of(lists)}
    counted = {"relevance_level": parameters.relevance_level, "all_judged": parameters.all_judged}
    evaluations = {
        system: evaluate_run(data.qrels, run, parameters.metrics, **counted) for system, run in runs.items()
    }
    timing = timing_of(lists)
    return TaskResult(
        parameters.task,
        evaluations,
        recall_ceiling(data.qrels, candidates, parameters.metrics, **counted),
        {RERANKER: timing} if timing else {},
        compare_systems(evaluations, seed=seed),
    )


def _section(collection: str, depth: int, metrics: Sequence[str]) -> EvaluationParameters:
    section = EvaluationParameters(collection=collection, metrics=list(metrics))
    return dataclasses.replace(section, candidates=dataclasses.replace(section.candidates, depth=depth))
