"""What every model family offers: differentiable float32 logits of the answers to a batch of prompts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from instruct_distill.models.batch import TokenBatch, pad
from instruct_distill.prompts.answers import EncodedAnswers
from instruct_distill.prompts.encoder import Family

_ROWS_PER_PROJECTION = 1024


class AnswerModel(nn.Module, ABC):
    """A language model of one family.

    Args:
        model: the transformers model.
        pad_id: the id that fills up short rows; what it is does not matter, pads are never looked at.
    """

    family: Family

    def __init__(self, model: Any, pad_id: int) -> None:
        super().__init__()
        self.model = model
        self.pad_id = pad_id

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def head_modules(self) -> list[str]:
        """Return the names of layers that are no part of the language model, and are always trained whole."""
        return []

    def forward(self, prompts: Sequence[Sequence[int]], answers: EncodedAnswers) -> torch.Tensor:
        """Return the score of each answer to each prompt.

        A score is the answer's next-token logit, or, where any answer has several tokens, the
        teacher-forced log-probability of every answer.

        Args:
            prompts: token ids, as the prompt encoder makes them.
            answers: the answers as token ids.

        Returns:
            float32 [prompts, answers], with a graph where gradients are on.
        """
        if answers.single:
            return self.batch_logits(pad(prompts, self.pad_id, self.device), answers)
        scored = [
            self.token_log_probabilities(prompts, [c] * len(prompts), answers) for c in answers.continuations
        ]
        return torch.stack([torch.stack([row.sum() for row in rows]) for rows in scored], dim=1)

    def log_likelihood(
        self, prompts: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
    ) -> torch.Tensor:
        """Return the mean log-probability of a continuation's tokens after its prompt, float32 [prompts]."""
        rows = self.token_log_probabilities(prompts, continuations, None)
        return torch.stack([row.mean() for row in rows])

    def batch_logits(self, batch: TokenBatch, answers: EncodedAnswers) -> torch.Tensor:
        """Return the next-token logit of each answer, each of one token, float32 [prompts, answers]."""
        rows = self.answer_rows(batch, answers)
        return self.project(rows, [continuation[0] for continuation in answers.continuations])

    @abstractmethod
    def answer_rows(self, batch: TokenBatch, answers: EncodedAnswers) -> torch.Tensor:
        """Return the last hidden state at the place where the answer follows, [prompts, hidden]."""

    @abstractmethod
    def continuation_rows(
        self,
        prompts: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        answers: EncodedAnswers | None,
    ) -> torch.Tensor:
        """Return the hidden states from which each continuation's tokens are predicted.

        The rows of the first continuation come first: [sum of the continuations' lengths, hidden].
        """

    @abstractmethod
    def adjust(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return hidden states (float32) as the family's output layer takes them."""

    def token_log_probabilities(
        self,
        prompts: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        answers: EncodedAnswers | None,
    ) -> list[torch.Tensor]:
        """Return for each prompt the log-probability of each token of its continuation, float32."""
        rows = self.continuation_rows(prompts, continuations, answers)
        device = self.model.get_output_embeddings().weight.device
        targets = torch.tensor([token for c in continuations for token in c], device=device)
        scores = torch.cat(
            [
                -nn.functional.cross_entropy(self.project(part), target, reduction="none")
                for part, target in zip(
                    torch.split(rows, _ROWS_PER_PROJECTION),
                    torch.split(targets, _ROWS_PER_PROJECTION),
                    strict=True,
                )
            ]
        )
        return list(torch.split(scores, [len(c) for c in continuations]))

    def project(self, hidden: torch.Tensor, ids: Sequence[int] | None = None) -> torch.Tensor:
        """Return the logits of some words (or of the whole vocabulary) in float32.

        bf16 logits near 16 move in steps of 0.125, which makes ties of scores that differ: whatever the
        model's own format, this last product is computed in float32 (float64 for a float64 model).
        """
        head = self.model.get_output_embeddings()
        weight, bias = head.weight, getattr(head, "bias", None)
        hidden = hidden.to(weight.device)  # another one than the last layer's where a model is split
        if ids is not None:
            chosen = torch.tensor(ids, device=weight.device)
            weight = weight[chosen]
            bias = None if bias is None else bias[chosen]
        exact = torch.promote_types(hidden.dtype, torch.float32)
        hidden = self.adjust(hidden.to(exact))
        with torch.autocast(hidden.device.type, enabled=False):
            logits = nn.functional.linear(hidden, weight.to(exact), None if bias is None else bias.to(exact))
        config = self.model.config
        cap = getattr(config, "final_logit_softcapping", None)  # Gemma
        if cap:
            logits = torch.tanh(logits / cap) * cap
        logits = logits * (getattr(config, "logit_scale", None) or 1.0)  # Cohere
        return logits / (getattr(config, "logits_scaling", None) or 1.0)  # Granite

    @abstractmethod
    def reference_logits(self, prompt: Sequence[int], answers: EncodedAnswers) -> torch.Tensor:
        """Return the full-vocabulary logits that the model's own forward gives, for the check at load."""
