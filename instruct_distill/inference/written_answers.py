"""Answers read from what a model writes, where its logits are not to be had."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from instruct_distill.inference.engine import Engine, FloatArray, Question
from instruct_distill.prompts.answer_text import read_answer

logger = logging.getLogger(__name__)

ANSWER_TOKENS = 16


class WrittenAnswers:
    """An engine whose answers are another's texts: 1 for the answer that a text gives, 0 for all others.

    A text that gives none is a tie: 0 for all answers. Such texts are counted, the first one is shown, and in
    the statistics of labels they are the undecided comparisons.

    Args:
        engine: what writes.

    Attributes:
        asked: texts that were read.
        undecided: texts that gave no answer.
    """

    def __init__(self, engine: Engine) -> None:
        self.prompt = engine.prompt
        self._engine = engine
        self.asked = 0
        self.undecided = 0

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        texts = self._engine.generate(questions, ANSWER_TOKENS)
        block = bool(self.prompt.block)
        shown = [len(question.documents) if block else 0 for question in questions]
        answers = {n: (self.prompt.for_documents(n) if block else self.prompt).answers for n in set(shown)}
        columns = max(shown, default=0) if block else len(self.prompt.answers)
        results = np.full((len(questions), columns), -np.inf, dtype=np.float32)
        for row, (text, documents) in enumerate(zip(texts, shown, strict=True)):
            results[row, : len(answers[documents])] = 0.0
            chosen = read_answer(text, answers[documents], self.prompt.answer_prefix)
            if chosen is None:
                self._count(questions[row], text)
            else:
                results[row, chosen] = 1.0
        self.asked += len(questions)
        return results

    def log_likelihood(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`; what is written is of no use here."""
        return self._engine.log_likelihood(questions)

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        return self._engine.generate(questions, max_tokens)

    def _count(self, question: Question, text: str) -> None:
        self.undecided += 1
        if self.undecided == 1:
            logger.warning(
                "query %r: the model wrote %r, which is none of %s: a tie, as every such answer (said once)",
                question.query.query_id,
                text[:80],
                list(self.prompt.answers),
            )
