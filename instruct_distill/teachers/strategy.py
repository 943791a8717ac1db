"""What a teacher strategy is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from instruct_distill.inference.engine import Question
from instruct_distill.records import Document, ListLabel, Qrels, Query
from instruct_distill.teachers.parameters import TeacherParameters

Steps = Generator[list[Question], Any, ListLabel]
"""Yields the questions of one round, is sent their answers (an array with a row for each, or a list of texts
where the strategy asks ``generate``), and returns the label at its end."""


@dataclass(frozen=True)
class Context:
    """What a strategy may look at besides the query and its candidates.

    Args:
        qrels: gives the collection's judgements, or None.
        query_ids: gives the ids of all queries of the collection, in its order.
        seed: what a strategy that samples draws from, with the query's id.
    """

    qrels: Callable[[], Qrels | None]
    query_ids: Callable[[], list[str]]
    seed: int = 13


class Strategy(ABC):
    """A way to rank a candidate list.

    A strategy works on one query at a time and never calls a model: it yields questions and receives
    answers, so that the questions of many queries can be asked in the same batches.

    A module with keys of its own in the recipe declares them as a section ``Parameters``; the strategy reads
    them with :meth:`TeacherParameters.strategy_section`.
    """

    asks: ClassVar[Literal["answer_logits", "log_likelihood", "generate"] | None]
    """What an engine is asked for; None: no model is needed."""
    documents: ClassVar[int | None]
    """Documents in one prompt; None: a list, by the prompt's block."""
    max_tokens: int = 0
    """Tokens that an answer may have, where the strategy asks ``generate``."""
    default_prompt: ClassVar[str | None] = None
    """The prompt's name where the recipe names none."""

    def __init__(self, parameters: TeacherParameters, context: Context) -> None:
        self.parameters = parameters
        self.context = context

    def settings(self) -> dict[str, Any]:
        """Return what the labels depend on besides model, prompt and texts, as JSON values."""
        chosen = self.parameters.strategy
        return {} if isinstance(chosen, str) else {k: v for k, v in chosen.items() if k != "name"}

    @abstractmethod
    def prompts(self, candidates: int) -> int:
        """Return the number of prompts for a list of that many candidates, at most."""

    def rounds(self, candidates: int) -> int:
        """Return in how many rounds these prompts are asked, at most: 1 where none waits for an answer."""
        return 1

    @abstractmethod
    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """Label one list; no document is empty. Scores stand in the order of ``documents``."""
