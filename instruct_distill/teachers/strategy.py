"""What a teacher strategy is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.records import Document, ListLabel, Qrels, Query
from instruct_distill.teachers.parameters import TeacherParameters

Steps = Generator[list[Question], FloatArray, ListLabel]
"""Yields the questions of one round, is sent their answers, and returns the label at its end."""


@dataclass(frozen=True)
class Context:
    """What a strategy may look at besides the query and its candidates.

    Args:
        qrels: gives the collection's judgements, or None.
        query_ids: gives the ids of all queries of the collection, in its order.
    """

    qrels: Callable[[], Qrels | None]
    query_ids: Callable[[], list[str]]


class Strategy(ABC):
    """A way to rank a candidate list.

    A strategy works on one query at a time and never calls a model: it yields questions and receives
    answers, so that the questions of many queries can be asked in the same batches.
    """

    asks: ClassVar[Literal["answer_logits", "log_likelihood"] | None]
    """What an engine is asked for; None: no model is needed."""
    documents: ClassVar[int]
    """Documents in one prompt."""
    default_prompt: ClassVar[str | None] = None
    """The prompt's name where the recipe names none."""

    def __init__(self, parameters: TeacherParameters, context: Context) -> None:
        self.parameters = parameters
        self.context = context

    @abstractmethod
    def prompts(self, candidates: int) -> int:
        """Return the number of prompts for a list of that many candidates, at most."""

    @abstractmethod
    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """Label one list; no document is empty. Scores stand in the order of ``documents``."""
