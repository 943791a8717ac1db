from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from instruct_distill.inference.engine import Question
from instruct_distill.teachers.rounds import together
from tests.teachers.ordered_engine import QUERY


def asks(name: str, *rounds: int) -> Generator[list[Question], Any, str]:
    """Asks that many questions in each round, and returns what it was told."""
    told = ""
    for count in rounds:
        answers = yield [Question(QUERY, ())] * count
        assert len(answers) == count
        told += "".join(answers)
    return f"{name}:{told}"


def run(steps: Generator[list[Question], Any, list[str]]) -> tuple[list[int], list[str]]:
    """Answer with the letters in their order; return the sizes of the rounds and the results."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    sizes: list[int] = []
    answers: list[str] | None = None
    while True:
        try:
            questions = steps.send(answers)
        except StopIteration as done:
            return sizes, done.value
        sizes.append(len(questions))
        answers = [next(letters) for _ in questions]


def test_rounds_are_asked_together_and_dealt_back() -> None:
    steps = together([asks("x", 2, 1), asks("y"), asks("z", 1, 0, 3)])
    assert run(steps) == ([3, 1, 3], ["x:abd", "y:", "z:cefg"])


def test_nobody_asks() -> None:
    assert run(together([asks("x"), asks("y")])) == ([], ["x:", "y:"])
    assert run(together([])) == ([], [])


def test_groups_of_groups() -> None:
    def both() -> Generator[list[Question], Any, str]:
        return " ".join((yield from together([asks("x", 1, 1), asks("y", 2)])))

    assert run(together([both(), asks("z", 1)])) == ([4, 1], ["x:ae y:bc", "z:d"])


def test_an_error_of_one_ends_all() -> None:
    def broken() -> Generator[list[Question], Any, str]:
        yield [Question(QUERY, ())]
        raise ValueError("that is no answer")

    with pytest.raises(ValueError, match="that is no answer"):
        run(together([asks("x", 1, 1), broken()]))
