"""Encoder-decoder models: T5, FLAN-T5, monoT5, UL2 and their kin."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.batch import TokenBatch, pad
from instruct_distill.models.unpadded_t5 import can_decode, decode
from instruct_distill.prompts.answers import EncodedAnswers


class EncoderDecoder(AnswerModel):
    """The prompt goes through the encoder once; the answer is read from the decoder."""

    family = "encoder-decoder"

    def answer_rows(self, batch: TokenBatch, answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`AnswerModel`; one decoder pass over the answers' common prefix."""
        decoder_ids = torch.tensor([answers.prefix], device=self.device).expand(batch.ids.shape[0], -1)
        return self._decode(batch, decoder_ids)[:, -1]

    def continuation_rows(
        self,
        prompts: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        answers: EncodedAnswers | None,
    ) -> torch.Tensor:
        """See :class:`AnswerModel`; without answers the decoder starts from its start token."""
        prefix = answers.prefix if answers else (self.model.config.decoder_start_token_id,)
        decoder = pad([[*prefix, *c[:-1]] for c in continuations], self.pad_id, self.device)
        # the decoder is causal: pads on the right do not reach the rows that are read
        hidden = self._decode(pad(prompts, self.pad_id, self.device), decoder.ids)
        first = len(prefix) - 1
        return torch.cat([row[first : first + len(c)] for row, c in zip(hidden, continuations, strict=True)])

    def _decode(self, batch: TokenBatch, decoder_ids: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting() and can_decode(self.model, decoder_ids.shape[1]):
            return decode(self.model, batch.rows, decoder_ids)
        encoded = self.model.get_encoder()(input_ids=batch.ids, attention_mask=batch.mask).last_hidden_state
        hidden: torch.Tensor = self.model.get_decoder()(
            input_ids=decoder_ids,
            encoder_hidden_states=encoded,
            encoder_attention_mask=batch.mask,
            use_cache=False,
        ).last_hidden_state
        return hidden

    def adjust(self, hidden: torch.Tensor) -> torch.Tensor:
        """T5 with tied embeddings scales the decoder's output by 1/sqrt(d_model)."""
        if getattr(self.model.config, "scale_decoder_outputs", False):
            scale: float = self.model.config.d_model**-0.5
            return hidden * scale
        return hidden

    def reference_logits(self, prompt: Sequence[int], answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`AnswerModel`."""
        batch = pad([prompt], self.pad_id, self.device)
        decoder_ids = torch.tensor([answers.prefix], device=self.device)
        out = self.model(input_ids=batch.ids, attention_mask=batch.mask, decoder_input_ids=decoder_ids)
        logits: torch.Tensor = out.logits[0, -1]
        return logits
