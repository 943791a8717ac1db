"""T5 on a CPU: the same numbers as transformers' own forward, without work that a score does not need.

Four things are saved. No token is padding: rows stand one after the other, and only attention looks at them
one by one, in blocks that fit the processor's cache. Scores of bf16 models stay in float32 up to their
softmax, as in PyTorch's fused kernel, at half its time. Activations are written over what they were made
from where no gradient needs them, for new memory is slow. And the decoder, which reads a handful of tokens,
does not project every token of the prompt to keys and values in every layer: q·(K e) = (Kᵀq)·e and
Σ p (V e) = V (Σ p e), so that K and V are applied to the few and not to the many.

In training, dropout falls where transformers has it, on other random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import MT5ForConditionalGeneration, T5ForConditionalGeneration
from transformers.activations import NewGELUActivation

_DTYPES = (torch.float32, torch.float64, torch.bfloat16)
_TOKENS = 2048
"""Tokens that go through a layer together: what lies between two layers of a base model stays in the cache of
a processor, and is not asked of the system anew in each layer."""


def can_decode(model: Any, decoder_tokens: int) -> bool:
    """Whether :func:`decode` may stand in for the model's own forward, and is faster.

    Args:
        model: the transformers model.
        decoder_tokens: tokens that the decoder reads of each row.
    """
    if type(model) not in (T5ForConditionalGeneration, MT5ForConditionalGeneration):
        return False
    if torch.is_autocast_enabled("cpu"):
        return False
    if model.training and any(stack.gradient_checkpointing for stack in (model.encoder, model.decoder)):
        return False
    projections = [
        layer
        for block in model.decoder.block
        for layer in (block.layer[1].EncDecAttention.k, block.layer[1].EncDecAttention.v)
    ]
    # their weights are used by themselves, which an adapter or a quantised layer does not allow
    # nor one whose weights are spread over processes (FSDP makes them another type, ZeRO-3 empties them)
    plain = all(
        type(layer) is nn.Linear
        and type(layer.weight) is nn.Parameter
        and layer.weight.numel() > 0
        and layer.weight.device.type == "cpu"
        for layer in projections
    )
    config = model.config
    return plain and model.dtype in _DTYPES and decoder_tokens * config.num_heads < config.d_model


def decode(model: Any, prompts: Sequence[Sequence[int]], decoder_ids: torch.Tensor) -> torch.Tensor:
    """Return the decoder's last hidden states.

    Args:
        model: a T5 or mT5.
        prompts: token ids of each row.
        decoder_ids: int64 [rows, decoder tokens].

    Returns:
        [rows, decoder tokens, hidden], in the model's number format.
    """
    lengths = [len(prompt) for prompt in prompts]
    encoded: list[torch.Tensor] = []
    for start, end in pairwise([0, *_portions(lengths)]):
        ids = torch.tensor([token for prompt in prompts[start:end] for token in prompt])
        encoded += torch.split(_exact(_encode(model.encoder, ids, lengths[start:end])), lengths[start:end])
    # all rows at once: a decoder's weights are many for its few tokens
    return _decode(model.decoder, encoded, decoder_ids)


def _portions(lengths: Sequence[int]) -> list[int]:
    """Return where a batch is divided so that a portion has at most ``_TOKENS``, or one row."""
    ends, filled = [], 0
    for row, length in enumerate(lengths):
        if row and filled + length > _TOKENS:
            ends.append(row)
            filled = 0
        filled += length
    return [*ends, len(lengths)]


def _decode(stack: Any, encoded: Sequence[torch.Tensor], decoder_ids: torch.Tensor) -> torch.Tensor:
    """Return the decoder's last hidden states; each row's prompt is [length, hidden], exact."""
    hidden = stack.dropout(stack.embed_tokens(decoder_ids))
    tokens = decoder_ids.shape[1]
    ahead = torch.full((tokens, tokens), -torch.inf).triu(1)
    bias = _exact(stack.block[0].layer[0].SelfAttention.compute_bias(tokens, tokens)) + ahead
    for block in stack.block:
        own, cross = block.layer[0], block.layer[1]
        hidden = hidden + own.dropout(_own_attention(own.SelfAttention, own.layer_norm(hidden), bias))
        looked = _cross_attention(cross.EncDecAttention, cross.layer_norm(hidden), encoded)
        hidden = _feed_forward(block.layer[2], hidden + cross.dropout(looked))
    final: torch.Tensor = stack.dropout(stack.final_layer_norm(hidden))
    return final


def _encode(stack: Any, ids: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Return the encoder's last hidden states of all rows' tokens, [tokens, hidden]."""
    hidden = stack.dropout(stack.embed_tokens(ids))
    longest = max(lengths)
    bias = _exact(stack.block[0].layer[0].SelfAttention.compute_bias(longest, longest)[0])
    for block in stack.block:
        layer, attention = block.layer[0], block.layer[0].SelfAttention
        normed = layer.layer_norm(hidden)
        query, key, value = (
            project(normed).unflatten(-1, (attention.n_heads, -1)).transpose(0, 1)
            for project in (attention.q, attention.k, attention.v)
        )
        rows = zip(
            *(torch.split(each, lengths, dim=1) for each in (_exact(query), _exact(key), value)),
            lengths,
            strict=True,
        )
        mixed = []  # [length, heads, width] of each row
        for q, k, v, length in rows:
            scores = torch.baddbmm(bias[:, :length, :length], q, k.transpose(1, 2))
            mixed.append(torch.bmm(_weights(attention, scores).to(v.dtype), v).transpose(0, 1))
        hidden = hidden + layer.dropout(attention.o(torch.cat(mixed).flatten(1)))
        hidden = _feed_forward(block.layer[1], hidden)
    final: torch.Tensor = stack.dropout(stack.final_layer_norm(hidden))
    return final


def _feed_forward(layer: Any, hidden: torch.Tensor) -> torch.Tensor:
    """What the layer itself gives; kinds of activation other than T5's two are left to it."""
    inner = layer.DenseReluDense
    if inner.wo.weight.dtype == hidden.dtype and not (torch.is_grad_enabled() or layer.training):
        if hasattr(inner, "wi") and type(inner.act) is nn.ReLU:
            return hidden + inner.wo(inner.wi(layer.layer_norm(hidden)).relu_())  # type: ignore[no-any-return]
        if hasattr(inner, "wi_0") and type(inner.act) is NewGELUActivation:
            normed = layer.layer_norm(hidden)
            gate = functional.gelu(inner.wi_0(normed), approximate="tanh")
            return hidden + inner.wo(gate.mul_(inner.wi_1(normed)))  # type: ignore[no-any-return]
    whole: torch.Tensor = layer(hidden)
    return whole


def _own_attention(attention: Any, normed: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    query, key, value = (
        project(normed).unflatten(-1, (attention.n_heads, -1)).transpose(1, 2)
        for project in (attention.q, attention.k, attention.v)
    )
    scores = _exact(query) @ _exact(key).transpose(2, 3) + bias
    found = _weights(attention, scores).to(value.dtype) @ value
    mixed: torch.Tensor = attention.o(found.transpose(1, 2).flatten(2))
    return mixed


def _cross_attention(attention: Any, normed: torch.Tensor, encoded: Sequence[torch.Tensor]) -> torch.Tensor:
    """Attention of a few tokens, [rows, tokens, hidden], to each row's prompt, [length, hidden], exact."""
    rows, tokens, heads = *normed.shape[:2], attention.n_heads
    into_keys = attention.k.weight.view(heads, -1, normed.shape[2])  # [heads, width, hidden]
    into_values = attention.v.weight.view(heads, -1, normed.shape[2])
    query = attention.q(normed).unflatten(-1, (heads, -1)).permute(2, 0, 1, 3).flatten(1, 2)
    wanted = _exact(torch.bmm(query, into_keys)).view(heads, rows, tokens, -1)
    rows_mixed = []  # [heads, tokens, hidden] of each row
    for row, states in enumerate(encoded):
        scores = wanted[:, row].flatten(0, 1) @ states.transpose(0, 1)
        rows_mixed.append((_weights(attention, scores) @ states).view(heads, tokens, -1))
    mixed = torch.stack(rows_mixed, 1).flatten(1, 2)
    found = torch.bmm(mixed.to(normed.dtype), into_values.transpose(1, 2))
    together = found.view(heads, rows, tokens, -1).permute(1, 2, 0, 3).flatten(2)
    out: torch.Tensor = attention.o(together)
    return out


def _weights(attention: Any, scores: torch.Tensor) -> torch.Tensor:
    return functional.dropout(scores.softmax(-1), attention.dropout, attention.training)


def _exact(values: torch.Tensor) -> torch.Tensor:
    """In float32, or float64 as it is."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
