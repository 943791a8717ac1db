"""Floating-point operations that a model's real tokens need: matrix products, without padding and logits."""

from __future__ import annotations

from typing import Any


def forward_operations(config: Any, prompt: int, decoder: int = 0) -> float:
    """Return the operations of one prompt's forward pass.

    Keys and values of every prompt token for a decoder are not counted: with one or two decoder tokens they
    can be got around (the library does), and what can be left out is no useful work.

    Args:
        config: a transformers config of the T5, the Llama or the BERT family.
        prompt: tokens of the prompt.
        decoder: tokens that the decoder of a T5 reads.

    Raises:
        ValueError: another family.
    """
    if config.model_type == "t5":
        inner = config.num_heads * config.d_kv
        attention = 4 * config.d_model * inner
        forward = (3 if config.is_gated_act else 2) * config.d_model * config.d_ff
        encoder = 2 * prompt * (attention + forward) + 4 * prompt * prompt * inner
        # its own attention, two of the four projections of the cross-attention and both of its products
        cross = 2 * decoder * 2 * config.d_model * inner + 4 * decoder * prompt * config.d_model
        own = 2 * decoder * (attention + forward) + 4 * decoder * decoder * inner
        return float(config.num_layers * encoder + config.num_decoder_layers * (own + cross))
    width, layers = config.hidden_size, config.num_hidden_layers
    if config.model_type == "llama":
        head = width // config.num_attention_heads
        attention = 2 * width * head * (config.num_attention_heads + config.num_key_value_heads)
        forward = 3 * width * config.intermediate_size
        # half of the products of a causal attention are masked
        return float(layers * (2 * prompt * (attention + forward) + 2 * prompt * prompt * width))
    if config.model_type == "bert":
        attention, forward = 4 * width * width, 2 * width * config.intermediate_size
        return float(layers * (2 * prompt * (attention + forward) + 4 * prompt * prompt * width))
    raise ValueError(f"model type {config.model_type!r}; expected t5, llama or bert")


def shape_of(config: Any) -> tuple[int, int]:
    """Return (width, width of the feed-forward layer): the matrices whose rate is the limit."""
    if config.model_type == "t5":
        return config.d_model, config.d_ff
    return config.hidden_size, config.intermediate_size
