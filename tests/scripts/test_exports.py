"""The benchmark of exports, in a size that shows that it measures, and what it recommends."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from instruct_distill.models.loading import load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.student_folder import StudentRecord, write_student

FOLDER = Path(__file__).resolve().parents[2] / "scripts" / "benchmarks"


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return import_module("exports")


def test_every_variant_is_measured(
    exports: Any,
    tiny_bert: Path,
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))
    loaded = load_model(str(tiny_bert), dtype="fp32", device=torch.device("cpu"))
    record = StudentRecord(
        family="encoder",
        prompt=named_prompt("pair"),
        score="head",
        max_length=128,
        document_words=None,
        dtype="fp32",
        base_model="tiny",
        base_revision="0",
        training={},
    )
    write_student(tmp_path / "student", loaded, record)
    out = tmp_path / "exports.jsonl"
    exports.main(
        [str(tmp_path / "student"), "--depth", "3", "--queries", "4", "--rounds", "1", "--out", str(out)]
    )
    (line,) = [json.loads(each) for each in out.read_text("utf-8").splitlines()]
    found = line["results"]
    assert list(found) == ["fp32", "bf16", "onnx", "int8"]
    assert found["fp32"]["difference"] == 0
    assert 0 < found["onnx"]["difference"] < 1e-3
    assert 0 < found["bf16"]["difference"] < 1
    assert found["onnx"]["ndcg"] == pytest.approx(found["fp32"]["ndcg"], abs=1e-9)
    assert found["int8"]["megabytes"] < 0.5 * found["onnx"]["megabytes"]
    assert all(each["milliseconds"] > 0 for each in found.values())
    rows = [each.split(" | ")[0] for each in capsys.readouterr().out.splitlines() if each.startswith("| ")]
    assert rows == ["| variant", "| fp32", "| bf16", "| onnx", "| int8"]


def test_what_is_not_faster_or_ranks_otherwise_is_not_recommended(exports: Any) -> None:
    measured = {
        "fp32": exports.Measured(10.0, 0.600, 0.0, 80.0),
        "bf16": exports.Measured(10.0, 0.600, 0.1, 80.0),
        "onnx": exports.Measured(8.0, 0.600, 1e-6, 80.0),
        "int8": exports.Measured(4.0, 0.594, 0.2, 20.0),
    }
    assert exports.verdicts(measured) == {
        "fp32": "the original",
        "bf16": "no: not faster",
        "onnx": "yes: 1.25 times as fast, take this one",
        "int8": "no: nDCG@10 is -0.0060 off",
    }
    measured["onnx"] = exports.Measured(11.0, 0.600, 1e-6, 80.0)
    assert exports.verdicts(measured)["fp32"] == "the original, take this one"
