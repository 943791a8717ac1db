"""Labelling: the questions of a chunk of lists are pooled, asked, and dealt back to their lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from instruct_distill.errors import InputError
from instruct_distill.inference.engine import Engine, Question
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt, check_prompt
from instruct_distill.records import Comparison, Document, ListLabel, Query
from instruct_distill.teachers import STRATEGIES
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.rounds import together
from instruct_distill.teachers.strategy import Context, Strategy

_TOKENS = 64
"""A round of a chunk has a prompt for so many tokens of a batch: two batches of prompts twice as long."""


class CandidateTexts(NamedTuple):
    """A query with the texts of its candidates, in first-stage order."""

    query: Query
    documents: tuple[Document, ...]


def strategy_of(parameters: TeacherParameters, context: Context) -> Strategy:
    """Make the strategy that a teacher section names.

    Raises:
        InputError: there is no such strategy, or it needs a model and has none.
    """
    if parameters.model is not None and parameters.kind in ("run", "permutations", "qrels"):
        raise InputError(
            f"strategy {parameters.kind!r} asks no model; write 'teacher: {{{parameters.kind}: ...}}'"
        )
    strategy: Strategy = STRATEGIES.load(parameters.kind).STRATEGY(parameters, context)
    return strategy


def prompt_of(parameters: TeacherParameters, strategy: Strategy) -> Prompt | None:
    """Return the prompt record of a teacher, checked against its strategy; None for one that asks nothing.

    Raises:
        InputError: the prompt lacks a field that the strategy fills, or has one that it does not.
    """
    if strategy.asks is None:
        return None
    chosen = parameters.prompt or strategy.default_prompt
    if chosen is None:
        raise InputError(f"strategy {parameters.kind!r} has no prompt of its own; name one with 'prompt:'")
    prompt = chosen if isinstance(chosen, Prompt) else named_prompt(chosen)
    check_prompt(
        prompt,
        documents=strategy.documents,
        answers=strategy.asks == "answer_logits",
        query=strategy.asks != "log_likelihood",
        purpose=f"strategy {parameters.kind}",
    )
    return prompt


def chunks_of(strategy: Strategy, lengths: Sequence[int], parameters: TeacherParameters) -> list[list[int]]:
    """Group consecutive lists into chunks: what is asked, written and resumed together.

    Args:
        strategy: what asks.
        lengths: the number of documents of each list, in candidate-file order.
        parameters: the teacher section.

    Returns:
        positions of the lists of each chunk.
    """
    # a strategy of many rounds asks little at a time: batches are filled by many lists
    at_once = [
        strategy.prompts(n) / strategy.rounds(n) if strategy.rounds(n) > 1 else math.inf for n in lengths
    ]
    return chunk(
        [strategy.prompts(n) for n in lengths],
        parameters.prompts_per_chunk,
        at_once=at_once,
        least_at_once=min(parameters.tokens_per_batch // _TOKENS, parameters.prompts_per_chunk),
    )


def chunk(
    prompts: Sequence[int],
    prompts_per_chunk: int,
    *,
    at_once: Sequence[float] = (),
    least_at_once: float = 0,
) -> list[list[int]]:
    """Group consecutive lists into chunks of at most that many prompts, at least one list each.

    Args:
        prompts: the number of prompts of each list, in candidate-file order.
        prompts_per_chunk: what a chunk holds at most; a longer list is a chunk of its own.
        at_once: the number of prompts that each list asks in one round.
        least_at_once: a chunk whose lists ask fewer prompts than these in one round takes in more lists.

    Returns:
        positions of the lists of each chunk.
    """
    chunks: list[list[int]] = []
    filled, round_ = 0, 0.0
    for position, count in enumerate(prompts):
        # lists without prompts are free, but a chunk of ten thousand of them would be no unit of work
        count = max(count, 1)
        if not chunks or (filled + count > prompts_per_chunk and round_ >= least_at_once):
            chunks.append([])
            filled, round_ = 0, 0.0
        chunks[-1].append(position)
        filled += count
        round_ += at_once[position] if at_once else 0.0
    return chunks


def label_chunk(
    strategy: Strategy, engine: Engine | None, lists: Sequence[CandidateTexts]
) -> list[ListLabel]:
    """Label some lists together.

    The strategies of all lists take one step at a time; their questions are asked in common batches. Empty
    documents are not asked about and rank below all others.

    Raises:
        NonFiniteScoreError: the model answered with NaN or infinity.
    """
    asked = [
        [i for i, document in enumerate(item.documents) if document.full_text or strategy.asks is None]
        for item in lists
    ]
    steps = together(
        strategy.label(item.query, [item.documents[i] for i in kept])
        for item, kept in zip(lists, asked, strict=True)
    )
    try:
        questions = next(steps)
        ask = _asking(strategy, engine)
        while True:
            questions = steps.send(ask(questions) if questions else np.zeros((0, 2), dtype=np.float32))
    except StopIteration as done:
        labels: list[ListLabel] = done.value
    return [
        _with_empty_documents(label, item, kept)
        for label, item, kept in zip(labels, lists, asked, strict=True)
    ]


def _asking(strategy: Strategy, engine: Engine | None) -> Callable[[list[Question]], Any]:
    """What puts a strategy's questions to the engine."""
    ask = getattr(engine, strategy.asks or "", None)
    if ask is None:
        raise InputError(f"{type(strategy).__name__} needs a model that gives {strategy.asks}")
    if strategy.asks == "generate":
        return lambda questions: ask(questions, strategy.max_tokens)
    return lambda questions: ask(questions)


def _with_empty_documents(label: ListLabel, item: CandidateTexts, kept: Sequence[int]) -> ListLabel:
    """Put documents without text back in their places, below all others."""
    if len(kept) == len(item.documents):
        return label
    lowest = min(label.scores, default=0.0) - 1.0
    scores = [lowest] * len(item.documents)
    for i, score in zip(kept, label.scores, strict=True):
        scores[i] = score
    return ListLabel(
        label.query_id,
        tuple(document.doc_id for document in item.documents),
        tuple(scores),
        tuple(Comparison(kept[c.first], kept[c.second], c.margin) for c in label.comparisons),
    )
