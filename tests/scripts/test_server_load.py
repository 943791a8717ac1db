"""The server under load, in a size that shows that every answer is compared and refusals are counted."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import httpx
import pytest
import torch

from instruct_distill.models.loading import load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.student_folder import StudentRecord, write_student

FOLDER = Path(__file__).resolve().parents[2] / "scripts" / "benchmarks"


def test_no_answer_is_lost_or_mixed_up(
    tiny_bert: Path, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    loaded = load_model(str(tiny_bert), dtype="fp32", device=torch.device("cpu"))
    record = StudentRecord(
        family="encoder",
        prompt=named_prompt("pair"),
        score="head",
        max_length=64,
        document_words=None,
        dtype="fp32",
        base_model="tiny",
        base_revision="0",
        training={},
    )
    write_student(tmp_path / "student", loaded, record)
    out = tmp_path / "serve.jsonl"
    asked = ["--requests", "60", "--clients", "4", "--seconds", "1", "--queries", "2", "--out", str(out)]
    import_module("server_load").main([str(tmp_path / "student"), *asked])
    (line,) = [json.loads(each) for each in out.read_text("utf-8").splitlines()]
    found = line["results"]
    assert found["batched"]["requests"] == 60
    assert found["alone"]["requests"] == 6
    for name in ("alone", "batched"):
        assert found[name]["right"] == found[name]["requests"] == found[name]["status"]["200"]
        assert 0 < found[name]["p50_ms"] <= found[name]["p95_ms"] <= found[name]["p99_ms"]
    flood = found["twice the load"]
    assert flood["right"] == flood["requests"] == sum(flood["status"].values())
    assert set(flood["status"]) <= {"200", "429"}
    assert flood["one more answered"]


def test_an_answer_to_another_request_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    load = import_module("server_load")
    asked = load.Asked({}, [1.0, 3.0])

    def answer(*pairs: tuple[int, float], status: int = 200, **headers: str) -> httpx.Response:
        results = [{"index": index, "relevance_score": score} for index, score in pairs]
        return httpx.Response(status, json={"results": results}, headers=headers)

    assert load.is_right(asked, answer((1, 3.0), (0, 1.0)))
    assert not load.is_right(asked, answer((1, 3.0), (0, 2.0)))  # another document's score
    assert not load.is_right(asked, answer((0, 1.0), (1, 3.0)))  # not the best first
    assert not load.is_right(asked, answer((1, 3.0)))  # one is missing
    assert load.is_right(asked, answer(status=429, **{"Retry-After": "2"}))
    assert not load.is_right(asked, answer(status=429))
    assert not load.is_right(asked, answer(status=500))
