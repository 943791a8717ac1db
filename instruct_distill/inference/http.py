"""An engine that asks a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.inference.http_answers import (
    answer_place,
    answer_scores,
    answer_words,
    mean_logprob,
)
from instruct_distill.inference.http_client import RefusedError, ServerClient
from instruct_distill.inference.http_messages import Api, Reply, request_body
from instruct_distill.inference.http_offer import Asks, find_offer
from instruct_distill.inference.parameters import ServerParameters
from instruct_distill.inference.written_answers import ANSWER_TOKENS
from instruct_distill.prompts.answers import separator
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.prompts.text import PromptText

logger = logging.getLogger(__name__)


class HttpEngine:
    """Asks a server, one prompt a request; an answer depends on its own request alone.

    Where the server lists log-probabilities, the score of an answer is its log-probability: at the first
    token (completions, whose prompt ends with the answer prefix), or at the token of a written text that
    decides (chat). An answer that is not listed counts as a little less likely than all that are. Where none
    is, the answers tie; such replies are counted, and the first one is shown.

    Args:
        model: the model's name on the server.
        server: the recipe's section.
        prompt: the prompt record.
        asks: the one of the three methods that will be called.
        document_words: words of a document that are shown at most, or None.
        processes: how many processes share the server's limits.

    Attributes:
        undecided: replies that decided nothing.

    Raises:
        InputError: the server cannot do what is asked for, or refuses the key.
        ServerError: it does not answer.
        MissingExtraError: the package ``openai`` is not installed.
    """

    def __init__(
        self,
        model: str,
        server: ServerParameters,
        prompt: Prompt,
        *,
        asks: Asks,
        document_words: int | None = None,
        processes: int = 1,
    ) -> None:
        self.prompt = prompt
        self.undecided = 0
        self._server, self._document_words = server, document_words
        self._texts: dict[tuple[Api, int], PromptText] = {}
        self._client = ServerClient(model, server, processes)
        documents = 2 if prompt.block else len(prompt.document_fields)
        small = "what is it", ["It is a test."] * documents
        self.offer = find_offer(
            self._client, server, prompt, asks, lambda api: self._text(api, documents).write(*small)
        )

    @property
    def asked(self) -> int:
        """Requests that were answered."""
        return self._client.asked

    @property
    def tokens(self) -> int:
        """Tokens of prompts and answers, as the server counts them."""
        return self._client.tokens

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`; they are log-probabilities."""
        if not self.offer.top:
            raise InputError(f"{self._server.url} gives no log-probabilities; use 'answers: written'")
        shown = [len(question.documents) if self.prompt.block else 0 for question in questions]
        answers = {n: (self.prompt.for_documents(n) if n else self.prompt).answers for n in set(shown)}
        words = {n: answer_words(each) for n, each in answers.items()}
        columns = max(map(len, answers.values()), default=len(self.prompt.answers))
        replies = self._ask(
            questions, 1 if self.offer.api == "completions" else ANSWER_TOKENS, top=self.offer.top
        )
        results = np.full((len(questions), columns), -np.inf, dtype=np.float32)
        for row, (reply, n) in enumerate(zip(replies, shown, strict=True)):
            results[row, : len(words[n])] = self._scores(questions[row], reply, answers[n], words[n])
        return results

    def log_likelihood(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        silent = next((q.query.query_id for q in questions if not q.query.text.strip()), None)
        if silent is not None:
            raise InputError(f"query {silent!r} has no text whose probability could be asked for")
        closing = self._text("completions", len(self.prompt.document_fields)).closing
        written = [separator(closing) + question.query.text.strip() for question in questions]
        replies = self._ask(questions, 0, top=1, continuations=written)
        results = np.zeros(len(questions), dtype=np.float32)
        for row, (reply, text) in enumerate(zip(replies, written, strict=True)):
            found = mean_logprob(reply.positions or (), closing, text)
            if found is None:
                raise InputError(
                    f"{self._server.url} echoes the prompt of {_named(questions[row])} in tokens among which "
                    "the query's beginning cannot be found; use a local model for query_generation"
                )
            if not math.isfinite(found):
                raise self._not_finite(questions[row], str(found))
            results[row] = found
        return results

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        return [reply.text.strip() for reply in self._ask(questions, max_tokens)]

    def _ask(
        self,
        questions: Sequence[Question],
        max_tokens: int,
        *,
        top: int = 0,
        continuations: Sequence[str] | None = None,
    ) -> list[Reply]:
        bodies = []
        for row, question in enumerate(questions):
            text = self._text(self.offer.api, len(question.documents)).write(
                question.query.text, [document.full_text for document in question.documents]
            )
            if continuations is not None:
                text += continuations[row]
            bodies.append(
                request_body(
                    self.offer.api,
                    text,
                    max_tokens,
                    self._server.extra,
                    top=top,
                    echo=continuations is not None,
                )
            )
        try:
            return self._client.ask(self.offer.api, bodies)
        except RefusedError as error:
            named = _named(questions[error.row])
            if error.too_long:
                limit = f"is {self._document_words}" if self._document_words else "is not set"
                raise InputError(
                    f"the prompt of {named} is too long for the server ({error.words}); show fewer words of "
                    f"each document: the teacher's document_words {limit}"
                ) from None
            raise InputError(f"{self._server.url} refuses the prompt of {named}: {error}") from None

    def _text(self, api: Api, documents: int) -> PromptText:
        key = api, documents if self.prompt.block else 0
        if key not in self._texts:
            self._texts[key] = PromptText(
                self.prompt.for_documents(documents) if self.prompt.block else self.prompt,
                answer_in_prompt=api == "completions",
                document_words=self._document_words,
            )
        return self._texts[key]

    def _scores(
        self, question: Question, reply: Reply, answers: Sequence[str], words: Sequence[str]
    ) -> list[float]:
        """The answers' log-probabilities in one reply."""
        positions = reply.positions or ()
        expected = None
        place: int | None = 0 if positions else None
        if self.offer.api == "completions":
            closing = self._text("completions", len(question.documents)).closing
            expected = [separator(closing) + answer.split()[0] for answer in answers]
        else:
            place = answer_place(positions, reply.text, answers, words, self.prompt.answer_prefix)
        listed = () if place is None else positions[place].listed
        if any(math.isnan(value) for _, value in listed):
            raise self._not_finite(question, "NaN")
        scores, decided = answer_scores(listed, words, expected)
        if not decided:
            self._count_undecided(question, reply.text)
        if not all(map(math.isfinite, scores)):
            raise self._not_finite(question, str(scores))
        return scores

    def _count_undecided(self, question: Question, text: str) -> None:
        self.undecided += 1
        if self.undecided == 1:
            logger.warning(
                "query %r: the model wrote %r, where none of %s is an answer or among the %d likeliest "
                "tokens: a tie, as every such reply (said once)",
                question.query.query_id,
                text[:80],
                list(self.prompt.answers),
                self.offer.top,
            )

    @staticmethod
    def _not_finite(question: Question, answer: str) -> NonFiniteScoreError:
        return NonFiniteScoreError(f"the server answered {answer} to {_named(question)}")


def _named(question: Question) -> str:
    shown = ", ".join(repr(document.doc_id) for document in question.documents)
    return f"query {question.query.query_id!r} with document(s) {shown}"
