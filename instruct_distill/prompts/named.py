"""The prompts that have a name: those of the paper, of published students, and this project's own."""

from __future__ import annotations

import yaml
from pydantic import TypeAdapter, ValidationError

from instruct_distill.errors import InputError
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.registry import nearest

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
    # ValueError and TypeError: what YAML takes for a date or a number, and what it cannot have as a key
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError, ValidationError) as error:
        raise InputError(f"{name_or_file}: no prompt record ({error})") from None
    return record
