"""An engine that answers by lot and counts the tokens that a model would have read."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.prompts.encoder import Family, PromptEncoder
from instruct_distill.prompts.pair import make_encoder
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.prompts.text import PromptText

_BYTES_PER_TOKEN = 4
"""Of English text, as OpenAI's help pages have it for their tokenizers."""


class CountingEngine:
    """Takes a model's place where only the size of the work is of interest.

    Its answers are random numbers, so that strategies that go on from an answer take a usual course. Of very
    many questions some are tokenised.

    Args:
        prompt: the prompt record.
        tokenizer: the model's tokenizer; None where it is not to be had: questions are counted, not tokens,
            unless they are to be estimated.
        family: the model's family.
        decoder_start: the decoder's first id (encoder-decoder only).
        max_length: the longest prompt in tokens.
        document_words: words of a document that are shown at most, or None.
        per_call: questions of one call that are tokenised at most.
        seed: answers and choices are functions of it.
        estimate: without a tokenizer, take four bytes of text for a token.
    """

    def __init__(
        self,
        prompt: Prompt,
        tokenizer: Any | None,
        family: Family,
        *,
        decoder_start: int | None,
        max_length: int,
        document_words: int | None = None,
        per_call: int = 200,
        seed: int = 13,
        estimate: bool = False,
    ) -> None:
        self.prompt = prompt
        self._tokenizer, self._family, self._decoder_start = tokenizer, family, decoder_start
        self._max_length, self._document_words = max_length, document_words
        self._per_call, self._estimate = per_call, estimate
        self._encoders: dict[int, PromptEncoder] = {}
        self._random = random.Random(seed)
        self._numbers = np.random.default_rng(seed)
        self.asked = 0
        self.tokenised = 0
        self.tokens = 0.0
        self.some: list[Question] = []

    @property
    def tokens_per_prompt(self) -> float:
        """The mean over all questions, each call's by those of its questions that were tokenised."""
        return self.tokens / self.asked if self.asked else 0.0

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        self._count(questions)
        columns = max(len(self.prompt.answers), 1)  # a score head has no answers, and one score
        if self.prompt.block:
            columns = max((len(question.documents) for question in questions), default=0)
        answers = self._numbers.normal(size=(len(questions), columns)).astype(np.float32)
        for row, question in enumerate(questions):
            if self.prompt.block:
                answers[row, len(question.documents) :] = -np.inf
        return answers

    def log_likelihood(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        self._count(questions, continued=True)
        return self._numbers.normal(size=len(questions)).astype(np.float32)

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        self._count(questions)
        return [""] * len(questions)

    def length_of(self, questions: Sequence[Question]) -> float:
        """Return the mean length of some prompts in tokens."""
        return sum(map(self._length, questions)) / max(len(questions), 1)

    def _length(self, question: Question) -> int:
        texts = [document.full_text for document in question.documents]
        if self._tokenizer is None:
            prompt_text = PromptText(
                self.prompt.for_documents(len(texts)) if self.prompt.block else self.prompt,
                answer_in_prompt=True,
                document_words=self._document_words,
            )
            return _estimated(prompt_text.write(question.query.text, texts))
        (prompt,) = self._encoder(len(question.documents)).encode([(question.query.text, texts)])
        return len(prompt)

    def _continuation_length(self, question: Question) -> int:
        if self._tokenizer is None:
            return _estimated(question.query.text)
        return len(self._encoder(len(question.documents)).encode_continuation(question.query.text))

    def _count(self, questions: Sequence[Question], continued: bool = False) -> None:
        """Add the tokens of questions; those of the continuation too where the query is what is read."""
        self.asked += len(questions)
        if self._tokenizer is None and not self._estimate:
            return
        chosen = self._random.sample(questions, min(self._per_call, len(questions)))
        lengths = [self._length(question) for question in chosen]
        if continued:
            lengths += [self._continuation_length(question) for question in chosen]
        self.tokenised += len(chosen)
        if chosen:
            self.tokens += sum(lengths) / len(chosen) * len(questions)
        self.some += questions[:20]

    def _encoder(self, documents: int) -> PromptEncoder:
        key = documents if self.prompt.block else 0
        if key not in self._encoders:
            self._encoders[key] = make_encoder(
                self.prompt.for_documents(documents) if self.prompt.block else self.prompt,
                self._tokenizer,
                family=self._family,
                max_length=self._max_length,
                document_words=self._document_words,
                decoder_start=self._decoder_start,
                beside=next(iter(self._encoders.values()), None),
            )
        return self._encoders[key]


def _estimated(text: str) -> int:
    return math.ceil(len(text.encode("utf-8")) / _BYTES_PER_TOKEN)
