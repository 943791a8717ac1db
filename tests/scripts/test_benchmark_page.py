"""The page of benchmarks holds what is in the lines, and nothing else."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "benchmarks"))
    return import_module("write_page")


def test_the_page_is_made_of_the_lines(script: ModuleType) -> None:
    """After a new line: PYTHONPATH=. python scripts/benchmarks/write_page.py."""
    assert script.PAGE.read_text("utf-8") == script.page(script.read_lines(script.LINES))


def test_the_last_line_counts_and_a_smoke_run_does_not(script: ModuleType, tmp_path: Path) -> None:
    def line(seconds: float, smoke: bool) -> str:
        return json.dumps(
            {
                "work": "recipe",
                "date": "2026-01-01",
                "smoke": smoke,
                "command": "python whole.py",
                "environment": {"processor": "P", "threads": 2},
                "recipe": "r.yaml",
                "seconds": {"label": seconds},
                "wall": 10.0,
                "share": seconds / 10,
            }
        )

    (tmp_path / "recipe.jsonl").write_text(
        "\n".join([line(5.0, False), line(9.0, False), line(1.0, True)]), "utf-8"
    )
    found = script.page(script.read_lines(tmp_path))
    assert "| r.yaml, label | 9 | 90.0% |" in found
    assert "50.0%" not in found
    assert "10.0%" not in found
    assert "* `python whole.py` (2026-01-01, P, 2 threads)" in found
    assert found.count("Not measured yet") == len(script.SECTIONS) - 1


def test_every_benchmark_is_run_by_make(script: ModuleType) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for part in script.SECTIONS:
        name = part.command.split("scripts/benchmarks/")[1].split(".py")[0]
        assert name in makefile, part.command
