"""``doctor``: what this installation runs on, where it keeps things, and whether the whole path works."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

app = typer.Typer()

PACKAGES = ("tokenizers", "safetensors", "huggingface_hub", "numpy", "pydantic")
"""What loads and stores besides the packages that change figures."""

SECRETS = ("HF_TOKEN", "OPENAI_API_KEY", "INSTRUCT_DISTILL_API_KEYS")
"""Variables of which is said only whether they are set."""

SETTINGS = (
    "HF_HUB_OFFLINE",
    "HF_ENDPOINT",
    "INSTRUCT_DISTILL_DATA",
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "PYTORCH_CUDA_ALLOC_CONF",
)
LITTLE = 10 * 2**30
"""Bytes: less free space is worth a word; FLAN-T5-large with its checkpoints takes about as much."""


class Place(NamedTuple):
    """Where something is kept.

    Args:
        what: what is kept there.
        path: the folder, which may not be there yet.
    """

    what: str
    path: Path

    @property
    def nearest(self) -> Path:
        """The folder itself, or the one in which it will be made."""
        path = self.path.absolute()
        while not path.exists() and path != path.parent:
            path = path.parent
        return path

    @property
    def usable(self) -> bool:
        """Whether this user can write there."""
        return self.nearest.is_dir() and os.access(self.nearest, os.W_OK | os.X_OK)

    @property
    def free(self) -> int:
        """Bytes."""
        return shutil.disk_usage(self.nearest).free


@app.command()
def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Without the self-test.")] = False,
) -> None:
    """Print versions, devices, number format and places, and try the whole path on a made-up model."""
    problems: list[str] = []
    for lines in (_versions(), _devices(), _places(problems), _variables()):
        for line in lines:
            typer.echo(line)
    if not quick:
        problems += _try_it()
    for problem in problems:
        typer.echo(f"problem: {problem}")
    if problems:
        raise typer.Exit(1)


def _versions() -> Iterator[str]:
    from instruct_distill.environment import environment

    found = environment()
    versions = {**found["versions"], **{name: _version(name) for name in PACKAGES}}
    yield _line("python", f"{found['python']}, {found['system']}, {sys.executable}")
    yield _line("versions", ", ".join(f"{name} {version}" for name, version in versions.items() if version))
    yield _line("processor", f"{found['processor']}, {found['cores']} cores")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _devices() -> Iterator[str]:
    import torch

    from instruct_distill.models.loading import own_device
    from instruct_distill.models.precision import has_native_bf16

    yield _line("threads", str(torch.get_num_threads()))
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        name = torch.cuda.get_device_name(index)
        yield _line(f"cuda:{index}", f"{name}, {_size(free)} of {_size(total)} free")
    if not torch.cuda.is_available():
        built = (
            f"built for CUDA {torch.version.cuda}, and finds none" if torch.version.cuda else "a CPU build"
        )
        yield _line("cuda", f"no: this torch is {built}")
    device = own_device()
    if has_native_bf16(device):
        yield _line("dtype auto", f"bf16 on {device}")
    else:
        yield _line("dtype auto", f"fp32 on {device}, which has no bf16 units; fp16 is refused for T5")


def places() -> list[Place]:
    """Return where this installation keeps things."""
    from huggingface_hub.constants import HF_HUB_CACHE

    from instruct_distill.files import cache_folder

    irds = os.environ.get("IR_DATASETS_HOME") or Path.home() / ".ir_datasets"
    return [
        Place("hub cache", Path(HF_HUB_CACHE)),
        Place("own cache", cache_folder()),
        Place("ir_datasets", Path(irds)),
        Place("this folder", Path()),
        Place("temporary", Path(tempfile.gettempdir())),
    ]


def _places(problems: list[str]) -> Iterator[str]:
    for place in places():
        if place.usable:
            state = f"{_size(place.free)} free" + (", which is little" if place.free < LITTLE else "")
        else:
            state = "cannot be written"
            problems.append(f"{place.what}: {place.path} cannot be written; give this user the right to")
        yield _line(place.what, f"{place.path.absolute()} ({state})")


def _variables() -> Iterator[str]:
    for name in SETTINGS:
        if value := os.environ.get(name):
            yield _line(name, _without_password(value))
    for name in SECRETS:
        if os.environ.get(name):
            yield _line(name, "is set")


def _try_it() -> list[str]:
    from instruct_distill.cli.self_test import self_test

    found = self_test()
    if found.problem is not None:
        return [f"self-test, after {found.seconds:.1f} s: {found.problem}"]
    typer.echo(_line("self-test", f"{found.done}, {found.seconds:.1f} s"))
    return []


def _without_password(value: str) -> str:
    """Return an address without what stands before its host (``https://user:password@host``)."""
    scheme, separator, rest = value.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else value


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def _line(name: str, value: str) -> str:
    return f"{name:<21} {value}"
