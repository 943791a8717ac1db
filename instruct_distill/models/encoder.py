"""Encoders with a score head (cross-encoders): BERT, MiniLM, DeBERTa, ModernBERT, RoBERTa and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import nn

from instruct_distill.errors import InputError
from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.batch import TokenBatch, pad
from instruct_distill.prompts.answers import EncodedAnswers


class Encoder(AnswerModel):
    """Query and document are read together, and a head with one output is the score.

    Rows are padded on the right under an attention mask: a pair's score does not depend on its neighbours.

    Args:
        model: a transformers model for sequence classification with one label.
        pad_id: the id that fills up short rows; masked.
        separator: the id that ends the first text, after which tokens are of the second type; None where
            the tokenizer knows no token types.
    """

    family = "encoder"

    def __init__(self, model: Any, pad_id: int, separator: int | None = None) -> None:
        super().__init__(model, pad_id)
        self.separator = separator
        _compute_head_exactly(model)

    @property
    def longest(self) -> int | None:
        """How many tokens the model has positions for; None where its config does not say."""
        for name, module in self.model.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
                # RoBERTa's kin count positions from behind the padding's own
                taken = 0 if module.padding_idx is None else module.padding_idx + 1
                return int(module.num_embeddings) - taken
        longest: int | None = getattr(self.model.config, "max_position_embeddings", None)
        return longest

    def head_modules(self) -> list[str]:
        """See :class:`AnswerModel`: what stands outside the encoder proper, and its pooler."""
        prefix = self.model.base_model_prefix
        names = [name for name, _ in self.model.named_children() if name != prefix]
        if getattr(self.model.base_model, "pooler", None) is not None:
            names.append(f"{prefix}.pooler")
        return [name for name in names if any(True for _ in self.model.get_submodule(name).parameters())]

    def forward(self, prompts: Sequence[Sequence[int]], answers: EncodedAnswers) -> torch.Tensor:
        """Return the head's output, float32 [prompts, 1], with a graph where gradients are on.

        Args:
            prompts: pairs as token ids, as the pair encoder makes them.
            answers: not looked at; a head gives one score.
        """
        return self.batch_logits(pad(prompts, self.pad_id, self.device), answers)

    def batch_logits(self, batch: TokenBatch, answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`AnswerModel`; the head's output, [prompts, 1]."""
        inputs = {"input_ids": batch.ids, "attention_mask": batch.mask}
        if self.separator is not None:
            ends = (batch.ids == self.separator).long()
            inputs["token_type_ids"] = (ends.cumsum(1) - ends).clamp(max=1) * batch.mask
        logits: torch.Tensor = self.model(**inputs).logits
        return logits

    def answer_rows(self, batch: TokenBatch, answers: EncodedAnswers) -> NoReturn:
        """An encoder says no words."""
        raise self._wordless()

    def continuation_rows(
        self,
        prompts: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        answers: EncodedAnswers | None,
    ) -> NoReturn:
        """An encoder says no words."""
        raise self._wordless()

    def adjust(self, hidden: torch.Tensor) -> NoReturn:
        """An encoder says no words."""
        raise self._wordless()

    def reference_logits(self, prompt: Sequence[int], answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`AnswerModel`."""
        return self([prompt], answers)[0]  # type: ignore[no-any-return]

    def _wordless(self) -> InputError:
        return InputError(
            f"{type(self.model).__name__} is an encoder with a score head: it gives a pair one score, and "
            "has no words to answer or write with"
        )


class _ExactLinear(nn.Linear):
    """A linear layer that is computed in float32 (float64 for a float64 model) whatever the weights' format.

    As for words (see :meth:`AnswerModel.project`): in bf16 logits that differ would become ties.
    """

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        exact = torch.promote_types(self.weight.dtype, torch.float32)
        with torch.autocast(hidden.device.type, enabled=False):
            bias = None if self.bias is None else self.bias.to(exact)
            return nn.functional.linear(hidden.to(exact), self.weight.to(exact), bias)


def _compute_head_exactly(model: nn.Module) -> None:
    """Have the head's last layer computed in float32; its weights and their names stay."""
    found = [
        module for module in model.modules() if isinstance(module, nn.Linear) and module.out_features == 1
    ]
    if not found:
        raise InputError(f"{type(model).__name__}: no layer with one output was found, the score head")
    found[-1].__class__ = _ExactLinear
