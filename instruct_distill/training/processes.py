"""The processes of a launch, as accelerate sees them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

import torch
from accelerate import PartialState

from instruct_distill.errors import InputError

Item = TypeVar("Item")


def launched_with() -> Literal["deepspeed", "fsdp", "plain"]:
    """Return what the launch configuration asks for."""
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true":
        return "deepspeed"
    if os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
        return "fsdp"
    return "plain"


def process_state() -> PartialState:
    """Return rank, number of processes and device of this process.

    Raises:
        InputError: the processes of the launch do not find each other.
    """
    # only Accelerator reads this variable by itself; PartialState would let each process train alone
    cpu = (
        os.environ.get("ACCELERATE_USE_CPU", "false").lower() == "true"
        or not torch.accelerator.is_available()
    )
    state = PartialState(cpu=cpu)
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if state.num_processes != launched:
        raise InputError(
            f"{launched} processes were launched (WORLD_SIZE), and accelerate found {state.num_processes}: "
            "each would train alone. Launch with accelerate launch or torchrun"
        )
    return state


def own_share(items: Sequence[Item]) -> Sequence[Item]:
    """Return what this process does of the work of all."""
    state = process_state()
    return items[state.process_index :: state.num_processes]


def sum_over_processes(tensors: Iterable[torch.Tensor]) -> None:
    """Add up tensors of the same shapes over all processes, in place."""
    if process_state().num_processes > 1:
        for tensor in tensors:
            torch.distributed.all_reduce(tensor)


def most_over_processes(count: int, device: torch.device) -> int:
    """Return the largest count of all processes."""
    found = torch.tensor(count, device=device)
    if process_state().num_processes > 1:
        torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
    return int(found)
