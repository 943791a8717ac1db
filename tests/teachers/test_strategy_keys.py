"""The keys of a strategy in a recipe, and what they change in the fingerprint of its labels."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from instruct_distill.errors import RecipeError
from instruct_distill.pipeline.teacher import Teacher
from instruct_distill.recipe import Recipe
from instruct_distill.teachers.labelling import CandidateTexts, strategy_of
from instruct_distill.teachers.parameters import TeacherParameters
from tests.teachers.stub_engine import D1, D2, Q1, StubEngine, context


def read(strategy: object, **values: object) -> TeacherParameters:
    return TypeAdapter(TeacherParameters).validate_python({"model": "x", "strategy": strategy} | values)


def test_every_default_is_written_out() -> None:
    heap = {"name": "heapsort", "k": 10}
    assert read("heapsort").strategy == heap
    assert read({"name": "heapsort"}).strategy == heap
    assert read({"name": "heapsort", "k": "3"}).strategy == {"name": "heapsort", "k": 3}
    assert read({"name": "heapsort", "k": "3"}).kind == "heapsort"
    # a strategy without keys stays a name
    assert read({"name": "allpairs"}).strategy == "allpairs"
    assert read("allpairs").kind == "allpairs"


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (
            {"name": "sampled_pairs", "pairs_per_docment": "4"},
            r"unknown key 'pairs_per_docment'; did you mean 'pairs_per_document'\? "
            r"\(known: pairs_per_document, share, scores, margins\)",
        ),
        ({"name": "allpairs", "k": "4"}, r"strategy 'allpairs': unknown key 'k' \(known: none\)"),
        ({"name": "heapsort", "k": "many"}, "strategy 'heapsort': k: .* not 'many'"),
        ({"name": "heapsrt", "k": "4"}, "unknown strategy 'heapsrt'; did you mean 'heapsort'"),
        ({"k": "4"}, "a strategy has a name"),
        ("sampled_pairs", "give one of pairs_per_document"),
    ],
)
def test_keys_that_are_refused(strategy: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        read(strategy)


def recipe(strategy: object) -> Recipe:
    return Recipe.from_dict(
        {
            "name": "x",
            "collection": "beir:x",
            "teacher": {"model": "x", "strategy": strategy},
            "student": {"model": "x"},
        }
    )


def test_a_recipe_names_the_place_and_the_nearest_key() -> None:
    with pytest.raises(RecipeError) as caught:
        recipe({"name": "setwise", "setsize": "4"})
    (problem,) = caught.value.problems
    assert problem.startswith(
        "teacher.strategy: strategy 'setwise': unknown key 'setsize'; did you mean 'set_size'?"
    )


@pytest.mark.parametrize("strategy", [{"name": "sampled_pairs", "share": "0.25"}, "listwise", "allpairs"])
def test_a_recipe_with_a_strategy_survives_being_written(strategy: object, tmp_path: Any) -> None:
    first = recipe(strategy)
    first.save(tmp_path / "recipe.yaml")
    again = Recipe.load(tmp_path / "recipe.yaml")
    assert again == first
    assert again.teacher.strategy == first.teacher.strategy


def test_reading_a_strategy_needs_no_torch() -> None:
    code = (
        "import sys; from instruct_distill.teachers.parameters import TeacherParameters as T;"
        "T(model='x', strategy={'name': 'sampled_pairs', 'share': 0.5});"
        "[T(model='x', strategy=name) for name in ('heapsort', 'bubblesort', 'setwise', 'listwise')];"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def fingerprint(strategy: object, seed: int = 13, **values: object) -> dict[str, Any]:
    parameters = read(strategy, **values)
    chosen = strategy_of(parameters, context(seed=seed))
    engine: Any = StubEngine(lambda question: 0.0)
    teacher = Teacher(parameters, chosen, engine.prompt, engine, "r1", "fp32")
    return teacher.fingerprint([CandidateTexts(Q1, (D1, D2))])


def test_the_fingerprint_has_the_keys() -> None:
    budget = {"name": "sampled_pairs", "share": 0.25}
    first = fingerprint(budget)
    assert first["strategy"] == "sampled_pairs"
    assert first["strategy_parameters"]["share"] == 0.25
    others = [
        fingerprint(budget | {"share": 0.5}),
        fingerprint(budget, seed=14),
        fingerprint(budget | {"margins": True}),
        fingerprint(budget, answers="written"),
    ]
    assert all(other != first for other in others)
    assert others[3]["answers"] == "written"


def test_the_fingerprint_of_a_strategy_without_keys_is_as_before() -> None:
    assert list(fingerprint("allpairs")) == [
        "teacher",
        "revision",
        "strategy",
        "dtype",
        "prompt",
        "max_length",
        "document_words",
        "tokens_per_batch",
        "prompts_per_chunk",
        "lists",
        "texts",
    ]


def test_shared_beginnings_are_in_the_fingerprint_where_there_are_some() -> None:
    parameters = read("allpairs", share_prefix="auto")
    assert read("allpairs") == parameters
    engine: Any = StubEngine(lambda question: 0.0)
    teacher = Teacher(parameters, strategy_of(parameters, context()), engine.prompt, engine, "r1", "fp32")
    lists = [CandidateTexts(Q1, (D1, D2))]
    assert "share_prefix" not in teacher.fingerprint(lists)  # an engine that cannot, whatever the recipe says
    engine.shares_prefix = True
    assert teacher.fingerprint(lists)["share_prefix"] is True


def test_shared_beginnings_are_on_or_off() -> None:
    assert read("allpairs", share_prefix="off").share_prefix == "off"
    with pytest.raises(ValidationError, match="share_prefix"):
        read("allpairs", share_prefix="yes")
