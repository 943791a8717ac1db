"""The table of public failures in docs/robustness.md and the tests that carry the entries' numbers."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split(" | ")]
    for line in (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| B\d\d \|", line)
]
TESTS = {
    name
    for file in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^\s*def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
}


def test_every_entry_stands_once_with_a_verdict_and_a_test_of_its_number() -> None:
    entries = [row[0] for row in ROWS]
    assert entries == sorted(set(entries))
    assert len(entries) == 44
    for entry, about, report, verdict, tests in ROWS:
        assert about, entry
        assert re.search(r"#\d+$", report), entry
        assert verdict.startswith(("right before", "mended", "cannot occur, because")), entry
        named = re.findall(r"`(test_\w+)`", tests)
        assert named, entry
        for name in named:
            assert name in TESTS, f"{entry}: no test is called {name}"
            assert f"_{entry.lower()}_" in name, f"{entry}: {name} carries another number"


def test_every_number_in_a_tests_name_is_an_entry() -> None:
    entries = {row[0].lower() for row in ROWS}
    numbers = {number for name in TESTS for number in re.findall(r"b\d\d(?=_)", name)}
    assert numbers <= entries
