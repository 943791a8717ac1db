"""The benchmarks of teachers, search, evaluation and whole recipes, in sizes that show that they measure."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from instruct_distill.errors import InputError

FOLDER = Path(__file__).resolve().parents[2] / "scripts" / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch, shared_data: Path) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))


def smoke(script: str, tmp_path: Path) -> dict[str, Any]:
    """The line of a script's smallest size, which goes nowhere but where it was told to."""
    kept = {file: file.read_bytes() for file in (FOLDER.parents[1] / "docs" / "benchmarks").iterdir()}
    out = tmp_path / "line.jsonl"
    import_module(script).main(["--smoke", "--out", str(out)])
    assert {file: file.read_bytes() for file in (FOLDER.parents[1] / "docs" / "benchmarks").iterdir()} == kept
    (line,) = [json.loads(text) for text in out.read_text("utf-8").splitlines()]
    assert line["smoke"]
    assert line["environment"]["processor"]
    found: dict[str, Any] = line
    return found


def test_query_generation(tmp_path: Path) -> None:
    line = smoke("query_generation", tmp_path)
    assert line["results"]["fp32"]["difference"] < 1e-3
    assert line["passages"] == 12
    for result in line["results"].values():
        assert set(result["systems"]) == {"instruct_distill", "plain loop"}
        assert 12 * 80 < result["tokens"] < 12 * 300


def test_evaluation(tmp_path: Path) -> None:
    line = smoke("evaluation", tmp_path)
    assert line["largest_difference"] < 1e-9
    assert set(line["results"]) == {"instruct_distill", "ir_measures"}


def test_values_that_differ_are_refused() -> None:
    check = import_module("evaluation").check_values
    assert check([{("q", "AP"): 0.5}], [{("q", "AP"): 0.5}]) == 0.0
    with pytest.raises(InputError, match=r"AP of query q is 0\.5 here and 0\.6 there"):
        check([{("q", "AP"): 0.5}], [{("q", "AP"): 0.6}])
    with pytest.raises(InputError, match="not the same queries and metrics"):
        check([{("q", "AP"): 0.5}], [{}])


def test_bm25(tmp_path: Path) -> None:
    line = smoke("bm25", tmp_path)
    assert line["largest_difference"] < 1e-4
    assert line["documents"] == 400
    assert 400 * 100 < line["words"] < 400 * 400  # SciFact's documents have about 200
    assert len(line["systems"]) == 4
    assert all(each["queries_per_second"] > 0 for each in line["systems"].values())
    # a Python with numpy is larger than that, and this test's process far larger
    assert 20 < line["search_peak_mib"] < 400


def test_scores_that_differ_are_refused() -> None:
    check = import_module("bm25").check_scores
    assert check([[2.0, 1.0]], [[2.0, 1.0, 0.0]]) == 0.0
    with pytest.raises(InputError, match="query 0: scores"):
        check([[2.0, 1.0]], [[2.0, 0.9]])
    with pytest.raises(InputError, match="query 0: scores"):
        check([[2.0]], [[2.0, 1.0]])  # a document that only the other finds


def test_whole_recipe(tmp_path: Path) -> None:
    line = smoke("whole_recipe", tmp_path)
    assert list(line["seconds"]) == ["retrieve", "label", "train", "evaluate"]
    assert all(seconds > 0 for seconds in line["seconds"].values())
    assert line["share"] == pytest.approx(sum(line["seconds"].values()) / line["wall"], abs=1e-3)
    assert 0 < line["share"] < 1


def test_turns_are_taken_from_another_system_each_round() -> None:
    class Took(NamedTuple):
        seconds: float

    measuring = import_module("measuring")
    order: list[str] = []
    rates = iter(range(100))

    def system(name: str, seconds: float) -> Any:
        return lambda: order.append(name) or Took(seconds)

    turns = measuring.take_turns(
        {"a": system("a", 2.0), "b": system("b", 4.0)}, 2, lambda name: float(next(rates))
    )
    assert order == ["a", "b", "b", "a"]
    assert [rate for _, rate in turns["a"]] == [0.5, 6.5]  # means of before and after
    assert measuring.seconds_of(turns["b"]) == 4.0
    assert measuring.share_of(turns["b"][:1], 20.0) == 20.0 / 4.0 / 2.5
