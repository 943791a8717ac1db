from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from instruct_distill.schema import parameters


@parameters
class Section:
    """A section."""

    rate: float = 3e-5
    """Learning rate."""
    steps: int = 10
    """Number of steps."""
    word: str = "x"
    """A word."""
    on: bool = False
    """Whether."""


def read(**values: object) -> Section:
    return TypeAdapter(Section).validate_python(values)


def test_scalars_get_their_type_from_the_field() -> None:
    section = read(rate="3e-5", steps="20", word="no", on="true")
    assert (section.rate, section.steps, section.word, section.on) == (3e-05, 20, "no", True)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"setps": 3}, "setps"),
        ({"steps": "many"}, "valid integer"),
        ({"steps": "2.5"}, "valid integer"),
        ({"on": "perhaps"}, "valid boolean"),
    ],
)
def test_what_no_field_allows_is_refused(values: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        read(**values)


def test_all_problems_at_once() -> None:
    with pytest.raises(ValidationError) as error:
        read(steps="many", on="perhaps", setps=1)
    assert [problem["loc"][-1] for problem in error.value.errors()] == ["steps", "on", "setps"]


def test_sections_are_frozen_and_take_keywords_only() -> None:
    section: Any = read()
    with pytest.raises(dataclasses.FrozenInstanceError):
        section.steps = 3
    make: Any = Section
    with pytest.raises((TypeError, ValidationError)):
        make(1e-3)


def test_the_string_under_a_field_is_its_documentation() -> None:
    properties = TypeAdapter(Section).json_schema()["properties"]
    assert properties["steps"]["description"] == "Number of steps."
