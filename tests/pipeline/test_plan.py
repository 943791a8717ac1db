from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instruct_distill.errors import InputError
from instruct_distill.pipeline.plan import plan_of
from instruct_distill.recipe import Recipe
from instruct_distill.records import ScoredDocument
from instruct_distill.trec import write_run


@pytest.fixture
def recipe(tmp_path: Path) -> dict[str, Any]:
    """Five training queries and two test queries over three documents."""
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    for file, ids in (
        ("corpus", ["d1", "d2", "d3"]),
        ("queries", ["q1", "q2", "q3", "q4", "q5", "t1", "t2"]),
    ):
        lines = [json.dumps({"_id": each, "text": f"text of {each}"}) for each in ids]
        (folder / f"{file}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for split, letter, number in (("train", "q", 5), ("test", "t", 2)):
        rows = "".join(f"{letter}{i}\td1\t1\n" for i in range(1, number + 1))
        (folder / "qrels" / f"{split}.tsv").write_text(rows, encoding="utf-8")
    return {
        "name": "r",
        "runs": str(tmp_path / "runs"),
        "collection": f"beir:{folder}",
        "candidates": {"depth": 4},
        "teacher": {"model": "no/such-model"},
        "student": {"model": "no/such-model"},
        "training": {"epochs": 3, "lists_per_step": 2},
        "evaluation": [{"collection": f"beir:{folder}", "candidates": {"depth": 10}, "depth": 6}],
    }


def plan(recipe: dict[str, Any], **changes: Any) -> list[str]:
    return plan_of(Recipe.from_dict({**recipe, **changes})).split("\n")


def test_prompts_and_steps_are_counted_before_a_model_is_loaded(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    assert plan(recipe) == [
        f"r: {tmp_path}/runs/r",
        "retrieve  5 queries, 20 candidates (at most)",
        "label     60 prompts by no/such-model (allpairs)",
        "train     9 optimizer steps, 60 documents",
        "evaluate  beir: 2 queries; zero_shot and student 12 prompts each, teacher 0 prompts (at most)",
    ]


def test_the_teacher_of_the_task_counts_too(recipe: dict[str, Any]) -> None:
    task = recipe["evaluation"][0]
    assert plan(recipe, evaluation=[{**task, "teacher": "same"}])[-1].endswith("teacher 60 prompts (at most)")
    assert plan(recipe, evaluation=[{**task, "teacher": {"run": "x"}}])[-1].endswith(
        "teacher a run (at most)"
    )


def test_depth_100_costs_9900_prompts_a_query(recipe: dict[str, Any]) -> None:
    assert plan(recipe, candidates={"depth": 100}, queries={"sample": 1})[2].startswith(
        "label     9,900 prompts"
    )


def test_a_pointwise_teacher_asks_once_a_candidate(recipe: dict[str, Any]) -> None:
    teacher = {"model": "m", "strategy": "relevance_generation", "prompt": "pointwise-passage"}
    assert plan(recipe, teacher=teacher)[2] == "label     20 prompts by m (relevance_generation)"


def test_a_ranking_that_exists_costs_nothing(recipe: dict[str, Any]) -> None:
    assert plan(recipe, teacher={"qrels": True})[2] == "label     0 prompts by qrels (qrels)"


def test_documents_that_are_drawn_are_counted(recipe: dict[str, Any]) -> None:
    training = {"epochs": 2, "lists_per_step": 32, "documents_per_list": {"random": 3}}
    assert plan(recipe, training=training)[3] == "train     2 optimizer steps, 30 documents"


def test_lists_that_are_there_are_counted_as_they_are(recipe: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "r"
    lists = {
        "q1": [ScoredDocument("d1", 2.0), ScoredDocument("d2", 1.0), ScoredDocument("d3", 0.5)],
        "q2": [ScoredDocument("d1", 2.0)],
    }
    write_run(folder / "candidates.trec", lists, "first_stage")
    (folder / "retrieve.done.json").write_text("{}", encoding="utf-8")
    assert plan(recipe)[1:4] == [
        "retrieve  5 queries, 4 candidates (from the candidate file)",
        "label     6 prompts by no/such-model (allpairs)",
        "train     9 optimizer steps, 12 documents",
    ]


def test_a_collection_that_is_not_there_is_an_error(recipe: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"no corpus.jsonl"):
        plan(recipe, collection="beir:no-such-folder")
    with pytest.raises(InputError, match="no split 'dev'"):
        plan(recipe, queries={"split": "dev"})
