"""An engine that runs a model in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.batch import by_length
from instruct_distill.models.loading import LoadedModel
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
    """

    def __init__(
        self,
        loaded: LoadedModel,
        prompt: Prompt,
        *,
        max_length: int,
        document_words: int | None = None,
        tokens_per_batch: int = 4096,
    ) -> None:
        self.model: AnswerModel = loaded.model
        self.prompt = prompt
        self.tokens_per_batch = tokens_per_batch
        self.encoder = PromptEncoder(
            prompt,
            loaded.tokenizer,
            family=loaded.model.family,
            max_length=max_length,
            document_words=document_words,
            decoder_start=getattr(loaded.model.model.config, "decoder_start_token_id", None),
        )
        self.asked = 0
        self.tokens = 0
        if self.encoder.answers is not None:
            self._check_against_the_models_own_forward(self.encoder.answers)

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        answers = self._answers()
        return self._in_batches(
            questions, lambda rows, prompts: self.model(prompts, answers), len(self.prompt.answers)
        )

    def log_likelihood(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        silent = next((q.query.query_id for q in questions if not q.query.text.strip()), None)
        if silent is not None:
            raise InputError(f"query {silent!r} has no text whose probability could be asked for")
        written = [self.encoder.encode_continuation(question.query.text) for question in questions]
        return self._in_batches(
            questions,
            lambda rows, prompts: self.model.log_likelihood(prompts, [written[row] for row in rows])[:, None],
            1,
        )[:, 0]

    def _in_batches(
        self,
        questions: Sequence[Question],
        ask: Callable[[list[int], list[list[int]]], torch.Tensor],
        columns: int,
    ) -> FloatArray:
        prompts = self.encoder.encode(
            (question.query.text, [document.full_text for document in question.documents])
            for question in questions
        )
        results = np.empty((len(questions), columns), dtype=np.float32)
        with evaluation_mode(self.model):
            for rows in by_length([len(prompt) for prompt in prompts], self.tokens_per_batch):
                results[rows] = ask(rows, [prompts[row] for row in rows]).float().cpu().numpy()
        self.asked += len(prompts)
        self.tokens += sum(len(prompt) for prompt in prompts)
        broken = np.flatnonzero(~np.isfinite(results).all(axis=1))
        if broken.size:
            question = questions[int(broken[0])]
            shown = ", ".join(repr(document.doc_id) for document in question.documents)
            raise NonFiniteScoreError(
                f"the model answered {results[broken[0]].tolist()} to query {question.query.query_id!r} with "
                f"document(s) {shown} ({broken.size} such answers); use dtype bf16 or fp32"
            )
        return results

    def _answers(self) -> EncodedAnswers:
        if self.encoder.answers is None:
            raise InputError(f"prompt {self.prompt.name!r} has no answers to compare")
        return self.encoder.answers

    def _check_against_the_models_own_forward(self, answers: EncodedAnswers) -> None:
        """Make sure that this family's short cut to the answer logits gives what the model itself gives."""
        if not answers.single:
            return
        fields = len(self.prompt.document_fields)
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
