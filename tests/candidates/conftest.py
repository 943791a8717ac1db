from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for each test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("INSTRUCT_DISTILL_CACHE", str(folder))
    return folder
