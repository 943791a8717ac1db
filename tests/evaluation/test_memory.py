from __future__ import annotations

from pathlib import Path

import pytest

from instruct_distill.evaluation.memory import process_peak


def test_the_peak_is_in_bytes_and_the_kernels() -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc here: nothing to compare with")
    [line] = [each for each in status.read_text(encoding="utf-8").split("\n") if each.startswith("VmHWM:")]
    assert process_peak() == pytest.approx(int(line.split()[1]) * 1024, rel=0.1)
