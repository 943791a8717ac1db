"""The benchmark of students' scoring, in a size that shows that it measures what it says."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from transformers import BertConfig, LlamaConfig, T5Config

from instruct_distill.errors import InputError

FOLDER = Path(__file__).resolve().parents[2] / "scripts" / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch, shared_data: Path) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))


def test_smoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sentence_transformers")
    out = tmp_path / "score.jsonl"
    import_module("student_scoring").main(["--smoke", "--out", str(out)])
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [line["model"] for line in lines] == ["T5-base shape", "SmolLM2-135M", "MiniLM-L6"]
    for line in lines:
        assert (line["work"], line["smoke"], line["passages"]) == ("score", True, 22)
        assert set(line["speedup"]) == {"fp32", "bf16", "default"}
        for dtype, result in line["results"].items():
            assert len(result["systems"]) == 2
            assert 22 * 80 < result["tokens"] < 22 * 300
            assert all(0 < each["share"] < 1 for each in result["systems"].values())
            assert result["difference"] < (1e-3 if dtype == "fp32" else 1.0)
    assert "CrossEncoder" in lines[2]["results"]["fp32"]["systems"]
    assert capsys.readouterr().out.count("each at its default") == 3


def test_scores_that_differ_are_refused_in_fp32() -> None:
    script = import_module("student_scoring")
    apart = script.difference(np.array([0.0, 2.0]), np.array([0.0, 2.1]))
    assert apart == pytest.approx(0.1)  # the spread is 1
    with pytest.raises(InputError, match=r"differ by 0\.1 of their spread in fp32"):
        script.check_scores(apart, "fp32")
    script.check_scores(apart, "bf16")
    with pytest.raises(InputError, match="nan"):
        script.check_scores(float("nan"), "fp32")


def test_operations_are_those_of_the_layers() -> None:
    operations = import_module("operations").forward_operations
    bert = BertConfig(
        hidden_size=4, intermediate_size=6, num_hidden_layers=2, num_attention_heads=2, vocab_size=9
    )
    one_layer = 2 * 5 * (4 * 4 * 4 + 2 * 4 * 6) + 2 * 2 * 5 * 5 * 4  # projections, scores and mixture
    assert operations(bert, 5) == 2 * one_layer
    llama = LlamaConfig(
        hidden_size=4,
        intermediate_size=6,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=9,
    )
    assert operations(llama, 5) == 2 * 5 * (4 * 4 + 2 * 4 * 2 + 4 * 4 + 3 * 4 * 6) + 2 * 5 * 5 * 4
    t5 = T5Config(d_model=4, d_kv=3, num_heads=2, d_ff=6, num_layers=1, vocab_size=9)
    encoder = 2 * 5 * (4 * 4 * 6 + 2 * 4 * 6) + 4 * 5 * 5 * 6
    assert operations(t5, 5) == encoder
    # its own layers, two projections, and the prompt's states as they are
    assert operations(t5, 5, 1) == encoder + 2 * (4 * 4 * 6 + 2 * 4 * 6) + 4 * 6 + 2 * 2 * 4 * 6 + 4 * 5 * 4
