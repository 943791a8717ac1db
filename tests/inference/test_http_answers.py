"""Which answer a server's log-probabilities mean."""

from __future__ import annotations

import math

import pytest

from instruct_distill.errors import InputError
from instruct_distill.inference.http_answers import answer_place, answer_scores, answer_words, mean_logprob
from instruct_distill.inference.http_messages import Position

AB = ("a", "b")


def positions(*tokens: str, logprobs: list[float] | None = None) -> list[Position]:
    values = logprobs or [-1.0] * len(tokens)
    return [Position(token, value, ((token, value),)) for token, value in zip(tokens, values, strict=True)]


@pytest.mark.parametrize(
    ("tokens", "place"),
    [
        (["Passage", " A"], 1),
        ([" A"], 0),
        (["**", "Passage", " b", "**"], 2),
        (["The", " answer", " is", " passage", " B", "."], 4),
        (["▁Passage", "▁B"], 1),
        (["\n", "A", " because", " it"], 1),
        (["A", " and", " more"], 0),  # no closed form, but the first word is an answer
        (["Both"], None),
        (["Passage", " AB"], None),
        ([""], None),
        ([], None),
    ],
)
def test_b11_where_an_answer_stands(tokens: list[str], place: int | None) -> None:
    text = "".join(tokens).replace("▁", " ")
    assert answer_place(positions(*tokens), text, ("A", "B"), AB, "passage") == place


def test_an_answer_in_pieces_stands_at_its_first() -> None:
    words = answer_words(("Relevant", "Irrelevant"))
    assert (
        answer_place(positions(" Irre", "levant"), "Irrelevant", ("Relevant", "Irrelevant"), words, "") == 0
    )


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([(" A", -1.0), (" B", -2.0), ("A", -0.1), ("x", -5.0)], [-1.0, -2.0]),  # as the prompt goes on
        ([("A", -1.0), (" B", -2.0)], [-1.0, -2.0]),
        ([("a", -1.0), ("A", -1.0), ("B", -2.0)], [-1.0 + math.log(2), -2.0]),
        ([("▁A", -1.0), ("ĠB", -2.0)], [-1.0, -2.0]),
        ([(" A", -1.0), ("x", -5.0)], [-1.0, -5.01]),  # not listed: below all that are
        ([("x", -0.5), (" B", -5.0)], [-5.01, -5.0]),
    ],
)
def test_scores(listed: list[tuple[str, float]], expected: list[float]) -> None:
    scores, decided = answer_scores(listed, AB, (" A", " B"))
    assert decided
    assert scores == pytest.approx(expected)


def test_without_a_context_all_forms_count() -> None:
    scores, _ = answer_scores([(" A", -1.0), ("A", -1.0), ("**b", -2.0)], AB)
    assert scores == pytest.approx([-1.0 + math.log(2), -2.0])


def test_pieces_count_where_the_word_is_not_listed() -> None:
    words = answer_words(("Yes", "No"))
    assert answer_scores([("Y", -1.0), ("No", -2.0), ("N", -0.1)], words)[0] == [-1.0, -2.0]


@pytest.mark.parametrize("listed", [[("x", -1.0), ("AB", -2.0)], []])
def test_no_answer_is_listed(listed: list[tuple[str, float]]) -> None:
    scores, decided = answer_scores(listed, AB)
    assert not decided
    assert scores[0] == scores[1] < -2.0


@pytest.mark.parametrize("answers", [("1", "10"), ("passage A", "passage B"), ("a", "A")])
def test_answers_that_begin_alike(answers: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="begin alike, and a server lists single tokens"):
        answer_words(answers)


@pytest.mark.parametrize(
    ("tokens", "logprobs", "expected"),
    [
        (["<s>", "Ask", " a question.", " how", " far"], [0, -9, -9, -1, -2], -1.5),
        (["Ask", " a question.", " ", "how", " far"], [-9, -9, -3, -1, -2], -2.0),  # the blank is a token
        (["how", " far", "Ask a question.", " how", " far"], [-9, -9, -9, -1, -2], -1.5),
        (
            ["Ask a question.", " ho", "�", "�", "far"],
            [-9, -1, -2, -3, -6],
            -3.0,
        ),  # a character in two tokens
    ],
)
def test_the_likelihood_of_what_follows(tokens: list[str], logprobs: list[float], expected: float) -> None:
    found = mean_logprob(positions(*tokens, logprobs=logprobs), "Ask a question.", " how far")
    assert found == pytest.approx(expected)


def test_a_prompt_whose_end_is_not_found() -> None:
    assert mean_logprob(positions("other", " how", " far"), "Ask a question.", " how far") is None
    assert mean_logprob([], "Ask a question.", " how far") is None
