"""A model without its weights, to be filled with those that were trained."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def skeleton(model: Module) -> Module:
    """Return a copy whose parameters have shape and number format, and no memory.

    A launch that spreads weights over processes changes classes, hooks and parameters of the model that it is
    given; what is taken before that is what the trained weights are written with. Parameters that are one
    stay one, buffers are copied.
    """
    bones = {
        id(parameter): nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
        for parameter in model.parameters()
    }
    return copy.deepcopy(model, dict(bones))


def fill(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Put weights into a skeleton, in its number format.

    Args:
        model: a skeleton; changed in place.
        weights: name → tensor, for every name of ``model.named_parameters()``.

    Raises:
        ValueError: a weight is missing or has another shape; the launch did not gather it.
    """
    for name, bone in list(model.named_parameters()):
        weight = weights.get(name)
        if weight is None or weight.shape != bone.shape:
            found = "missing" if weight is None else list(weight.shape)
            raise ValueError(f"{name} was not gathered from the processes: {found}, not {list(bone.shape)}")
        filled = nn.Parameter(weight.to(bone.dtype), bone.requires_grad)
        for module in model.modules():
            for own, parameter in module._parameters.items():
                if parameter is bone:
                    module._parameters[own] = filled
