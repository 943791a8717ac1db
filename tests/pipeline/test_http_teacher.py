"""A recipe whose teacher is behind a server: the same labels, a run that goes on, and no key anywhere."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruct_distill.errors import InputError, ServerError
from instruct_distill.labels import read_header, read_labels
from instruct_distill.pipeline.distill import distill
from instruct_distill.pipeline.plan import plan_of
from instruct_distill.recipe import Recipe
from instruct_distill.teachers.parameters import TeacherParameters
from tests.conftest import ServedModel

EXAMPLE = Path(__file__).resolve().parents[2] / "data" / "example" / "beir"
KEY = "secret-of-this-recipe"
PROMPT = {
    "name": "short",
    "template": "Query: {query}\n\nPassage: {passage}\n\nIs it relevant?",
    "answers": ["Yes", "No"],
    "chat": False,
}


@pytest.fixture
def content(tiny_llama: Path, served_llama: ServedModel, tmp_path: Path) -> dict[str, Any]:
    task = {"collection": f"beir:{EXAMPLE}", "queries": {"sample": 2}, "candidates": {"depth": 3}}
    return {
        "name": "served",
        "runs": str(tmp_path / "runs"),
        "collection": f"beir:{EXAMPLE}",
        "queries": {"split": "train", "sample": 4},
        "candidates": {"depth": 3},
        "teacher": {
            "model": served_llama.model,
            "server": {"url": served_llama.url, "top_logprobs": 1000, "key_variable": "THE_KEY"},
            "strategy": "relevance_generation",
            "prompt": PROMPT,
            "document_words": 20,
            "prompts_per_chunk": 3,
        },
        "student": {"model": str(tiny_llama), "dtype": "fp32", "max_length": 96},
        "training": {"epochs": 1, "lists_per_step": 4, "precision": "fp32"},
        "evaluation": [{**task, "name": "example", "teacher": "same"}],
    }


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY)


def changed(content: dict[str, Any], name: str = "served", **server: Any) -> Recipe:
    teacher = {**content["teacher"], "server": content["teacher"]["server"] | server}
    return Recipe.from_dict({**content, "name": name, "teacher": teacher})


def test_the_whole_path(
    content: dict[str, Any], tiny_llama: Path, served_llama: ServedModel, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        result = distill(changed(content))
    assert served_llama.seen()[f"authorization Bearer {KEY}"] > 12
    assert KEY not in caplog.text
    files = [path for path in result.folder.rglob("*") if path.is_file()]
    assert {"labels.jsonl", "recipe.yaml", "reranker.json", "teacher.labels.jsonl"} <= {f.name for f in files}
    for file in files:
        assert KEY.encode() not in file.read_bytes(), file
    assert set(result.summary["example"]["teacher"]) == set(result.summary["example"]["student"])

    header = read_header(result.folder / "labels.jsonl")
    assert header["teacher"] == "tiny"
    assert header["revision"] == "tiny-as-served"
    assert header["server"] == {"api": "completions", "top_logprobs": 1000}
    assert served_llama.url not in json.dumps(header)
    assert {"dtype", "max_length", "tokens_per_batch"}.isdisjoint(header)

    here = {key: value for key, value in content["teacher"].items() if key != "server"}
    here |= {"model": str(tiny_llama), "dtype": "fp32"}
    local = Recipe.from_dict({**content, "name": "local", "teacher": here})
    distill(local, until="label")
    pairs = zip(
        read_labels(result.folder / "labels.jsonl"), read_labels(local.folder / "labels.jsonl"), strict=True
    )
    for served, own in pairs:
        assert (served.query_id, served.doc_ids) == (own.query_id, own.doc_ids)
        np.testing.assert_allclose(served.scores, own.scores, atol=1e-3)

    # the server has moved, and is asked with more patience: what is done stays done
    moved = changed(content, url="http://127.0.0.1:9/v1", timeout=5, retries=0, concurrency=2)
    assert distill(moved).summary == result.summary


def test_what_was_written_before_a_failure_stands(content: dict[str, Any], served_llama: ServedModel) -> None:
    whole = changed(content, "whole", concurrency=1)
    before = served_llama.seen()["tokens"]
    distill(whole, until="label")
    tokens = served_llama.seen()["tokens"] - before
    expected = (whole.folder / "labels.jsonl").read_bytes()

    file = changed(content).folder / "labels.jsonl"
    with pytest.raises(InputError, match=r"tokens are spent.*labels written so far stand"):
        distill(changed(content, tokens_at_most=tokens // 2, concurrency=1), until="label")
    there = file.read_bytes()
    assert 1 < there.count(b"\n") < expected.count(b"\n")
    with pytest.raises(ServerError, match="cannot be reached"):
        distill(changed(content, url="http://127.0.0.1:9/v1", retries=0), until="label")
    assert file.read_bytes() == there
    distill(changed(content, concurrency=4), until="label")
    assert file.read_bytes() == expected


def test_answers_of_a_server_without_logprobs(content: dict[str, Any]) -> None:
    recipe = changed(content, extra={"misbehave": "no-logprobs"})
    distill(recipe, until="label")
    header = read_header(recipe.folder / "labels.jsonl")
    assert header["server"] == {
        "api": "completions",
        "top_logprobs": 0,
        "extra": {"misbehave": "no-logprobs"},
    }
    # p of Yes where 1 stands against 0, and where nothing was said
    known = [1 + 1 / (1 + np.exp(-1)), 1 - 1 / (1 + np.exp(-1)), 1.5]
    for label in read_labels(recipe.folder / "labels.jsonl"):
        assert all(min(abs(score - each) for each in known) < 1e-6 for score in label.scores)
    with pytest.raises(
        InputError, match=r"teacher\.server\.extra\.misbehave: \"no-logprobs\" there, null now"
    ):
        distill(changed(content, extra={}), until="label")


def test_the_plan_asks_nothing(content: dict[str, Any], served_llama: ServedModel) -> None:
    recipe = changed(content)
    distill(recipe, until="retrieve")
    before = served_llama.seen()["requests"]
    lines = plan_of(recipe, measure=True).split("\n")
    assert served_llama.seen()["requests"] == before
    found = re.fullmatch(
        r"tokens    label about (\d+) \(evaluation included; (\d+) a prompt, estimated from the size of "
        r"\d+ real ones, without the answers: the tokenizer is the server's\)",
        lines[5],
    )
    assert found, lines[5]
    assert 20 < int(found[2]) < 80
    prompts = [re.search(r"label +(\d+) prompts|teacher (\d+) prompts", line) for line in lines]
    total = sum(int(each[1] or each[2]) for each in prompts if each)
    assert float(found[1]) == pytest.approx(total * int(found[2]), rel=0.03)
    (hours,) = [line for line in lines if line.startswith("hours")]
    assert hours.startswith("hours     label not known (a server's), train ")
    assert "(20 prompts measured: the server is not asked, a student's " in hours


def test_the_estimate_of_a_likelihood_has_the_query_in_it() -> None:
    from instruct_distill.inference.counting import CountingEngine
    from instruct_distill.inference.engine import Question
    from instruct_distill.prompts.prompt import Prompt
    from instruct_distill.records import Document, Query

    prompt = Prompt(template="{passage}\n\nAsk.", chat=False)
    counter = CountingEngine(
        prompt, None, "decoder-only", decoder_start=None, max_length=1, document_words=2, estimate=True
    )
    counter.log_likelihood([Question(Query("q", "12345678"), (Document("d", "ab cd ef"),))])
    assert (counter.asked, counter.tokenised, counter.tokens) == (1, 1, 3 + 2)  # 'ab cd\n\nAsk.' is 11 bytes
    assert counter.length_of([]) == 0.0


def test_stages_read_what_answers_depend_on(content: dict[str, Any]) -> None:
    teacher = changed(content).teacher
    assert isinstance(teacher, TeacherParameters)
    assert teacher.server is not None
    other = dataclasses.replace(teacher, server=dataclasses.replace(teacher.server, timeout=3))
    assert other.answer_settings == teacher.answer_settings
    other = dataclasses.replace(teacher, server=dataclasses.replace(teacher.server, top_logprobs=3))
    assert other.answer_settings != teacher.answer_settings
