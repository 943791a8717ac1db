"""Which number format a model computes in on a machine."""

from __future__ import annotations

import logging
import platform
from functools import cache
from typing import Any

import torch

from instruct_distill.errors import InputError

logger = logging.getLogger(__name__)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}


def has_native_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bf16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "cpu":
        capabilities = torch.cpu.get_capabilities()
        if platform.machine().lower() in ("aarch64", "arm64"):
            return bool(capabilities.get("bf16", False))
        return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return False


def choose_dtype(wanted: str, device: torch.device, config: Any) -> torch.dtype:
    """Return the number format for a model.

    Args:
        wanted: ``auto`` (bf16 where the device has it natively, else fp32), ``bf16``, ``fp32``, ``fp16``
            or ``fp64``.
        device: where the model runs.
        config: the model's transformers config.

    Raises:
        InputError: fp16 for a model of the T5 family: its activations exceed 65,504 and become NaN or
            nonsense (huggingface/transformers #9295, #23918).
    """
    if wanted == "auto":
        if has_native_bf16(device):
            return torch.bfloat16
        _say_once(f"this {device.type} has no bf16 units: float32 is used, about three times as slow")
        return torch.float32
    if wanted not in DTYPES:
        raise InputError(f"unknown dtype {wanted!r} (known: auto, {', '.join(DTYPES)})")
    if wanted == "fp16" and "t5" in str(config.model_type):
        raise InputError(
            f"dtype fp16 is not safe for {config.model_type} models: they were trained in bf16 and overflow; "
            "use bf16 or fp32"
        )
    return DTYPES[wanted]


@cache
def _say_once(notice: str) -> None:
    logger.warning(notice)


def dtype_name(dtype: torch.dtype) -> str:
    """Return the recipe's name of a number format."""
    return {value: name for name, value in DTYPES.items()}.get(dtype, str(dtype).removeprefix("torch."))
