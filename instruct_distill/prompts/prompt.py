"""What a prompt is, and the prompts of the paper by name."""

from __future__ import annotations

import string
from typing import Any, Literal

from pydantic import TypeAdapter

from instruct_distill.errors import InputError
from instruct_distill.registry import nearest
from instruct_distill.schema import parameters


@parameters
class Prompt:
    """A question to a language model and the answers that it may give.

    The record goes whole into label headers and student folders: a student without its prompt is noise.
    """

    name: str = "custom"
    """Name in recipes and reports."""
    template: str
    """The text, with fields in braces: ``{query}`` and one other for each document; ``{{`` is a brace."""
    answers: tuple[str, ...] = ()
    """The answers that are compared; the first one is the positive one. Empty: the query is the answer."""
    answer_prefix: str = ""
    """What the model has already said when it answers: the start of the decoder's text, or of the reply."""
    cut: Literal["documents", "query"] = "documents"
    """What is shortened to fit the budget: documents from their ends, or the query from its beginning."""
    chat: bool = True
    """Put the tokenizer's chat template around the text, where it has one."""

    def __post_init__(self) -> None:
        problems = self.problems()
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def pieces(self) -> list[tuple[str, str | None]]:
        """The template as (literal, field that follows it or None)."""
        return [(literal, field) for literal, field, _, _ in string.Formatter().parse(self.template)]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields in the order of the template."""
        return tuple(field for _, field in self.pieces if field is not None)

    @property
    def document_fields(self) -> tuple[str, ...]:
        """The fields that documents fill, in the order of the template."""
        return tuple(field for field in self.fields if field != "query")

    def problems(self) -> list[str]:
        """Return what is wrong with the record, one sentence a problem."""
        try:
            fields = self.fields
        except ValueError as error:
            return [f"template of prompt {self.name!r}: {error}; write {{{{ or }}}} for a brace"]
        found = []
        for field in fields:
            if not field.isidentifier():
                found.append(
                    f"template of prompt {self.name!r}: {{{field}}} is no field name; "
                    "a field is a word in braces, {{ and }} are braces"
                )
            if fields.count(field) > 1:
                found.append(
                    f"template of prompt {self.name!r}: field {{{field}}} stands there more than once"
                )
        for literal, following in self.pieces[1:]:
            if following is not None and not any(character.isspace() for character in literal):
                found.append(f"template of prompt {self.name!r}: no white space before field {{{following}}}")
        if any(spec or conversion for _, _, spec, conversion in string.Formatter().parse(self.template)):
            found.append(f"template of prompt {self.name!r}: fields have no format ('!r', ':>8'), only names")
        if len(set(self.answers)) < len(self.answers) or any(not answer.strip() for answer in self.answers):
            found.append(f"answers of prompt {self.name!r} must be different and not blank: {self.answers}")
        return list(dict.fromkeys(found))

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain values, for JSON and YAML."""
        record: dict[str, Any] = TypeAdapter(Prompt).dump_python(self, mode="json")
        return record


_POINTWISE = (
    'Question: Given a query "{query}", Is the following passage relevant to the query?\n\n'
    "Passage : {passage}\n\nIf it is relevant answer Yes, else answer No.\n\nAnswer:"
)
_PAIRWISE = (
    'Question: Given a query "{query}", which of the following two passages is more relevant '
    "to the query?\n\n"
    "passage A: {passage_a}\n\npassage B: {passage_b}\n\n"
    "Output the identifier of the more relevant passage. The answer must be passage A or passage B.\n\n"
    "Answer:"
)
_RELEASED = (
    "Predict whether the given passage answer the question.\n\nQuestion: {query}\n\nPassage: {passage}\n\n"
    "Does the passage answer the question?"
)
_MOVIE_HEAD = "Question: Given the conversation history between the recommender and the user:\n\n{query}\n\n"

PROMPTS: dict[str, Prompt] = {
    prompt.name: prompt
    for prompt in (
        # arXiv 2311.01555, appendix A.1
        Prompt(name="pointwise-passage", template=_POINTWISE, answers=("Yes", "No")),
        Prompt(name="pairwise-passage", template=_PAIRWISE, answers=("A", "B"), answer_prefix="passage"),
        # the authors' released students were trained with this one
        Prompt(name="pointwise-released", template=_RELEASED, answers=("Yes", "No")),
        # arXiv 2311.01555, appendix A.2
        Prompt(
            name="pointwise-movie",
            template=_MOVIE_HEAD
            + "Based on the user's preference, is the following movie suitable to the user?\n\n"
            "Movie: {movie}\n\n"
            "The answer must be Y or N. Give the answer after Answer: .",
            answers=("Y", "N"),
            cut="query",
        ),
        Prompt(
            name="pairwise-movie",
            template=_MOVIE_HEAD
            + "Based on the user's preference, which of the following two movies is more suitable "
            "to the user?\n\nMovie A: {movie_a}\n\nMovie B: {movie_b}\n\n"
            "The answer must be A or B. Give the answer after the Answer: .",
            answers=("A", "B"),
            cut="query",
        ),
        # this project's own wording
        Prompt(name="query-generation", template="{passage}\n\nWrite a question that this passage answers."),
        Prompt(name="describe", template="{passage}\n\nSay in one sentence what this does."),
        Prompt(
            name="pointwise-short",
            template="Passage: {passage}\n\nQuery: {query}\n\nIs the passage relevant to the query? "
            "Answer Yes or No.\n\nAnswer:",
            answers=("Yes", "No"),
            chat=False,
        ),
    )
}


def named_prompt(name: str) -> Prompt:
    """Return the prompt of that name.

    Raises:
        InputError: there is none; the message lists the names.
    """
    if name not in PROMPTS:
        known = ", ".join(sorted(PROMPTS))
        raise InputError(f"unknown prompt {name!r}{nearest(name, PROMPTS)} (known: {known})")
    return PROMPTS[name]


def check_prompt(prompt: Prompt, *, documents: int, answers: bool, purpose: str) -> None:
    """Check that a prompt can be used for a purpose.

    Args:
        prompt: the record.
        documents: how many documents the purpose shows in one prompt.
        answers: whether the purpose compares answers (then it shows the query too).
        purpose: what it is for, such as ``strategy allpairs``.

    Raises:
        InputError: a field is missing or not used; the message has both lists.
    """
    found = []
    if len(prompt.document_fields) != documents:
        found.append(
            f"it shows {len(prompt.document_fields)} document(s) {list(prompt.document_fields)}, "
            f"{purpose} needs {documents}"
        )
    if answers and "query" not in prompt.fields:
        found.append("it has no field {query}")
    if answers and len(prompt.answers) < 2:
        found.append(f"it compares {len(prompt.answers)} answers, {purpose} needs 2")
    if not answers and "query" in prompt.fields:
        found.append("it shows the query, which is what the model is to write")
    if found:
        raise InputError(f"prompt {prompt.name!r} does not fit {purpose}: {'; '.join(found)}")
