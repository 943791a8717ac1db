"""The benchmark of labelling, in a size that shows that it measures what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from instruct_distill.errors import InputError

FOLDER = Path(__file__).resolve().parents[2] / "scripts" / "benchmarks"


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield import_module("label_throughput")


def test_smoke(
    script: ModuleType,
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))
    out = tmp_path / "docs" / "label.jsonl"
    out.parent.mkdir()
    out.write_text('{"work": "earlier"}\n', "utf-8")
    script.main(["--smoke", "--out", str(out)])
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [line["work"] for line in lines] == ["earlier", "label"]
    assert lines[1]["smoke"]
    assert lines[1]["pairs"] == 12
    results = {(each["system"], each["dtype"]): each for each in lines[1]["results"]}
    assert set(results) == {(s, d) for s in ("instruct_distill", "plain loop") for d in ("fp32", "bf16")}
    assert results["instruct_distill", "fp32"]["same_winners"] == 1.0
    assert all(each["pairs_per_second"] > 0 for each in results.values())
    assert all(0 <= each["padding"] < 0.5 for each in results.values())
    assert sum(each["default"] for each in results.values()) == 2
    # an output layer that always gave one answer would make every comparison of winners an empty one
    assert 0.1 < results["instruct_distill", "fp32"]["first_wins"] < 0.9
    assert set(lines[1]["speedup"]) == {"fp32", "bf16", "default"}
    printed = capsys.readouterr().out
    assert printed.count("of the matrix rate") == 4
    assert printed.count("times plain loop") == 3


def test_operations_are_those_of_the_layers(script: ModuleType) -> None:
    shape = {"d_model": 2, "d_kv": 1, "d_ff": 3, "num_layers": 1, "num_heads": 1}
    encoder = 5 * 2 * (4 * 2 + 2 * 6) + 2 * 2 * 5 * 5  # four projections, two layers, scores and mixture
    decoder = 2 * (4 * 2 + 2 * 6) + 2 * 2
    cross = 2 * (2 + 2) + 5 * 2 * (2 + 2) + 2 * 2 * 5
    assert script.operations(shape, 5, 1) == encoder + decoder + cross


def test_answers_of_llm_rankers_are_put_in_our_order(script: ModuleType) -> None:
    # pairs 01, 02, 12, each in both orders; the model goes on after its answer, or gives none
    written = ["Passage A A", "Passage B A", "Passage B", "Passage AB", "Passage </s>", "Passage A"]
    assert script._in_our_order(3, written) == [1.0, -1.0, -1.0, 0.0, 1.0, 1.0]  # 01 02 10 12 20 21


def test_winners_are_compared_where_both_decide(script: ModuleType) -> None:
    def timed(*answers: float) -> Any:
        return script.Timed(np.array(answers), 1.0, 1)

    ours = timed(2.0, -1.0, 1e-6, 3.0)
    assert script.same_winners(ours, timed(1.0, -1.0, -1.0, 1.0)) == 1.0
    assert script.same_winners(ours, timed(1.0, 1.0, -1.0, 1.0)) == pytest.approx(2 / 3)
    different = {script.OURS: ours, "other": timed(1.0, 1.0, 1.0, 1.0)}
    with pytest.raises(InputError, match=r"not the same winners in fp32: .*0\.66"):
        script.check_winners(different, "fp32")
    script.check_winners(different, "bf16")


def test_without_data(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INSTRUCT_DISTILL_DATA", raising=False)
    with pytest.raises(SystemExit, match="2"):
        script.main(["--smoke"])
