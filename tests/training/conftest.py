"""Small labelled lists, and a small model that is new in every test."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.records import Document, Query
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.parameters import StudentParameters

_WORDS = ["amber", "basil", "cedar", "dusk", "ember", "fern", "grove", "heron", "iris", "kelp", "larch"]


@pytest.fixture(scope="session")
def lists() -> Callable[..., list[TrainingList]]:
    """Make lists of four documents each; the teacher's order is a cycle and differs from list to list."""

    def make(count: int, *, documents: int = 4, ties: bool = False) -> list[TrainingList]:
        made = []
        for q in range(count):
            texts = [
                " ".join(_WORDS[(q * 5 + d * 3 + w) % len(_WORDS)] for w in range(2 + (q + d) % 4))
                for d in range(documents)
            ]
            scores = [1.0 if ties and q % 2 else float((d + q) % documents) for d in range(documents)]
            found = tuple(Document(f"d{q}-{d}", f"{text} {d}") for d, text in enumerate(texts))
            made.append(
                TrainingList(Query(f"q{q}", f"what is {_WORDS[q % len(_WORDS)]}"), found, tuple(scores))
            )
        return made

    return make


@pytest.fixture
def load(tiny_llama: Path, device: torch.device) -> Callable[..., LoadedModel]:
    """Load the small decoder-only model anew."""
    return lambda dtype="fp32": load_model(str(tiny_llama), dtype=dtype, device=device)


@pytest.fixture
def student(tiny_llama: Path) -> StudentParameters:
    """How the small model is asked."""
    return StudentParameters(model=str(tiny_llama), max_length=160)


_LAUNCH = Path(__file__).resolve().parents[2] / "recipes" / "launch"


@pytest.fixture(scope="session")
def launch_environment() -> Callable[[str, int], dict[str, str]]:
    """Return the variables that ``accelerate launch`` sets for a file of ``recipes/launch``."""
    from accelerate.commands import launch
    from accelerate.utils import launch as environments

    def environment(name: str, processes: int) -> dict[str, str]:
        arguments = ["--config_file", str(_LAUNCH / f"{name}.yaml"), "--num_processes", str(processes)]
        if name == "multi-node":
            arguments += ["--num_machines", "2", "--machine_rank", "1", "--main_process_ip", "10.0.0.1"]
        args = launch.launch_command_parser().parse_args(
            [*arguments, "--main_process_port", "0", "train.py", "RECIPE"]
        )
        args, defaults, _ = launch._validate_launch_command(args)
        if args.use_deepspeed:
            args.deepspeed_fields_from_accelerate_config = ",".join(defaults.deepspeed_config)
            _, found = environments.prepare_deepspeed_cmd_env(args)
        elif args.use_fsdp or args.multi_gpu:
            found = environments.prepare_multi_gpu_env(args)
        else:
            _, found = environments.prepare_simple_launcher_cmd_env(args)
        assert args.num_processes == processes
        return {
            key: value
            for key, value in found.items()
            if key.startswith(("ACCELERATE_", "FSDP_")) and key not in os.environ
        }

    return environment
