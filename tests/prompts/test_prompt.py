from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from instruct_distill.errors import InputError
from instruct_distill.prompts.named import PROMPTS, named_prompt
from instruct_distill.prompts.prompt import Prompt, check_prompt

PUBLISHED = {
    "pointwise-passage": (
        'Question: Given a query "{query}", Is the following passage relevant to the query?⏎⏎'
        "Passage : {passage}⏎⏎If it is relevant answer Yes, else answer No.⏎⏎Answer:"
    ),
    "pairwise-passage": (
        'Question: Given a query "{query}", which of the following two passages is more relevant '
        "to the query?⏎⏎passage A: {passage_a}⏎⏎passage B: {passage_b}⏎⏎Output the identifier of the more "
        "relevant passage. The answer must be passage A or passage B.⏎⏎Answer:"
    ),
    "pointwise-released": (
        "Predict whether the given passage answer the question.⏎⏎Question: {query}⏎⏎Passage: {passage}⏎⏎"
        "Does the passage answer the question?"
    ),
    "pointwise-movie": (
        "Question: Given the conversation history between the recommender and the user:⏎⏎{query}⏎⏎Based on "
        "the user's preference, is the following movie suitable to the user?⏎⏎Movie: {movie}⏎⏎The answer "
        "must be Y or N. Give the answer after Answer: ."
    ),
    "pairwise-movie": (
        "Question: Given the conversation history between the recommender and the user:⏎⏎{query}⏎⏎Based on "
        "the user's preference, which of the following two movies is more suitable to the user?⏎⏎Movie A: "
        "{movie_a}⏎⏎Movie B: {movie_b}⏎⏎The answer must be A or B. Give the answer after the Answer: ."
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_wording_is_kept_to_the_byte(name: str) -> None:
    assert named_prompt(name).template == PUBLISHED[name].replace("⏎", "\n")


@pytest.mark.parametrize(
    ("name", "answers", "prefix"),
    [
        ("pointwise-passage", ("Yes", "No"), ""),
        ("pointwise-released", ("Yes", "No"), ""),
        ("pairwise-passage", ("A", "B"), "passage"),
        ("pairwise-movie", ("A", "B"), ""),
        ("pointwise-movie", ("Y", "N"), ""),
        ("query-generation", (), ""),
    ],
)
def test_answers(name: str, answers: tuple[str, ...], prefix: str) -> None:
    prompt = PROMPTS[name]
    assert (prompt.answers, prompt.answer_prefix) == (answers, prefix)


def test_fields_stand_in_the_order_of_the_template() -> None:
    prompt = Prompt(template="{second} {{braces}} {query} {first}")
    assert prompt.fields == ("second", "query", "first")
    assert prompt.document_fields == ("second", "first")
    assert prompt.pieces == [
        ("", "second"),
        (" {", None),
        ("braces}", None),
        (" ", "query"),
        (" ", "first"),
    ]


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_a_record_survives_being_written(prompt: Prompt) -> None:
    assert TypeAdapter(Prompt).validate_python(prompt.as_dict()) == prompt


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{query} {passage", r"expected '}' before end of string; write \{\{ or \}\} for a brace"),
        ("{query} } {passage}", r"Single '}' encountered"),
        ("{query} {0}", r"\{0\} is no field name"),
        ("{query} {}", r"\{\} is no field name"),
        ("{query} {document.text}", r"\{document.text\} is no field name"),
        ("{query} {passage} {passage}", r"field \{passage\} stands there more than once"),
        ("{query}{passage}", r"no white space before field \{passage\}"),
        ("{query} {passage!r}", r"fields have no format"),
        ("{query} {passage:>8}", r"fields have no format"),
    ],
)
def test_b14_a_template_that_cannot_be_filled_is_refused(template: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Prompt(template=template, answers=("Yes", "No"))


@pytest.mark.parametrize("answers", [("Yes", "Yes"), ("Yes", " "), ("", "No")])
def test_answers_must_be_different_and_not_blank(answers: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="must be different and not blank"):
        Prompt(template="{query} {passage}", answers=answers)


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(ValidationError, match="anwers"):
        TypeAdapter(Prompt).validate_python({"template": "{query} {passage}", "anwers": ["Yes", "No"]})


@pytest.mark.parametrize(
    ("prompt", "documents", "answers", "problem"),
    [
        ("pointwise-passage", 2, True, r"shows 1 document\(s\) \['passage'\], strategy x needs 2"),
        ("pairwise-passage", 1, True, r"shows 2 document\(s\) \['passage_a', 'passage_b'\]"),
        ("query-generation", 1, True, r"it has no field \{query\}; it compares 0 answers"),
        ("pointwise-passage", 1, False, "it shows the query, which is what the model is to write"),
    ],
)
def test_b14_unknown_and_missing_fields(prompt: str, documents: int, answers: bool, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        check_prompt(named_prompt(prompt), documents=documents, answers=answers, purpose="strategy x")


def test_prompts_that_fit() -> None:
    check_prompt(named_prompt("pairwise-movie"), documents=2, answers=True, purpose="strategy allpairs")
    check_prompt(named_prompt("query-generation"), documents=1, answers=False, purpose="query generation")


def test_an_unknown_name() -> None:
    with pytest.raises(
        InputError, match=r"unknown prompt 'pairwise-pasage'; did you mean 'pairwise-passage'\?"
    ):
        named_prompt("pairwise-pasage")
