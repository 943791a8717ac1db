"""What a prompt is, and what it must have for a purpose."""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import TypeAdapter

from instruct_distill.errors import InputError
from instruct_distill.schema import parameters

_MARKERS = ("number", "letter")
_LETTERS = string.ascii_uppercase


@parameters
class Prompt:
    """A question to a language model and the answers that it may give.

    The record goes whole into label headers and student folders: a student without its prompt is noise.

    A prompt that shows a list has ``{documents}`` in its template, where the ``block`` is repeated once a
    document; :meth:`for_documents` writes it out.
    """

    name: str = "custom"
    """Name in recipes and reports."""
    template: str
    """The text, with fields in braces: ``{query}`` and one other for each document; ``{{`` is a brace."""
    block: str = ""
    """What stands once a document for ``{documents}``, such as ``"[{number}] {passage}\\n"``: one field for
    the document, and ``{number}`` (1, 2, ...) or ``{letter}`` (A, B, ...) for its name."""
    answers: tuple[str, ...] = ()
    """The answers that are compared; the first one is the positive one. Empty: the query is the answer, or,
    of a prompt with a block, a ranking. One of ``{number}`` and ``{letter}``: the name of each document."""
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
        return _pieces(self.template)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields in the order of the template."""
        return tuple(field for _, field in self.pieces if field is not None)

    @property
    def document_fields(self) -> tuple[str, ...]:
        """The fields that documents fill, in the order of the template."""
        return tuple(field for field in self.fields if field != "query")

    @property
    def is_pair(self) -> bool:
        """Whether it is the query and one document and nothing else: what a score head is given."""
        return (
            not (self.answers or self.block or self.answer_prefix)
            and len(self.fields) == 2
            and self.fields[0] == "query"
            and not any(literal.strip() for literal, _ in self.pieces)
        )

    def for_documents(self, count: int) -> Prompt:
        """Return the prompt that shows that many documents: the block written out, an answer for each.

        Raises:
            InputError: the prompt has no block, or the alphabet has not that many letters.
        """
        if not self.block:
            raise InputError(
                f"prompt {self.name!r} has no block, it shows {len(self.document_fields)} document(s)"
            )
        if count > len(_LETTERS) and "letter" in _fields(self.block):
            raise InputError(
                f"prompt {self.name!r} names documents by letters, of which there are {len(_LETTERS)}; "
                f"{count} documents need {{number}} in its block"
            )
        answers = tuple(_marked(answer, i) for answer in self.answers for i in range(count))
        return dataclasses.replace(self, template=self._written_out(count), block="", answers=answers)

    def _written_out(self, count: int) -> str:
        """The template with the block once for each document, whose field gets the document's number."""
        blocks = []
        for i in range(count):
            for literal, field in _pieces(self.block):
                blocks.append(_escaped(literal))
                if field in _MARKERS:
                    blocks.append(_marked(f"{{{field}}}", i))
                elif field is not None:
                    blocks.append(f"{{{field}_{i + 1}}}")
        text = ""
        for literal, field in self.pieces:
            text += _escaped(literal)
            text += "".join(blocks) if field == "documents" else "" if field is None else f"{{{field}}}"
        return text

    def problems(self) -> list[str]:
        """Return what is wrong with the record, one sentence a problem."""
        found: list[str] = []
        for part, text in (("template", self.template), ("block", self.block)):
            try:
                found += _problems_of_text(f"{part} of prompt {self.name!r}", text)
            except ValueError as error:
                return [f"{part} of prompt {self.name!r}: {error}; write {{{{ or }}}} for a brace"]
        if not found:
            found += self._problems_of_block()
        if not found:
            written = _pieces(self._written_out(2) if self.block else self.template)
            for literal, following in written[1:]:
                if following is not None and not any(character.isspace() for character in literal):
                    found.append(
                        f"template of prompt {self.name!r}: no white space before field {{{following}}}"
                    )
        if len(set(self.answers)) < len(self.answers) or any(not answer.strip() for answer in self.answers):
            found.append(f"answers of prompt {self.name!r} must be different and not blank: {self.answers}")
        return list(dict.fromkeys(found))

    def _problems_of_block(self) -> Iterator[str]:
        what = f"block of prompt {self.name!r}"
        if not self.block:
            if "documents" in self.fields:
                yield f"template of prompt {self.name!r} shows {{documents}}, and there is no block for one"
            return
        if set(self.fields) - {"query"} != {"documents"}:
            yield f"template of prompt {self.name!r}: with a block its fields are {{query}} and {{documents}}"
        fields = _fields(self.block)
        documents = [field for field in fields if field not in _MARKERS]
        if len(documents) != 1 or documents[0] in ("query", "documents"):
            yield f"{what} must have one field for the document, such as {{passage}}; it has {documents}"
        markers = [field for field in fields if field in _MARKERS]
        if len(markers) != 1:
            yield f"{what} must name its document by one of {{number}} and {{letter}}"
        elif self.answers and (len(self.answers) > 1 or f"{{{markers[0]}}}" not in self.answers[0]):
            yield (
                f"answers of prompt {self.name!r}: with this block the answer is {{{markers[0]}}}, "
                f"not {list(self.answers)}"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain values, for JSON and YAML."""
        record: dict[str, Any] = TypeAdapter(Prompt).dump_python(self, mode="json")
        if not self.block:
            del record["block"]  # records of one or two documents read as they did before there were blocks
        return record


def _pieces(text: str) -> list[tuple[str, str | None]]:
    return [(literal, field) for literal, field, _, _ in string.Formatter().parse(text)]


def _fields(text: str) -> list[str]:
    return [field for _, field in _pieces(text) if field is not None]


def _escaped(literal: str) -> str:
    return literal.replace("{", "{{").replace("}", "}}")


def _marked(text: str, position: int) -> str:
    """Put a document's number and letter in their places."""
    letter = _LETTERS[position] if position < len(_LETTERS) else ""
    return text.replace("{number}", str(position + 1)).replace("{letter}", letter)


def _problems_of_text(what: str, text: str) -> Iterator[str]:
    """Yield what is wrong with the fields of a template or block.

    Raises:
        ValueError: braces do not match.
    """
    fields = _fields(text)
    for field in fields:
        if not field.isidentifier():
            yield (
                f"{what}: {{{field}}} is no field name; a field is a word in braces, {{{{ and }}}} are braces"
            )
        if fields.count(field) > 1:
            yield f"{what}: field {{{field}}} stands there more than once"
    if any(spec or conversion for _, _, spec, conversion in string.Formatter().parse(text)):
        yield f"{what}: fields have no format ('!r', ':>8'), only names"


def check_pointwise(prompt: Prompt, score: str, *, purpose: str) -> None:
    """Check that a prompt shows a query and one document, and can be scored by a rule.

    Args:
        prompt: the record.
        score: ``head``: the prompt must be a bare pair; any other rule compares its answers.
        purpose: what it is for, such as ``a reranker``.

    Raises:
        InputError: it does not fit.
    """
    if score == "head":
        if not prompt.is_pair:
            raise InputError(
                f"prompt {prompt.name!r} does not fit score: head: an encoder is given query and document "
                "and no other words; leave the prompt out, or use 'pair'"
            )
        return
    if prompt.is_pair:
        raise InputError(
            f"prompt {prompt.name!r} does not fit score: {score}: it has no answers; it is for an encoder "
            "with score: head"
        )
    check_prompt(prompt, documents=1, answers=True, purpose=purpose)


def check_prompt(
    prompt: Prompt, *, documents: int | None, answers: bool, purpose: str, query: bool | None = None
) -> None:
    """Check that a prompt can be used for a purpose.

    Args:
        prompt: the record.
        documents: how many documents the purpose shows in one prompt; None: a list, by a block.
        answers: whether the purpose compares answers.
        purpose: what it is for, such as ``strategy allpairs``.
        query: whether the prompt shows the query; where not said, as ``answers``.

    Raises:
        InputError: a field is missing or not used; the message has both lists.
    """
    query = answers if query is None else query
    found = []
    if documents is None and not prompt.block:
        found.append(f"it has no block for a list of documents, {purpose} needs one")
    elif documents is not None and prompt.block:
        found.append(f"its block shows a list of documents, {purpose} needs {documents}")
    elif documents is not None and len(prompt.document_fields) != documents:
        found.append(
            f"it shows {len(prompt.document_fields)} document(s) {list(prompt.document_fields)}, "
            f"{purpose} needs {documents}"
        )
    if query and "query" not in prompt.fields:
        found.append("it has no field {query}")
    if answers and len(prompt.answers) < (1 if prompt.block else 2):
        found.append(
            "it has no answer for each document"
            if prompt.block
            else f"it compares {len(prompt.answers)} answers, {purpose} needs 2"
        )
    if not query and "query" in prompt.fields:
        found.append("it shows the query, which is what the model is to write")
    if found:
        raise InputError(f"prompt {prompt.name!r} does not fit {purpose}: {'; '.join(found)}")
