from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, T5Config, UMT5Config

from instruct_distill.errors import InputError
from instruct_distill.models import precision
from instruct_distill.models.precision import choose_dtype, dtype_name, has_native_bf16


@pytest.mark.parametrize("config", [T5Config(), UMT5Config()])
def test_b15_fp16_is_refused_for_the_t5_family(device: torch.device, config: T5Config) -> None:
    with pytest.raises(
        InputError, match=f"fp16 is not safe for {config.model_type} models.*use bf16 or fp32"
    ):
        choose_dtype("fp16", device, config)


@pytest.mark.parametrize(
    ("wanted", "dtype"),
    [("fp16", torch.float16), ("bf16", torch.bfloat16), ("fp32", torch.float32), ("fp64", torch.float64)],
)
def test_what_is_asked_for_is_given(device: torch.device, wanted: str, dtype: torch.dtype) -> None:
    assert choose_dtype(wanted, device, LlamaConfig()) is dtype
    assert dtype_name(dtype) == wanted


def test_b15_auto_is_never_fp16(device: torch.device) -> None:
    expected = torch.bfloat16 if has_native_bf16(device) else torch.float32
    assert choose_dtype("auto", device, T5Config()) is expected


@pytest.mark.parametrize(
    ("machine", "capabilities", "native"),
    [
        ("x86_64", {"avx2": True, "avx512_bf16": False, "amx_bf16": False}, False),
        ("x86_64", {"avx512_bf16": True}, True),
        ("AMD64", {"amx_bf16": True}, True),
        ("aarch64", {"bf16": True}, True),
        ("arm64", {}, False),
    ],
)
def test_bf16_of_a_processor(
    monkeypatch: pytest.MonkeyPatch, machine: str, capabilities: dict[str, bool], native: bool
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: capabilities)
    assert has_native_bf16(torch.device("cpu")) is native


@pytest.mark.parametrize(("capability", "native"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_bf16_of_a_gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], native: bool) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: capability)
    assert has_native_bf16(torch.device("cuda")) is native


def test_unknown_dtype(device: torch.device) -> None:
    with pytest.raises(InputError, match=r"unknown dtype 'float16' \(known: auto, fp32, bf16, fp16, fp64\)"):
        choose_dtype("float16", device, LlamaConfig())


def test_a_cpu_without_bf16_is_said_once_to_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    precision._say_once.cache_clear()
    monkeypatch.setattr(precision, "has_native_bf16", lambda device: False)
    monkeypatch.setattr(precision.logger, "warning", said.append)
    for _ in range(2):
        assert precision.choose_dtype("auto", torch.device("cpu"), None) == torch.float32
    assert said == ["this cpu has no bf16 units: float32 is used, about three times as slow"]
