"""The benchmarks of shared beginnings and of changed winners, in a size that shows that they measure."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "scripts" / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch, shared_data: Path) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))


def test_shared_prefix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "label.jsonl"
    import_module("shared_prefix").main(["--smoke", "--compare", "24", "--out", str(out)])
    (line,) = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert line["work"] == "label-shared-prefix"
    assert set(line["results"]) == {"fp32", "bf16"}
    for each in line["results"].values():
        assert each["pairs"] == 12
        assert 0.5 < each["tokens_read"]["shared"] / each["tokens_read"]["whole"] < 0.8
        assert each["speedup"] > 0
    assert line["results"]["fp32"]["same_winners"] == 1.0
    compared = line["compared_in_fp32"]
    assert (compared["pairs"], compared["same_winners"]) == (24, 1.0)
    assert 0 < compared["largest_difference"] < 1e-3
    assert "24 pairs: 100.00% same winners" in capsys.readouterr().out


def test_winner_flips(capsys: pytest.CaptureFixture[str]) -> None:
    import_module("winner_flips").main(["--smoke"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert rows[0][0] == "| model"
    assert len(rows) == 1 + 2 * (6 + 3)
    in_fp32 = [row for row in rows if row[1] == "fp32"]
    assert {row[3] for row in in_fp32} == {"0.00%"}
    assert all(float(row[4].strip("| ")) < 1e-4 for row in in_fp32 if row[2] != "any of these")


def test_changed_winners_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One winner of four changes in one of the ways, another in another."""
    flips = import_module("winner_flips")
    answers = {512: [1.0, -1.0, 2.0, 0.0], 2048: [1.0, -1.0, 2.0, 0.5], 8192: [1.0, -1.0, -1.0, 0.5]}

    def margins(loaded: object, lists: object, share: bool, tokens_per_batch: int) -> object:
        found = flips.np.array(answers[tokens_per_batch])
        return import_module("shared_prefix").Asked(found, 1.0, 1.0, 0)

    class Loaded:
        class model:  # noqa: N801
            family = "encoder-decoder"

    monkeypatch.setattr(flips, "margins", margins)
    found = [(row.batches, row.changed, row.difference) for row in flips.rows("m", "bf16", Loaded, [])]
    assert found == [("512 tokens", 0.25, 0.5), ("8,192 tokens", 0.25, 3.0), ("any of these", 0.5, None)]
