"""Greedy writing, by transformers' own loop, whatever a model's files say about sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.batch import pad


def write_greedily(
    model: AnswerModel,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    start: Sequence[int] | None,
    max_tokens: int,
) -> list[str | None]:
    """Return what the model writes after each prompt: to its end token, at most so many tokens.

    Args:
        model: the model, in evaluation mode.
        tokenizer: its tokenizer.
        prompts: token ids.
        start: the decoder's first ids (encoder-decoder); None: its start token.
        max_tokens: tokens to write at most.

    Returns:
        the text, special tokens left out; None where the model's logits were NaN.
    """
    from transformers import LogitsProcessorList

    inner: Any = model.model
    stops = _stop_ids(inner, tokenizer)
    if model.family == "encoder-decoder":
        batch = pad(prompts, model.pad_id, model.device)
        first = list(start or [inner.config.decoder_start_token_id])
        decoder = torch.tensor([first] * len(prompts), device=model.device)
        given = {"input_ids": batch.ids, "attention_mask": batch.mask, "decoder_input_ids": decoder}
        skipped = len(first)
    else:
        # what is written stands at the end of the row: the pads go to its beginning
        turned = pad([prompt[::-1] for prompt in prompts], model.pad_id, model.device)
        given = {"input_ids": turned.ids.flip(1), "attention_mask": turned.mask.flip(1)}
        skipped = turned.ids.shape[1]
    watch = _NanWatch(len(prompts))
    written = inner.generate(
        **given,
        generation_config=_greedy(inner, max_tokens, model.pad_id, stops),
        logits_processor=LogitsProcessorList([watch]),
    )
    texts: list[str | None] = []
    for row, broken in zip(written[:, skipped:].tolist(), watch.broken.tolist(), strict=True):
        end = next((i for i, token in enumerate(row) if token in stops), len(row))
        texts.append(None if broken else tokenizer.decode(row[:end], skip_special_tokens=True).strip())
    return texts


class _NanWatch:
    """Notes rows whose logits are NaN: their likeliest token is the first of the vocabulary, and no answer.

    It looks at every step: at a row that is done too, for its logits are what they are.
    """

    def __init__(self, rows: int) -> None:
        self.broken = torch.zeros(rows, dtype=torch.bool)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.broken |= torch.isnan(scores).any(dim=1).cpu()
        return scores


def _stop_ids(inner: Any, tokenizer: Any) -> list[int]:
    """The end tokens of the model's files (chat models have several) and of the tokenizer."""
    named = getattr(inner.generation_config, "eos_token_id", None)
    several = named if isinstance(named, list) else [named]
    return sorted({int(token) for token in (*several, tokenizer.eos_token_id) if token is not None})


def _greedy(inner: Any, max_tokens: int, pad_id: int, stops: list[int]) -> Any:
    """A config in which everything is said that a model's own would fill in."""
    from transformers import GenerationConfig

    make: Any = GenerationConfig  # published without types
    return make(
        max_new_tokens=max_tokens,
        max_length=None,
        min_length=0,
        do_sample=False,
        num_beams=1,
        temperature=1.0,
        top_k=50,
        top_p=1.0,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        pad_token_id=pad_id,
        eos_token_id=stops or None,
        decoder_start_token_id=getattr(inner.config, "decoder_start_token_id", None),
    )
