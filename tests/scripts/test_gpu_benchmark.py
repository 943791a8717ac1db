"""The benchmark of a GPU, tried with tiny models on whatever device there is."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "scripts" / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch, shared_data: Path) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))


def test_smoke(tmp_path: Path) -> None:
    out = tmp_path / "gpu.jsonl"
    import_module("gpu").main(["--smoke", "--out", str(out)])
    (line,) = [json.loads(text) for text in out.read_text("utf-8").splitlines()]
    shape = line["shapes"]["tiny"]
    assert shape["left_out"] == []
    results = shape["results"]
    assert {"label", "score", "train", "label, compiled encoder"} < set(results)
    assert len(results) == 8
    for name in ("label", "score", "train"):
        assert results[name]["per_second"] > 0
        assert 0 < results[name]["utilisation"] < 1
    levers = [each for name, each in results.items() if ", " in name]
    assert len(levers) == 5
    assert all(each["speedup"] > 0 for each in levers)


def test_nothing_begins_after_the_limit(tmp_path: Path) -> None:
    out = tmp_path / "gpu.jsonl"
    import_module("gpu").main(["--smoke", "--limit", "0", "--out", str(out)])
    shape = json.loads(out.read_text("utf-8"))["shapes"]["tiny"]
    assert shape["results"] == {}
    assert shape["left_out"][:2] == ["label", "score"]
    assert len(shape["left_out"]) == 8


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to measure")
def test_without_a_gpu_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        import_module("gpu").main([])
    assert "no GPU was found" in capsys.readouterr().err


def test_batches_in_list_order() -> None:
    batches = import_module("gpu").in_list_order
    # neighbours, padded to their longest: 2 × 3, then 9 alone, then 2 × 4
    assert list(batches([3, 2, 9, 4, 4], 8)) == [[0, 1], [2], [3, 4]]
    assert list(batches([], 8)) == []


def test_shapes_are_those_of_the_names() -> None:
    """Parameters of the published checkpoints: 248M, 783M, 2,850M."""
    gpu = import_module("gpu")
    for name, millions in (("FLAN-T5-base", 248), ("FLAN-T5-large", 783), ("FLAN-T5-XL", 2850)):
        shape = gpu.SHAPES[name]
        width, inner = shape["d_model"], shape["num_heads"] * shape["d_kv"]
        layer = 4 * width * inner + 3 * width * shape["d_ff"]
        both = shape["num_layers"] * (2 * layer + 4 * width * inner)  # the decoder has a cross-attention
        assert both + 2 * 32128 * width == pytest.approx(millions * 1e6, rel=0.005)
