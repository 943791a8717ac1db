"""Out of memory, said in the recipe's words: what can be turned down, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from instruct_distill.errors import MemoryShortageError
from instruct_distill.recipe import Recipe


@contextmanager
def memory_advice(stage: str, recipe: Recipe) -> Iterator[None]:
    """Turn an allocation that failed during a stage into an error that names the recipe's keys.

    Raises:
        MemoryShortageError: the GPU's, or this machine's, memory was not enough.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryShortageError) or not _is_shortage(error):
            raise
        knobs = ", ".join(f"{key} ({value})" for key, value in _knobs(stage, recipe).items())
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        launch = ""
        if stage == "train":
            launch = (
                "; or spread optimizer, gradients and weights over GPUs or into the CPU's memory: accelerate "
                "launch --config_file recipes/launch/deepspeed-zero3-offload.yaml (or fsdp2.yaml)"
            )
        raise MemoryShortageError(
            f"stage {stage}: out of memory ({first_line}). What to change, in this order: {knobs}{launch}. "
            "Started again, the run goes on from where it was"
        ) from error


def _is_shortage(error: BaseException) -> bool:
    # by name: a stage that needs no torch does not import it. For the CPU's memory PyTorch has no type
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "DefaultCPUAllocator" in str(error)
    )


def _knobs(stage: str, recipe: Recipe) -> dict[str, object]:
    student, training, teacher = recipe.student, recipe.training, recipe.teacher
    if stage == "label":
        return {
            "teacher.tokens_per_batch": teacher.tokens_per_batch,
            "teacher.max_length": teacher.max_length,
            "teacher.document_words": teacher.document_words,
            "teacher.dtype": teacher.dtype,
        }
    if stage == "train":
        return {
            "training.tokens_per_micro_batch": training.tokens_per_micro_batch,
            "training.gradient_checkpointing": training.gradient_checkpointing,
            "student.max_length": student.max_length,
            "student.document_words": student.document_words,
            "training.precision": training.precision,
        }
    if stage == "evaluate":
        return {
            "student.tokens_per_batch": student.tokens_per_batch,
            "teacher.tokens_per_batch": teacher.tokens_per_batch,
            "student.max_length": student.max_length,
            "student.dtype": student.dtype,
        }
    return {"candidates.depth": recipe.candidates.depth}
