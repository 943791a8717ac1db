"""What a prompt is, and the prompts of the paper by name."""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Iterator
from typing import Any, Literal

import yaml
from pydantic import TypeAdapter, ValidationError

from instruct_distill.errors import InputError
from instruct_distill.registry import nearest
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
_WRITE_QUERY = (
    "Here are passages, each with a question that it answers.\n\n"
    "Passage: Ferries to the island leave from the old pier every hour between six in the morning and ten at "
    "night.\n\nQuestion: when do ferries to the island leave\n\n"
    "Passage: Bread turns out dry when the dough has too little water or stays in the oven for too long.\n\n"
    "Question: why is my bread dry\n\n"
    "Write the question for this one, and nothing else.\n\nPassage: {passage}\n\nQuestion:"
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
        # two texts, which an encoder's tokenizer puts together in its own way
        Prompt(name="pair", template="{query} {passage}", chat=False),
        # arXiv 2003.06713, section 3: what monoT5 was trained with
        Prompt(
            name="monot5",
            template="Query: {query} Document: {passage} Relevant:",
            answers=("true", "false"),
            chat=False,
        ),
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
        Prompt(
            name="listwise-movie",
            template=_MOVIE_HEAD
            + "Based on the user's preference, which of the following movies is the most suitable for the "
            "user?\n\n{documents}Answer the question with the number of the movie. The answer will include "
            "one and only one number. Give the answer after Answer: .",
            block="[{number}]: {movie}\n\n",
            answers=("{number}",),
            cut="query",
        ),
        # this project's own wording
        Prompt(name="query-generation", template="{passage}\n\nWrite a question that this passage answers."),
        Prompt(name="write-query", template=_WRITE_QUERY),
        Prompt(name="describe", template="{passage}\n\nSay in one sentence what this does."),
        Prompt(
            name="pointwise-short",
            template="Passage: {passage}\n\nQuery: {query}\n\nIs the passage relevant to the query? "
            "Answer Yes or No.\n\nAnswer:",
            answers=("Yes", "No"),
            chat=False,
        ),
        Prompt(
            name="setwise-passage",
            template="Query: {query}\n\nWhich of these passages answers the query best?\n\n{documents}"
            "Reply with the letter of that passage and nothing else.\n\nAnswer:",
            block="Passage {letter}: {passage}\n\n",
            answers=("{letter}",),
            answer_prefix="Passage",
        ),
        Prompt(
            name="listwise-passage",
            template="Query: {query}\n\nPassages, each after its number:\n\n{documents}"
            "Put all these passages in order: the one that answers the query best comes first. Write nothing "
            "but their numbers, each once, in the form [2] > [1].\n\nOrder:",
            block="[{number}] {passage}\n\n",
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


def read_prompt(name_or_file: str) -> Prompt:
    """Return a prompt by its name, or the record that a YAML or JSON file holds.

    Raises:
        InputError: there is no such prompt, or the file is no prompt record.
    """
    if not name_or_file.endswith((".yaml", ".yml", ".json")):
        return named_prompt(name_or_file)
    try:
        with open(name_or_file, encoding="utf-8") as stream:
            record: Prompt = TypeAdapter(Prompt).validate_python(yaml.safe_load(stream))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        raise InputError(f"{name_or_file}: no prompt record ({error})") from None
    return record


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
