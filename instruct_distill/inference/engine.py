"""What a teacher strategy or a student needs of whatever answers its questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from instruct_distill.prompts.prompt import Prompt
from instruct_distill.records import Document, Query

FloatArray = npt.NDArray[np.float32]


class Question(NamedTuple):
    """One prompt's content.

    Args:
        query: what is asked for.
        documents: the documents in the order in which they are shown.
    """

    query: Query
    documents: tuple[Document, ...]


class Engine(Protocol):
    """Something that answers questions for one prompt record: a local model, or a server."""

    prompt: Prompt

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        """Return the score of each answer of the prompt, float32 [questions, answers].

        A prompt that shows a list has one answer a document: the width is that of the longest list, and a
        shorter one's row ends in -inf.

        Raises:
            NonFiniteScoreError: an answer is NaN or infinite; the message names query and documents.
        """
        ...

    def log_likelihood(self, questions: Sequence[Question]) -> FloatArray:
        """Return the mean log-probability of the query's tokens after the prompt, float32 [questions].

        Raises:
            NonFiniteScoreError: as above.
        """
        ...

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        """Return what the model writes, greedily, at most ``max_tokens`` tokens a question.

        Raises:
            NonFiniteScoreError: as above.
        """
        ...
