"""The stage ``retrieve``: a candidate list for each query, for training and for every task."""

from __future__ import annotations

from typing import Any

from instruct_distill.candidates import retrieve
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.stage import this_process
from instruct_distill.trec import write_qrels, write_run


def retrieve_candidates(inputs: Inputs) -> dict[str, Any]:
    """Write ``candidates.trec``, and each task's ``first_stage.trec`` and ``qrels.txt``.

    The main process does it alone.

    Raises:
        InputError: a task's lists or judgements belong to another collection: said before anything is asked.
    """
    if this_process()[0] != 0:
        return {}
    recipe, folder = inputs.recipe, inputs.folder
    found = retrieve(inputs.collection, inputs.queries, recipe.candidates)
    write_run(folder / "candidates.trec", found, "first_stage")
    for task, data in zip(recipe.evaluation, inputs.tasks, strict=True):
        lists = data.candidates(task)
        data.check(lists)
        write_run(folder / "evaluation" / task.task / "first_stage.trec", lists, "first_stage")
        write_qrels(folder / "evaluation" / task.task / "qrels.txt", data.qrels)
    lengths = [len(ranked) for ranked in found.values()]
    return {"queries": len(lengths), "candidates": sum(lengths), "without_candidates": lengths.count(0)}
