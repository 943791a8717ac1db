"""A run that is killed at random moments ends like one that was left alone; the script does more of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "kill_and_resume.py"


def test_killed_runs_end_like_undisturbed_ones(
    tiny_t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSTRUCT_DISTILL_TINY_T5", str(tiny_t5))
    spec = importlib.util.spec_from_file_location("kill_and_resume", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    log = module.kill_and_resume(module.Run("recipes/tiny.yaml"), kills=4, seed=3, work=tmp_path)
    assert len(log) == 4
