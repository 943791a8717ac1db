"""The most memory that was in use: figures of the operating system and of torch."""

from __future__ import annotations

import resource
import sys


def process_peak() -> int:
    """Return the largest resident size of this process since its start, in bytes, whatever for."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes everywhere else


def device_peak() -> int:
    """Return the most bytes that this process's tensors held on its GPUs; 0 where torch uses none."""
    torch = sys.modules.get("torch")  # whoever ranks with it has imported it
    if torch is None or not torch.cuda.is_available():
        return 0
    return sum(int(torch.cuda.max_memory_allocated(i)) for i in range(torch.cuda.device_count()))
