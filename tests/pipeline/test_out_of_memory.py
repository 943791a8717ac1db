from __future__ import annotations

from pathlib import Path

import pytest
import torch

from instruct_distill.errors import MemoryShortageError
from instruct_distill.pipeline.out_of_memory import memory_advice
from instruct_distill.recipe import Recipe

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Recipe:
    monkeypatch.setenv("INSTRUCT_DISTILL_TINY_T5", "some-folder")
    return Recipe.load(ROOT / "recipes" / "tiny.yaml", ["training.tokens_per_micro_batch=1234"])


def fill_the_gpu() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nlong advice")


def fill_the_machine() -> None:
    torch.empty(1 << 55)


def fill_python() -> None:
    raise MemoryError


@pytest.mark.parametrize("fill", [fill_the_gpu, fill_the_machine, fill_python])
def test_the_keys_of_the_stage_are_named_with_their_values(recipe: Recipe, fill: object) -> None:
    assert callable(fill)
    with (
        pytest.raises(MemoryShortageError, match="stage train: out of memory") as caught,
        memory_advice("train", recipe),
    ):
        fill()
    message = str(caught.value)
    assert "training.tokens_per_micro_batch (1234), training.gradient_checkpointing (False), " in message
    assert "student.max_length (128)" in message
    assert "recipes/launch/deepspeed-zero3-offload.yaml (or fsdp2.yaml)" in message
    assert "long advice" not in message


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("retrieve", "candidates.depth (5)"),
        ("label", "teacher.tokens_per_batch (4096), teacher.max_length (192)"),
        ("evaluate", "student.tokens_per_batch (4096)"),
    ],
)
def test_other_stages_have_other_keys(recipe: Recipe, stage: str, expected: str) -> None:
    with pytest.raises(MemoryShortageError) as caught, memory_advice(stage, recipe):
        fill_the_gpu()
    assert expected in str(caught.value)
    assert "recipes/launch" not in str(caught.value)


def test_other_errors_are_left_alone(recipe: Recipe) -> None:
    with pytest.raises(RuntimeError, match="shape mismatch"), memory_advice("train", recipe):
        raise RuntimeError("shape mismatch")
