"""Weights in four bits while a LoRA is trained beside them (QLoRA, arXiv 2305.14314)."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from instruct_distill.errors import InputError, MissingExtraError


def four_bits(device: torch.device, dtype: torch.dtype, name: str) -> dict[str, Any]:
    """Return what transformers is told so that it loads weights as 4-bit NormalFloats, twice quantised.

    Args:
        device: where the model goes.
        dtype: what is computed in.
        name: the model, for messages.

    Raises:
        InputError: the device is no GPU.
        MissingExtraError: bitsandbytes is not installed.
    """
    if device.type != "cuda":
        raise InputError(
            f"{name}: student.lora.quantize needs a GPU, and this process runs on the {device.type}; "
            "leave it out (LoRA alone needs no GPU)"
        )
    if importlib.util.find_spec("bitsandbytes") is None:
        raise MissingExtraError("bitsandbytes", "qlora")
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    return {"quantization_config": config, "device_map": {"": device}}
