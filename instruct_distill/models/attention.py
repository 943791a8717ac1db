"""Attention for training in bf16 on a CPU, where PyTorch's fused kernel is slow backwards."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import create_position_bias_mask, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "instruct_distill"
_LONGEST = 512
"""Up to this length two plain matrix products are faster (3 times at 150 tokens); beyond, memory matters."""


def use_cpu_attention(model: Any) -> None:
    """Let a model that uses fused attention on a CPU use :func:`attention`; others stay as they are."""
    if model.device.type == "cpu" and model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(_NAME)


def attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Do what transformers' ``sdpa`` attention does: the same product, written out, when training in bf16.

    Query heads that share a key head are stacked, so that keys and values are not repeated.

    Args:
        module: the attention layer.
        query: [batch, heads, queries, width].
        key: [batch, key heads, keys, width].
        value: as ``key``.
        attention_mask: None, True where a query may look, or a number to add; broadcast to the scores.
        dropout: of the attention weights.
        scaling: of the scores; 1/sqrt(width) if None.
        is_causal: whether no query may look ahead; the layer's own word if None.
        position_bias: a number to add to the scores, learned.
        kwargs: what the fused attention may want besides.

    Returns:
        [batch, queries, heads, width], and None for the attention weights.
    """
    batch, heads, queries, width = query.shape
    groups, keys = key.shape[1], key.shape[2]
    if (
        query.dtype != torch.bfloat16
        or not module.training
        or max(queries, keys) > _LONGEST
        or kwargs.get("softcap")
    ):
        fused: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module,
            query,
            key,
            value,
            attention_mask,
            dropout=dropout,
            scaling=scaling,
            is_causal=is_causal,
            position_bias=position_bias,
            **kwargs,
        )
        return fused
    scaling = width**-0.5 if scaling is None else scaling
    causal = queries > 1 and attention_mask is None and (module.is_causal if is_causal is None else is_causal)
    bias = position_bias
    if bias is None and (causal or attention_mask is not None):
        bias = query.new_zeros(1, 1, queries, keys)
    if bias is not None:
        bias = create_position_bias_mask(bias, attention_mask, bool(causal), query, key)

    stacked = (query * scaling).reshape(batch, groups, heads // groups * queries, width)
    scores = torch.matmul(stacked, key.transpose(2, 3)).view(batch, heads, queries, keys)
    if bias is not None:
        scores = scores + bias
    weights = nn.functional.dropout(scores.softmax(-1), p=dropout)
    found = torch.matmul(weights.view(batch, groups, heads // groups * queries, keys), value)
    return found.view(batch, heads, queries, width).transpose(1, 2).contiguous(), None


AttentionInterface.register(_NAME, attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)
