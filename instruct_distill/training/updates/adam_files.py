"""Weights and AdamW's state as safetensors: what a process holds of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch.distributed.tensor import DTensor

from instruct_distill.errors import InputError

_ADAM_STATE = ("step", "exp_avg", "exp_avg_sq")


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return what this process holds of a tensor: all of it, unless it is spread over several."""
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.detach()


def write_adam(
    folder: Path, named: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer
) -> None:
    """Write ``weights.safetensors`` and ``optimizer.safetensors``.

    Args:
        folder: a folder that is there.
        named: the weights that the optimizer changes.
        optimizer: an AdamW.
    """
    weights = {name: own_part(weight).contiguous() for name, weight in named.items()}
    save_file(weights, folder / "weights.safetensors")
    adam = {
        f"{key}/{name}": own_part(optimizer.state[weight][key]).contiguous()
        for name, weight in named.items()
        if weight in optimizer.state
        for key in _ADAM_STATE
    }
    save_file(adam, folder / "optimizer.safetensors")


def read_adam(
    folder: Path, named: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer
) -> None:
    """Read what :func:`write_adam` wrote into weights and optimizer.

    Raises:
        InputError: a file is damaged, or the weights are another model's.
    """
    try:
        saved = load_file(folder / "weights.safetensors")
        adam = load_file(folder / "optimizer.safetensors")
    except Exception as error:  # safetensors raises its own type for a damaged file
        raise InputError(
            f"{folder} cannot be read ({error}); remove that folder to go on from an earlier state"
        ) from None
    shapes = {name: own_part(weight).shape for name, weight in named.items()}
    if {name: tensor.shape for name, tensor in saved.items()} != shapes:
        raise InputError(f"{folder} belongs to another model: names or shapes of its weights differ")
    with torch.no_grad():
        for name, weight in named.items():
            own_part(weight).copy_(saved[name])
            if f"{_ADAM_STATE[0]}/{name}" not in adam:
                continue
            step, *moments = (adam[f"{key}/{name}"] for key in _ADAM_STATE)
            state = {"step": step.to(weight.device)}
            for key, moment in zip(_ADAM_STATE[1:], moments, strict=True):
                state[key] = torch.zeros_like(weight)
                own_part(state[key]).copy_(moment)
            optimizer.state[weight] = state
