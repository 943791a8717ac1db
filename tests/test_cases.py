"""The table of docs/robustness.md: every entry has tests of its number in the file that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = re.findall(
    r"^\| (B\d\d) \|.*\| `(tests/\S+\.py)` \|$",
    (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_entries_are_listed_once() -> None:
    entries = [entry for entry, _ in ROWS]
    assert len(entries) == 44
    assert entries == sorted(set(entries))


@pytest.mark.parametrize(("entry", "file"), ROWS)
def test_the_file_has_tests_of_the_entry(entry: str, file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"^ *def test_(b\d\d_)?{entry.lower()}_", text, re.MULTILINE)
