from __future__ import annotations

import functools
from typing import Any

import pytest
from pydantic import TypeAdapter

from instruct_distill.errors import RecipeError
from instruct_distill.recipe import Recipe
from instruct_distill.training.parameters import (
    LossChoice,
    RandomDocuments,
    StratifiedDocuments,
    TopAndRandom,
    TopAndRandomDocuments,
    TrainingParameters,
)


def recipe(**training: Any) -> Recipe:
    return Recipe.from_dict(
        {
            "name": "r",
            "collection": "python-docs",
            "teacher": "qrels",
            "student": {"model": "m"},
            "training": training,
        }
    )


def problem(**training: Any) -> str:
    with pytest.raises(RecipeError) as caught:
        recipe(**training)
    return "\n".join(caught.value.problems)


def test_values_that_no_model_could_use_are_found_before_one_is_loaded() -> None:
    content = {
        "name": "r",
        "collection": "python-docs",
        "teacher": "qrels",
        "seed": 2**32,  # more than torch's generator takes, with the step and the process
        "student": {"model": "m", "dtype": "float32"},
    }
    with pytest.raises(RecipeError) as caught:
        Recipe.from_dict(content)
    assert [problem.split(": ")[0] for problem in caught.value.problems] == ["seed", "student.dtype"]


def test_a_loss_by_name_has_its_defaults() -> None:
    training = recipe(loss="ranknet").training
    assert training.loss == "ranknet"
    assert training.loss_choice == LossChoice(
        name="ranknet", parameters={"targets": "hard", "weights": "equal"}
    )
    assert not training.soft_pairs
    assert TrainingParameters() == training


def test_a_loss_with_parameters() -> None:
    training = recipe(loss={"name": "kl", "temperature": "2"}).training
    assert training.loss == training.loss_choice == LossChoice(name="kl", parameters={"temperature": 2.0})
    assert recipe(loss={"name": "kl", "temperature": "1.0"}).training.loss == "kl"
    assert recipe(loss={"name": "ranknet", "targets": "soft"}).training.soft_pairs


@pytest.mark.parametrize("loss", ["listmle", "lambda_loss", {"name": "ranknet", "targets": "soft"}])
def test_written_out_with_every_default_and_read_back_equal(loss: Any) -> None:
    given = recipe(loss=loss)
    written = given.as_dict()
    assert Recipe.from_dict(written) == given
    assert Recipe.from_dict(written).as_dict() == written
    assert given.smaller().training.loss_choice == given.training.loss_choice
    dump = functools.partial(TypeAdapter(TrainingParameters).dump_python, mode="json")
    assert dump(recipe(loss="ranknet").training)["loss"] == {
        "name": "ranknet",
        "targets": "hard",
        "weights": "equal",
    }


def test_what_does_not_fit_a_loss_is_named() -> None:
    assert problem(loss="ranknt").startswith("training.loss: unknown loss 'ranknt'; did you mean 'ranknet'?")
    assert problem(loss={"name": "kl", "temprature": "2"}) == (
        "training.loss: loss 'kl': unknown parameter 'temprature'; did you mean 'temperature'? "
        "(known: temperature)"
    )
    assert problem(loss={"name": "kl", "temperature": "-1"}) == (
        "training.loss: loss 'kl': temperature: input should be greater than 0, not '-1'"
    )
    assert "training.loss: expected the name of a loss" in problem(loss={"temperature": "2"})
    with pytest.raises(ValueError, match="unknown parameter 'x'"):
        LossChoice(name="kl", parameters={"x": 1})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("all", "all"),
        ({"random": "16"}, RandomDocuments(random=16)),
        ({"stratified": "16"}, StratifiedDocuments(stratified=16)),
        (
            {"top_and_random": {"top": "4", "random": "12"}},
            TopAndRandomDocuments(top_and_random=TopAndRandom(top=4, random=12)),
        ),
    ],
)
def test_choices_of_documents(given: Any, expected: Any) -> None:
    found = recipe(documents_per_list=given)
    assert found.training.documents_per_list == expected
    assert Recipe.from_dict(found.as_dict()) == found
    assert TrainingParameters(documents_per_list=expected) == found.training


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("al", "documents_per_list: expected all, {random: 16}, {stratified: 16} or {top_and_random: "),
        ({"first": "3"}, "documents_per_list: expected all, {random: 16}, "),
        ({"stratifed": "3"}, "documents_per_list.stratifed: unknown key; did you mean 'stratified'?"),
        ({"random": "1"}, "documents_per_list.random: input should be greater than 1, not '1'"),
        ({"top_and_random": {"top": "4"}}, "documents_per_list.top_and_random.random: is missing"),
        ({"random": "4", "stratified": "4"}, "documents_per_list.stratified: unknown key"),
    ],
)
def test_what_is_no_choice_of_documents(given: Any, expected: str) -> None:
    assert f"training.{expected}" in problem(documents_per_list=given)


@pytest.mark.parametrize(
    ("student", "expected"),
    [
        ({}, ("yes_logit", "pointwise-passage")),
        ({"score": "head"}, ("head", "pair")),
        ({"score": "head", "prompt": "pair"}, ("head", "pair")),
    ],
)
def test_a_score_head_is_given_a_pair(student: dict[str, str], expected: tuple[str, str]) -> None:
    content = {
        "name": "r",
        "collection": "python-docs",
        "teacher": "qrels",
        "student": {"model": "m", **student},
    }
    found = Recipe.from_dict(content)
    assert (found.student.score, found.student.prompt) == expected
    assert Recipe.from_dict(found.as_dict()) == found


@pytest.mark.parametrize(
    ("student", "message"),
    [
        ({"prompt": "pair"}, "prompt 'pair' does not fit score: yes_logit"),
        ({"prompt": "monot5", "score": "head"}, "prompt 'monot5' does not fit score: head"),
    ],
)
def test_score_and_prompt_must_fit(student: dict[str, str], message: str) -> None:
    content = {
        "name": "r",
        "collection": "python-docs",
        "teacher": "qrels",
        "student": {"model": "m", **student},
    }
    with pytest.raises(RecipeError, match=message):
        Recipe.from_dict(content)


@pytest.mark.parametrize(("keep", "kept"), [("1", 1), ("3", 3), ("all", "all")])
def test_b38_how_many_checkpoints_stay(keep: str, kept: int | str) -> None:
    assert recipe(keep=keep).training.keep == kept


@pytest.mark.parametrize("keep", ["0", "-1", "none"])
def test_b38_a_number_of_checkpoints_that_would_delete_all_is_refused(keep: str) -> None:
    assert "training.keep" in problem(keep=keep)
