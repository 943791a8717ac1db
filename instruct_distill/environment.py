"""What a figure was measured on: the machine and the versions of what ran."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

from instruct_distill.version import __version__

PACKAGES = (
    "torch",
    "transformers",
    "accelerate",
    "peft",
    "deepspeed",
    "bm25s",
    "pytrec_eval-terrier",
)
"""Distributions whose version can change a figure."""


def processor() -> str:
    """Return the name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def environment() -> dict[str, Any]:
    """Return the machine and the versions, as JSON values.

    GPUs and the number of threads are named where torch is loaded already: asking must not load it.
    """
    torch = sys.modules.get("torch")
    gpus = []
    if torch is not None and torch.cuda.is_available():
        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        **({"threads": torch.get_num_threads()} if torch is not None else {}),
        **({"gpus": gpus} if gpus else {}),
        "versions": {"instruct_distill": __version__, **_versions()},
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
