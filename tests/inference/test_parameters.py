"""The section ``server``."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from instruct_distill.errors import RecipeError
from instruct_distill.inference.parameters import ServerParameters
from instruct_distill.recipe import Recipe


def recipe(**teacher: Any) -> Recipe:
    return Recipe.from_dict(
        {"name": "r", "collection": "python-docs", "student": {"model": "m"}, "teacher": teacher}
    )


def test_defaults_and_what_answers_depend_on() -> None:
    server = ServerParameters(url="http://localhost:8000/v1/")
    assert server.url == "http://localhost:8000/v1"
    assert server.key_variable is None
    assert server.answer_settings == {"api": "auto", "top_logprobs": 20, "extra": {}}
    teacher = recipe(model="m", server={"url": "http://h/v1", "timeout": "5"}).teacher
    assert teacher.answer_settings["server"] == server.answer_settings
    assert "server" not in recipe(model="m").teacher.answer_settings


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://host/v1",
        "http://",
        "http://host:port/v1",
        "http://user:hidden-key@host/v1",
        "https://host/v1?key=hidden-key",
        "https://host/v1#hidden-key",
    ],
)
def test_addresses_that_are_refused_are_not_repeated(url: str) -> None:
    with pytest.raises(RecipeError, match="an address") as caught:
        recipe(model="m", server={"url": url})
    assert "hidden-key" not in str(caught.value)


def test_fields_besides_ours_have_the_types_of_json() -> None:
    given = {"a": {"b": "false", "c": ["1", "-2.5e3", "007", "x"]}, "max_tokens": None, "d": True}
    found = ServerParameters(url="http://h", extra=given).extra
    assert found == {"a": {"b": False, "c": [1, -2500.0, "007", "x"]}, "max_tokens": None, "d": True}


@pytest.mark.parametrize("name", ["api_key", "Authorization", "token"])
def test_no_key_stands_in_a_recipe(name: str) -> None:
    with pytest.raises(ValidationError, match="would be written down; put the key into an environment"):
        ServerParameters(url="http://h", extra={name: "x"})


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        ({"run": "x", "server": {"url": "http://h"}}, "name the model that it serves with 'model'"),
        ({"model": "m", "revision": "r", "server": {"url": "http://h"}}, "a server has one revision"),
        (
            {"model": "m", "server": {"url": "http://h", "urll": "x"}},
            r"server\.urll: unknown key; did you mean 'url'",
        ),
        (
            {"model": "m", "server": {"url": "http://h", "concurrency": "0"}},
            r"server\.concurrency: .* greater than 0",
        ),
        ({"model": "m", "server": {}}, r"server\.url: is missing"),
        (
            {"model": "m", "server": {"url": "http://h", "key_variable": "sk-1"}},
            r"server\.key_variable: expected the name of an environment variable",
        ),
    ],
)
def test_problems_of_a_recipe(teacher: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        recipe(**teacher)
    assert "sk-1" not in str(caught.value)


def test_a_served_model_is_no_file_here() -> None:
    assert recipe(model="/models/x", server={"url": "http://h"}).needed_files() == []
    assert recipe(model="/models/x").needed_files() == ["/models/x"]
