"""The student as it is loaded for training, and as it is written afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from instruct_distill.errors import InputError
from instruct_distill.models.loading import LoadedModel, load_model, own_device
from instruct_distill.models.lora import add_lora, has_lora
from instruct_distill.models.merging import merged
from instruct_distill.models.precision import has_native_bf16
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.loop import student_encoder
from instruct_distill.training.parameters import StudentParameters
from instruct_distill.training.processes import launched_with

_PROBES = 8


def load_student(student: StudentParameters, precision: str, seed: int) -> LoadedModel:
    """Load what is trained, with LoRA matrices where the recipe asks for them.

    It is on this process's device, or on the CPU where the launch spreads it over the processes.

    Args:
        student: names the model.
        precision: the number format that is computed in, as ``training.precision`` says it.
        seed: what is new is drawn by it.

    Raises:
        InputError: the model cannot be loaded, or is an adapter already.
    """
    device, quantize = own_device(), student.lora.quantize if student.lora else None
    if launched_with() != "plain" and quantize is None:
        # it is spread over the processes from there; no GPU has to hold all of it
        if precision == "auto":
            precision = "bf16" if has_native_bf16(device) else "fp32"
        device = torch.device("cpu")
    loaded = load_model(
        student.model,
        revision=student.revision,
        dtype=precision,
        device=device,
        new_head=seed,
        quantize=quantize,
    )
    if student.lora is not None:
        add_lora(loaded, student.lora, seed)
    elif has_lora(loaded.model):
        raise InputError(
            f"{student.model} is an adapter, and student.lora is not set; start from a whole model (a "
            "student that was saved with student.lora.save=merged is one)"
        )
    return loaded


def finished_student(
    loaded: LoadedModel, student: StudentParameters, lists: Sequence[TrainingList]
) -> LoadedModel:
    """Return what is written: LoRA matrices merged into the weights, unless the recipe keeps them apart.

    Args:
        loaded: the trained student, in evaluation mode.
        student: what the recipe says of it.
        lists: where some prompts are taken from, to compare merged and unmerged scores.

    Raises:
        InputError: these scores differ.
    """
    if student.lora is None or student.lora.save == "adapter":
        return loaded
    encoder = student_encoder(student, loaded)
    assert encoder.answers is not None
    pairs = ((item.query.text, [document.full_text]) for item in lists for document in item.documents)
    return merged(loaded, encoder.encode(itertools.islice(pairs, _PROBES)), encoder.answers)
