"""An engine that runs a model in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.inference.generation import write_greedily
from instruct_distill.inference.prefix_groups import PrefixGroup, prefix_groups
from instruct_distill.inference.shared_prefix import answers_by_group, shares_prefixes
from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.batch import by_length
from instruct_distill.models.decoder_only import DecoderOnly
from instruct_distill.models.loading import LoadedModel
from instruct_distill.models.question_encoder import question_encoder
from instruct_distill.prompts.answers import EncodedAnswers
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.prompts.prompt import Prompt


class LocalEngine:
    """Asks a loaded model: prompts sorted by length, batches by token budget, only the needed rows projected.

    Args:
        loaded: the model and its tokenizer.
        prompt: the prompt record.
        max_length: the longest prompt in tokens.
        document_words: words of a document that are shown at most, or None.
        tokens_per_batch: padded tokens a batch.
        share_prefix: let a decoder-only model read what prompts asked together have in common at their
            beginnings once, where it gives the same answers.

    Attributes:
        asked: prompts that were asked.
        tokens: their lengths.
        tokens_read: tokens that the model read for them; fewer where beginnings are shared.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        prompt: Prompt,
        *,
        max_length: int,
        document_words: int | None = None,
        tokens_per_batch: int = 4096,
        share_prefix: bool = False,
    ) -> None:
        self.model: AnswerModel = loaded.model
        self.prompt = prompt
        self.tokens_per_batch = tokens_per_batch
        self._loaded = loaded
        self._tokenizer = loaded.tokenizer
        self._max_length, self._document_words = max_length, document_words
        self._encoders: dict[int, PromptEncoder] = {}
        self.encoder = self._encoder(2 if prompt.block else len(prompt.document_fields))
        self.asked = 0
        self.tokens = 0
        self.tokens_read = 0
        if self.encoder.answers is not None:
            self._check_against_the_models_own_forward(self.encoder.answers)
        self.shares_prefix = share_prefix and self._can_share()

    def with_prompt(self, prompt: Prompt) -> LocalEngine:
        """Return an engine over the same weights that asks in another wording."""
        return LocalEngine(
            self._loaded,
            prompt,
            max_length=self._max_length,
            document_words=self._document_words,
            tokens_per_batch=self.tokens_per_batch,
            share_prefix=self.shares_prefix,
        )

    def answer_logits(
        self, questions: Sequence[Question], answered: Callable[[list[int]], None] | None = None
    ) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`.

        Args:
            questions: what is asked.
            answered: is told the positions of the questions of each batch, when it is done.
        """
        columns = len(self._answers(self.encoder).continuations)
        if self.prompt.block:
            columns = max((len(question.documents) for question in questions), default=0)
        return self._collected(questions, self._answered(questions), columns, answered)

    def log_likelihood(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        silent = next((q.query.query_id for q in questions if not q.query.text.strip()), None)
        if silent is not None:
            raise InputError(f"query {silent!r} has no text whose probability could be asked for")
        written = [self.encoder.encode_continuation(question.query.text) for question in questions]
        batches = (
            (rows, self.model.log_likelihood(prompts, [written[i] for i in rows])[:, None])
            for _, rows, prompts in self._batches(questions)
        )
        return self._collected(questions, batches, 1)[:, 0]

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        texts = [""] * len(questions)
        with evaluation_mode(self.model):
            for encoder, rows, prompts in self._batches(questions, room=max_tokens):
                start = encoder.answers.prefix if encoder.answers else None
                written = write_greedily(self.model, self._tokenizer, prompts, start, max_tokens)
                for row, text in zip(rows, written, strict=True):
                    if text is None:
                        raise self._not_finite(questions[row], "with NaN logits", 1)
                    texts[row] = text
        return texts

    def _encoder(self, documents: int) -> PromptEncoder:
        """The encoder of prompts with so many documents; a prompt without a block has one."""
        if documents not in self._encoders:
            self._encoders[documents] = question_encoder(
                self._loaded,
                self.prompt.for_documents(documents) if self.prompt.block else self.prompt,
                max_length=self._max_length,
                document_words=self._document_words,
                beside=next(iter(self._encoders.values()), None),
            )
        return self._encoders[documents]

    def _encoded(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[PromptEncoder, list[int], list[list[int]]]]:
        """Yield (encoder, positions, prompts) of the questions with equally many documents."""
        groups: dict[int, list[int]] = {}
        for row, question in enumerate(questions):
            groups.setdefault(len(question.documents) if self.prompt.block else 0, []).append(row)
        for documents, rows in sorted(groups.items(), reverse=True):
            encoder = self._encoder(documents) if self.prompt.block else self.encoder
            prompts = encoder.encode(
                (questions[row].query.text, [document.full_text for document in questions[row].documents])
                for row in rows
            )
            self.asked += len(prompts)
            self.tokens += sum(len(prompt) for prompt in prompts)
            yield encoder, rows, prompts

    def _batches(
        self, questions: Sequence[Question], room: int = 0
    ) -> Iterator[tuple[PromptEncoder, list[int], list[list[int]]]]:
        """Yield (encoder, positions, prompts) of each batch: equally many documents, alike in length.

        Args:
            questions: what is asked.
            room: tokens that each prompt will grow by.
        """
        for encoder, rows, prompts in self._encoded(questions):
            self.tokens_read += sum(len(prompt) for prompt in prompts)
            for batch in by_length([len(prompt) + room for prompt in prompts], self.tokens_per_batch):
                yield encoder, [rows[i] for i in batch], [prompts[i] for i in batch]

    def _answered(self, questions: Sequence[Question]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield (positions, answers) of each batch."""
        for encoder, rows, prompts in self._encoded(questions):
            answers = self._answers(encoder)
            groups: list[PrefixGroup] = []
            alone = list(range(len(prompts)))
            if isinstance(self.model, DecoderOnly) and self.shares_prefix and answers.single:
                groups, alone = prefix_groups(prompts)
                for batch, found in answers_by_group(
                    self.model, prompts, groups, answers, self.tokens_per_batch
                ):
                    yield [rows[i] for i in batch], found
            saved = sum(group.length * (len(group.rows) - 1) for group in groups)
            self.tokens_read += sum(len(prompt) for prompt in prompts) - saved
            for some in by_length([len(prompts[i]) for i in alone], self.tokens_per_batch):
                chosen = [alone[i] for i in some]
                yield [rows[i] for i in chosen], self.model([prompts[i] for i in chosen], answers)

    def _collected(
        self,
        questions: Sequence[Question],
        batches: Iterable[tuple[list[int], torch.Tensor]],
        columns: int,
        answered: Callable[[list[int]], None] | None = None,
    ) -> FloatArray:
        results = np.full((len(questions), columns), -np.inf, dtype=np.float32)
        finite = np.ones(len(questions), dtype=bool)
        with evaluation_mode(self.model):
            for rows, found in batches:
                answers = found.float().cpu().numpy()
                results[rows, : answers.shape[1]] = answers
                finite[rows] = np.isfinite(answers).all(axis=1)
                if answered is not None:
                    answered(rows)
        broken = np.flatnonzero(~finite)
        if broken.size:
            row = int(broken[0])
            raise self._not_finite(questions[row], str(results[row].tolist()), broken.size)
        return results

    @staticmethod
    def _not_finite(question: Question, answer: str, count: int) -> NonFiniteScoreError:
        shown = ", ".join(repr(document.doc_id) for document in question.documents)
        return NonFiniteScoreError(
            f"the model answered {answer} to query {question.query.query_id!r} with "
            f"document(s) {shown} ({count} such answers); use dtype bf16 or fp32"
        )

    def _answers(self, encoder: PromptEncoder) -> EncodedAnswers:
        if encoder.answers is None:
            raise InputError(f"prompt {self.prompt.name!r} has no answers to compare")
        return encoder.answers

    def _can_share(self) -> bool:
        fields = len(self.encoder.prompt.document_fields)
        texts = [("what is it", "It is a test."), ("how far is the moon", "The moon is a long way off. " * 4)]
        prompts = self.encoder.encode([(query, [text] * fields) for query, text in texts])
        with evaluation_mode(self.model):
            return shares_prefixes(self.model, prompts, self.encoder.answers, self._max_length)

    def _check_against_the_models_own_forward(self, answers: EncodedAnswers) -> None:
        """Make sure that this family's short cut to the answer logits gives what the model itself gives."""
        if not answers.single:
            return
        fields = len(self.encoder.prompt.document_fields)
        prompt = self.encoder.encode([("what is it", ["It is a test."] * fields)])[0]
        with evaluation_mode(self.model):
            ours = self.model([prompt], answers)[0].float()
            ids = [continuation[0] for continuation in answers.continuations]
            theirs = self.model.reference_logits(prompt, answers)[ids].float()
        exact = next(self.model.parameters()).dtype in (torch.float32, torch.float64)
        tolerance = (1e-3 if exact else 0.05) * (1.0 + float(theirs.abs().max()))
        if not torch.allclose(ours, theirs, atol=tolerance, rtol=0):
            raise InputError(
                f"{type(self.model.model).__name__} computes its logits in a way that this library does not "
                f"know: {theirs.tolist()} by the model, {ours.tolist()} here"
            )


@contextmanager
def evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off, and leave the model as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, training in modes:
            module.training = training
