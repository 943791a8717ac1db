"""What tells the content that a stage reads apart from another version of it under the same name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.evaluation.parameters import TeacherRun
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.stage import digest
from instruct_distill.records import Query
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.fingerprint import files_fingerprint


def written_from(inputs: Inputs) -> dict[str, str]:
    """Return fingerprints of the documents and of the model that writes queries."""
    queries = inputs.recipe.queries
    return {
        "collection": inputs.collection.fingerprint(),
        **({} if queries.server else _weights("writer", queries.model)),
    }


def retrieved_from(inputs: Inputs) -> dict[str, str]:
    """Return fingerprints of documents, queries, given lists and judgements: of training and of each task."""
    recipe = inputs.recipe
    found = _searched("", inputs.collection, inputs.queries, recipe.candidates)
    for task, data in zip(recipe.evaluation, inputs.tasks, strict=True):
        found |= _searched(f"{task.task}.", data.collection, data.queries, task.candidates)
        found[f"{task.task}.qrels"] = _of(sorted(data.qrels.items()))
    return found


def labelled_from(inputs: Inputs) -> dict[str, str]:
    """Return fingerprints of the candidates and of the teacher: weights, ranking or judgements."""
    teacher = inputs.recipe.teacher
    found = {"candidates": digest(inputs.folder / "candidates.trec")}
    if ranking := teacher.run or teacher.permutations:
        found["ranking"] = digest(ranking)
    if teacher.qrels:
        found["qrels"] = _of(sorted((inputs.context().qrels() or {}).items()))
    # a served model's name is the server's, not that of a folder here
    return found | _weights("teacher", None if teacher.server else teacher.model)


def trained_from(inputs: Inputs) -> dict[str, str]:
    """Return fingerprints of the labels and of the untrained student."""
    labels = digest(inputs.folder / "labels.jsonl")
    return {"labels": labels, **_weights("student", inputs.recipe.student.model)}


def evaluated_from(inputs: Inputs) -> dict[str, str]:
    """Return fingerprints of the student, of the tasks' lists and of the rankings that teachers made."""
    recipe, folder = inputs.recipe, inputs.folder
    rankings = [task.teacher.run for task in recipe.evaluation if isinstance(task.teacher, TeacherRun)]
    return {
        "student": digest(*sorted((folder / "student").glob("*.safetensors"))),
        "first_stage": digest(
            *(folder / "evaluation" / task.task / "first_stage.trec" for task in recipe.evaluation)
        ),
        **({"rankings": digest(*rankings)} if rankings else {}),
    }


def _searched(
    prefix: str, collection: Collection, queries: Sequence[Query], candidates: CandidateParameters
) -> dict[str, str]:
    found = {
        f"{prefix}collection": collection.fingerprint(),
        f"{prefix}queries": _of([list(query) for query in queries]),
    }
    if candidates.file:
        found[f"{prefix}candidates"] = digest(candidates.file)
    elif candidates.method == "given":
        found[f"{prefix}candidates"] = _of(collection.given())
    if popularity := collection.popularity():
        found[f"{prefix}popularity"] = _of(popularity)
    excluded = {query.query_id: sorted(collection.excluded(query.query_id)) for query in queries}
    if any(excluded.values()):
        found[f"{prefix}excluded"] = _of(excluded)
    return found


def _weights(whose: str, model: str | None) -> dict[str, str]:
    """A model's files where they lie on this machine; other names are those of one content."""
    path = Path(model or "").expanduser()
    if model and path.is_dir():
        return {f"{whose}_model": files_fingerprint(sorted(path.glob("*.safetensors")))}
    if model and path.is_file():
        return {f"{whose}_model": files_fingerprint([path])}
    return {}


def _of(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode("ascii")).hexdigest()
