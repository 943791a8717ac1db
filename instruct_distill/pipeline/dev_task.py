"""The dev set of a recipe that is a task with judgements of its own."""

from __future__ import annotations

import math

from instruct_distill.errors import InputError
from instruct_distill.evaluation.joining import joined
from instruct_distill.evaluation.normal_form import normalise
from instruct_distill.evaluation.results import evaluate_run
from instruct_distill.evaluation.task_data import task_queries
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.records import ScoredDocument
from instruct_distill.training.dev import Dev, DevList


def dev_task(inputs: Inputs) -> Dev | None:
    """Return the dev set of the recipe's ``training.dev.task``: its candidates are built here.

    Raises:
        InputError: one of its queries is a query of a task that the recipe evaluates on.
    """
    parameters = inputs.recipe.training.dev
    if parameters is None or parameters.task is None:
        return None
    section = parameters.task
    data = task_queries(section, seed=inputs.recipe.seed)
    tested = {normalise(query.text): task for task in inputs.tasks for query in task.queries}
    for query in data.queries:
        if (task := tested.get(normalise(query.text))) is not None:
            raise InputError(
                f"training.dev: query {query.query_id!r} ({query.text[:60]!r}) of {section.collection} is "
                f"also a query of {task.collection.name}, which the recipe evaluates on; a checkpoint must "
                "not be chosen on test queries"
            )
    candidates = {q: found[: section.depth] for q, found in data.candidates(section).items()}
    documents = joined(data.documents(candidates), section.joining)
    lists = [
        DevList(
            query,
            tuple(
                document
                for candidate in candidates.get(query.query_id, [])
                if (document := documents[candidate.doc_id]).full_text
            ),
        )
        for query in data.queries
    ]

    def figures(scores: list[list[float]]) -> dict[str, float]:
        run = {
            item.query.query_id: sorted(
                (
                    ScoredDocument(document.doc_id, score)
                    for document, score in zip(item.documents, found, strict=True)
                ),
                key=lambda document: -document.score,
            )
            for item, found in zip(lists, scores, strict=True)
        }
        if not all(math.isfinite(score) for found in scores for score in found):
            return dict.fromkeys(section.metrics, math.nan)
        return evaluate_run(
            data.qrels,
            run,
            section.metrics,
            relevance_level=section.relevance_level,
            all_judged=section.all_judged,
        ).means

    return Dev(parameters, lists, figures)
