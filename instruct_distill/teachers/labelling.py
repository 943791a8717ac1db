"""Labelling: the questions of a chunk of lists are pooled, asked, and dealt back to their lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from instruct_distill.errors import InputError
from instruct_distill.inference.engine import Engine, Question
from instruct_distill.prompts.prompt import Prompt, check_prompt, named_prompt
from instruct_distill.records import Comparison, Document, ListLabel, Query
from instruct_distill.teachers import STRATEGIES
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context, Steps, Strategy


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


def chunk(prompts: Sequence[int], prompts_per_chunk: int) -> list[list[int]]:
    """Group consecutive lists into chunks of at most that many prompts, at least one list each.

    Args:
        prompts: the number of prompts of each list, in candidate-file order.
        prompts_per_chunk: what a chunk holds at most; a longer list is a chunk of its own.

    Returns:
        positions of the lists of each chunk.
    """
    chunks: list[list[int]] = []
    filled = 0
    for position, count in enumerate(prompts):
        # lists without prompts are free, but a chunk of ten thousand of them would be no unit of work
        count = max(count, 1)
        if not chunks or filled + count > prompts_per_chunk:
            chunks.append([])
            filled = 0
        chunks[-1].append(position)
        filled += count
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
    labels: list[ListLabel | None] = [None] * len(lists)
    running: list[tuple[int, Steps, list[Question]]] = []
    asked = [
        [i for i, document in enumerate(item.documents) if document.full_text or strategy.asks is None]
        for item in lists
    ]
    for position, item in enumerate(lists):
        steps = strategy.label(item.query, [item.documents[i] for i in asked[position]])
        _advance(labels, running, position, steps, None)
    ask = _asking(strategy, engine) if running else None
    while running:
        assert ask is not None
        questions = [question for _, _, round_ in running for question in round_]
        answers = ask(questions) if questions else np.zeros((0, 2), dtype=np.float32)
        waiting, running, start = running, [], 0
        for position, steps, round_ in waiting:
            own = answers[start : start + len(round_)]
            start += len(round_)
            _advance(labels, running, position, steps, own)
    return [
        _with_empty_documents(label, item, kept)
        for label, item, kept in zip(labels, lists, asked, strict=True)
        if label is not None
    ]


def _asking(strategy: Strategy, engine: Engine | None) -> Callable[[list[Question]], Any]:
    """What puts a strategy's questions to the engine."""
    ask = getattr(engine, strategy.asks or "", None)
    if ask is None:
        raise InputError(f"{type(strategy).__name__} needs a model that gives {strategy.asks}")
    if strategy.asks == "generate":
        return lambda questions: ask(questions, strategy.max_tokens)
    return lambda questions: ask(questions)


def _advance(
    labels: list[ListLabel | None],
    running: list[tuple[int, Steps, list[Question]]],
    position: int,
    steps: Steps,
    answers: Any,
) -> None:
    """Let one list's strategy take its next step: it asks again, or it is done."""
    try:
        questions = next(steps) if answers is None else steps.send(answers)
    except StopIteration as done:
        labels[position] = done.value
    else:
        running.append((position, steps, questions))


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
