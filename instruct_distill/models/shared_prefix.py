"""Keys and values of beginnings that many prompts share: read once, looked at by every prompt's own rest."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from instruct_distill.models.batch import pad
from instruct_distill.models.decoder_only import DecoderOnly
from instruct_distill.prompts.answers import EncodedAnswers


class ReadPrefixes(NamedTuple):
    """What a model remembers of some beginnings.

    Args:
        layers: keys and values of each layer, [prefixes, key heads, longest, width]; what lies behind a
            shorter prefix's end is never looked at.
        lengths: int64 [prefixes], in tokens.
    """

    layers: list[tuple[torch.Tensor, torch.Tensor]]
    lengths: torch.Tensor


def read_prefixes(model: DecoderOnly, prefixes: Sequence[Sequence[int]]) -> ReadPrefixes:
    """Read some beginnings in one batch, as :class:`DecoderOnly` reads prompts."""
    batch = pad(prefixes, model.pad_id, model.device)
    # without the config every layer keeps all tokens, whatever its window is
    cache: Any = DynamicCache()
    decoder = model.model.get_decoder()
    decoder(input_ids=batch.ids, use_cache=True, **{_cache_name(decoder): cache})
    return ReadPrefixes([(layer.keys, layer.values) for layer in cache.layers], batch.lengths)


def answers_after(
    model: DecoderOnly,
    read: ReadPrefixes,
    owners: Sequence[int],
    tails: Sequence[Sequence[int]],
    answers: EncodedAnswers,
) -> torch.Tensor:
    """Return the logits of the answers to prompts whose beginnings have been read.

    Args:
        model: what has read them.
        read: the beginnings.
        owners: the position of each prompt's beginning; equal ones stand together.
        tails: what follows in each prompt, a token at least.
        answers: the answers, of one token each.

    Returns:
        float32 [tails, answers].
    """
    batch = pad(tails, model.pad_id, model.device)
    lengths = read.lengths[torch.tensor(owners, device=model.device)]
    longest = int(lengths.max())
    layers: list[Any] = [
        _Remembered(keys[:, :, :longest], values[:, :, :longest], _runs(owners))
        for keys, values in read.layers
    ]
    before = torch.arange(longest, device=model.device)[None, :] < lengths[:, None]
    decoder = model.model.get_decoder()
    hidden = decoder(
        input_ids=batch.ids,
        position_ids=lengths[:, None] + torch.arange(batch.ids.shape[1], device=model.device),
        # attention is causal: a real token never sees the pads behind it
        attention_mask=torch.cat([before, torch.ones_like(batch.ids, dtype=torch.bool)], dim=1),
        use_cache=True,
        **{_cache_name(decoder): Cache(layers=layers)},
    ).last_hidden_state
    rows = hidden[torch.arange(len(tails), device=hidden.device), batch.lengths - 1]
    return model.project(rows, [continuation[0] for continuation in answers.continuations])


class _Remembered(DynamicLayer):  # type: ignore[no-untyped-call]
    """A layer's keys and values of the prefixes, which each prompt sees before its own; nothing is added."""

    def __init__(
        self, keys: torch.Tensor, values: torch.Tensor, runs: Sequence[tuple[int, int, int]]
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = keys, values
        self._remembered = keys, values
        self.is_initialized = True
        self._runs = runs

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = self._remembered
        return self._before(keys, key_states), self._before(values, value_states)

    def _before(self, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        """[prompts, key heads, longest prefix + tail, width], copied once."""
        length = old.shape[2]
        both = new.new_empty(new.shape[0], new.shape[1], length + new.shape[2], new.shape[3])
        both[:, :, length:] = new
        for owner, start, end in self._runs:
            both[start:end, :, :length] = old[owner]
        return both


def _runs(owners: Sequence[int]) -> list[tuple[int, int, int]]:
    """(owner, first row, row after the last) of rows that follow each other."""
    starts = [row for row, owner in enumerate(owners) if row == 0 or owner != owners[row - 1]]
    return [
        (owners[start], start, end) for start, end in zip(starts, [*starts[1:], len(owners)], strict=True)
    ]


def _cache_name(decoder: Any) -> str:
    """The name of its argument: ``cache``, and ``past_key_values`` in earlier releases of transformers 5."""
    return "cache" if "cache" in inspect.signature(decoder.forward).parameters else "past_key_values"
