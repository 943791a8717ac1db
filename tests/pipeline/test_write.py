"""Queries that a model writes, from the corpus to the labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instruct_distill.errors import InputError, StaleStageError
from instruct_distill.labels import read_labels
from instruct_distill.pipeline import write
from instruct_distill.pipeline.distill import distill
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.plan import plan_of
from instruct_distill.query_writing.files import read_written
from instruct_distill.query_writing.parameters import TrainingQueriesParameters
from instruct_distill.recipe import Recipe
from instruct_distill.sources import open_collection
from tests.conftest import ServedModel
from tests.query_writing.test_writing import WritingEngine

WORDS = ["ferry", "chain", "tomato", "tide", "hinge", "lamp", "stove", "violin", "kite", "bread"]


@pytest.fixture
def content(tmp_path: Path) -> dict[str, Any]:
    """A recipe over a corpus without queries; its document d3 is too short."""
    lines = [
        json.dumps(
            {"id": f"d{i}", "text": word if i == 3 else f"the {word} is number {i} of all these things"}
        )
        for i, word in enumerate(WORDS)
    ]
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "documents.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return {
        "name": "r",
        "runs": str(tmp_path / "runs"),
        "collection": f"files:{tmp_path}/corpus",
        "queries": {"generate": 4, "model": "stub", "least_words": 2},
        "candidates": {"depth": 3},
        "teacher": {"model": "stub"},
        "student": {"model": "stub"},
    }


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> WritingEngine:
    """Asks for the word of each document; d1 and d5 give nothing."""
    stub = WritingEngine(lambda i: "" if i in (1, 5) else f"Question: number of {WORDS[i]} things")

    def load(parameters: TrainingQueriesParameters) -> write.Writer:
        return write.Writer(stub, {"revision": "abc"})

    monkeypatch.setattr(write, "load_writer", load)
    return stub


def test_a_corpus_without_queries(content: dict[str, Any], engine: WritingEngine) -> None:
    recipe = Recipe.from_dict(content)
    with pytest.raises(InputError, match=r"no queries \(there is no queries.jsonl .* queries: \{generate"):
        open_collection(recipe.collection).queries()
    distill(recipe, until="retrieve")
    written = read_written(recipe.folder / "queries.jsonl")
    assert len({document for _, document in written}) == len(written) == 4
    assert not {"d1", "d3", "d5"} & {document for _, document in written}
    for query, document in written:
        assert query.text == f"number of {WORDS[int(document[1:])]} things"
    inputs = Inputs(recipe)
    assert inputs.queries == [query for query, _ in written]
    assert inputs.context().query_ids() == [f"g:{document}" for _, document in written]
    # the document that a query was written from is found like any other
    assert {query_id: ranked[0].doc_id for query_id, ranked in inputs.candidates.items()} == {
        query.query_id: document for query, document in written
    }
    outcome = json.loads((recipe.folder / "write.done.json").read_text())["outcome"]
    counts = {key: value for key, value in outcome.items() if key != "fingerprint"}
    asked = sum(engine.calls_of)
    assert counts == {
        "queries": 4,
        "asked": asked,
        "empty": asked - 4,
        "repeated": 0,
        "documents_too_short": 1,
    }
    assert outcome["fingerprint"]["revision"] == "abc"
    assert outcome["fingerprint"]["prompt"]["name"] == "write-query"
    assert (outcome["fingerprint"]["seed"], outcome["fingerprint"]["queries"]) == (13, 4)
    # all is there: nothing is written again
    distill(recipe, until="retrieve")
    assert sum(engine.calls_of) == asked


def test_the_queries_belong_to_their_settings(content: dict[str, Any], engine: WritingEngine) -> None:
    distill(Recipe.from_dict(content), until="retrieve")
    with pytest.raises(StaleStageError, match=r"queries.generate: 4 there, 5 now"):
        distill(
            Recipe.from_dict({**content, "queries": {**content["queries"], "generate": 5}}), until="label"
        )
    with pytest.raises(StaleStageError, match=r"'write' was made from .*\n  seed: 13 there, 14 now"):
        distill(Recipe.from_dict({**content, "seed": 14}), until="retrieve")
    first = read_written(Recipe.from_dict(content).folder / "queries.jsonl")
    again = Recipe.from_dict({**content, "seed": 14})
    distill(again, until="retrieve", redo_from="write")
    assert read_written(again.folder / "queries.jsonl") != first
    assert read_written(again.folder / "old-1" / "queries.jsonl") == first


def test_fewer_documents_than_queries(
    content: dict[str, Any], engine: WritingEngine, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = Recipe.from_dict({**content, "queries": {**content["queries"], "generate": 50}})
    distill(recipe, until="write")
    assert len(read_written(recipe.folder / "queries.jsonl")) == 7
    assert "50 queries were to be written, its documents gave 7 different ones" in caplog.text


def test_documents_that_are_all_too_short(content: dict[str, Any], engine: WritingEngine) -> None:
    queries = {**content["queries"], "least_words": 50}
    with pytest.raises(InputError, match=r"no query could be written \(.*'documents_too_short': 10"):
        distill(Recipe.from_dict({**content, "queries": queries}), until="write")


def test_a_recipe_with_queries_of_its_own_has_no_such_stage(content: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "corpus" / "queries.tsv").write_text("q1\tferry\n", encoding="utf-8")
    recipe = Recipe.from_dict({**content, "queries": {}})
    distill(recipe, until="retrieve")
    assert not list(recipe.folder.glob("write.*"))
    assert not list(recipe.folder.glob("queries*"))


def test_plan_counts_what_is_to_be_written(
    content: dict[str, Any], engine: WritingEngine, tiny_llama: Path
) -> None:
    lines = plan_of(Recipe.from_dict(content)).split("\n")
    assert lines[1:5] == [
        "write     4 prompts by stub (one more for each that is replaced)",
        "tokens    write not known: stub is not on this machine",
        "retrieve  4 queries, 12 candidates (at most)",
        "label     24 prompts by stub (allpairs)",
    ]
    real = {**content, "queries": {**content["queries"], "model": str(tiny_llama)}}
    tokens = plan_of(Recipe.from_dict(real)).split("\n")[2]
    assert tokens.startswith("tokens    write ")
    assert tokens.endswith(" a prompt, mean of 4 real ones)")
    assert "(up to 40 are written after each; " in tokens
    distill(Recipe.from_dict(content), until="retrieve")
    assert plan_of(Recipe.from_dict(content)).split("\n")[1] == "write     done: 4 queries by stub"


def test_a_model_writes(content: dict[str, Any], tiny_llama: Path) -> None:
    queries = {**content["queries"], "model": str(tiny_llama), "dtype": "fp32"}
    recipe = Recipe.from_dict({**content, "queries": queries})
    distill(recipe, until="write")
    assert len(read_written(recipe.folder / "queries.jsonl")) == 4


def test_a_served_model_writes(content: dict[str, Any], served_llama: ServedModel, tiny_llama: Path) -> None:
    plain = {"template": "{passage}\n\nQuestion:", "chat": False}
    found = []
    for name, writer in (
        ("local", {"model": str(tiny_llama), "dtype": "fp32"}),
        ("served", {"model": served_llama.model, "server": {"url": served_llama.url}}),
    ):
        queries = {"generate": 4, "least_words": 2, "prompt": plain, **writer}
        recipe = Recipe.from_dict({**content, "name": name, "queries": queries})
        distill(recipe, until="write")
        found.append(read_written(recipe.folder / "queries.jsonl"))
    assert found[0] == found[1]


def test_the_whole_path_without_a_task(
    content: dict[str, Any], engine: WritingEngine, tiny_llama: Path
) -> None:
    model = {"model": str(tiny_llama), "dtype": "fp32"}
    recipe = Recipe.from_dict(
        {
            **content,
            "teacher": {**model, "strategy": "query_generation"},
            "student": {**model, "prompt": "pointwise-short"},
            "training": {"epochs": 1, "lists_per_step": 2, "precision": "fp32"},
        }
    )
    result = distill(recipe)
    written = read_written(result.folder / "queries.jsonl")
    assert [label.query_id for label in read_labels(result.folder / "labels.jsonl")] == [
        query.query_id for query, _ in written
    ]
    # no judgements, no figures
    assert list(result.summary) == ["_meta"]
    assert (result.student / "reranker.json").exists()
