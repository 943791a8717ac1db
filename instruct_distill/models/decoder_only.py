"""Decoder-only models: Llama, Qwen, SmolLM, Mistral, Gemma and their kin."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.batch import TokenBatch, pad
from instruct_distill.prompts.answers import EncodedAnswers


class DecoderOnly(AnswerModel):
    """The answer follows the prompt.

    Rows are padded on the right and read at their last real token. Attention is causal, so no real token
    ever sees a pad: no mask is needed, positions start at 0 in every row, and a prompt's score does not
    depend on its neighbours in the batch.
    """

    family = "decoder-only"

    def answer_rows(self, batch: TokenBatch, answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`AnswerModel`; the answers' common prefix is the end of the prompt already."""
        hidden = self._hidden(batch.ids)
        last = batch.lengths.to(hidden.device) - 1  # another device where a model is split over several
        return hidden[torch.arange(batch.ids.shape[0], device=hidden.device), last]

    def continuation_rows(
        self,
        prompts: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        answers: EncodedAnswers | None,
    ) -> torch.Tensor:
        """See :class:`AnswerModel`."""
        sequences = [[*p, *c[:-1]] for p, c in zip(prompts, continuations, strict=True)]
        hidden = self._hidden(pad(sequences, self.pad_id, self.device).ids)
        return torch.cat(
            [
                row[len(p) - 1 : len(p) - 1 + len(c)]
                for row, p, c in zip(hidden, prompts, continuations, strict=True)
            ]
        )

    def _hidden(self, ids: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
        return hidden

    def adjust(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states go into the output layer as they are."""
        return hidden

    def reference_logits(self, prompt: Sequence[int], answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`AnswerModel`."""
        logits: torch.Tensor = self.model(input_ids=torch.tensor([prompt], device=self.device)).logits[0, -1]
        return logits
