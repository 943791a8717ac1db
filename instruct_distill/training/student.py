"""The student as it is loaded for training."""

from __future__ import annotations

import torch

from instruct_distill.models.loading import LoadedModel, load_model, own_device
from instruct_distill.models.precision import has_native_bf16
from instruct_distill.training.parameters import StudentParameters
from instruct_distill.training.processes import launched_with


def load_student(student: StudentParameters, precision: str) -> LoadedModel:
    """Load what is trained: on this process's device, or on the CPU where the launch spreads it from there.

    Args:
        student: names the model.
        precision: the number format that is computed in, as ``training.precision`` says it.

    Raises:
        InputError: the model cannot be loaded.
    """
    device = own_device()
    if launched_with() != "plain":
        if precision == "auto":  # what the device has that computes, not the CPU
            precision = "bf16" if has_native_bf16(device) else "fp32"
        device = torch.device("cpu")
    return load_model(student.model, revision=student.revision, dtype=precision, device=device)
