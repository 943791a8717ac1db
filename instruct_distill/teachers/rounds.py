"""Several that ask, taking their steps together: their questions of one round go out as one."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeVar

from instruct_distill.inference.engine import Question

T = TypeVar("T")


def together(several: Iterable[Generator[list[Question], Any, T]]) -> Generator[list[Question], Any, list[T]]:
    """Let generators that yield questions and are sent answers run side by side.

    Each round has the questions of all that are not done, in their order. None may depend on what another
    one does in the same round.

    Returns:
        what each of them returned, in their order.
    """
    results: dict[int, T] = {}
    running: list[tuple[int, Generator[list[Question], Any, T], list[Question]]] = []

    def advance(position: int, one: Generator[list[Question], Any, T], answers: Any) -> None:
        try:
            running.append((position, one, one.send(answers)))
        except StopIteration as done:
            results[position] = done.value

    for position, one in enumerate(several):
        advance(position, one, None)
    while running:
        answers = yield [question for _, _, questions in running for question in questions]
        waiting, running, start = running, [], 0
        for position, one, questions in waiting:
            advance(position, one, answers[start : start + len(questions)])
            start += len(questions)
    return [results[position] for position in sorted(results)]
