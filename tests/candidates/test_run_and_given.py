from __future__ import annotations

import logging
from pathlib import Path

import pytest

from instruct_distill.candidates import retrieve
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.errors import InputError
from instruct_distill.records import Run, ScoredDocument
from instruct_distill.trec import write_run
from tests.candidates.small_collection import SmallCollection, asked

LISTS: Run = {
    "q2": [ScoredDocument("d3", 3.0), ScoredDocument("q2", 2.0), ScoredDocument("d1", 1.0)],
    "q9": [ScoredDocument("d1", 1.0)],
    "q1": [ScoredDocument("d2", 3.0)],
}


def found(run: Run) -> dict[str, list[str]]:
    return {query_id: [document.doc_id for document in documents] for query_id, documents in run.items()}


def source(method: str, folder: Path, lists: Run = LISTS) -> tuple[SmallCollection, dict[str, str]]:
    if method == "given":
        return SmallCollection([], lists), {"method": "given"}
    write_run(folder / "x.trec", lists, tag="x")
    return SmallCollection([]), {"method": "run", "file": str(folder / "x.trec")}


BOTH = pytest.mark.parametrize("method", ["run", "given"])


@BOTH
def test_one_list_a_query_in_the_order_of_the_queries(
    method: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    collection, keys = source(method, tmp_path)
    run = retrieve(collection, asked("a", "b", "c"), CandidateParameters(**keys, depth=2))
    assert list(found(run).items()) == [("q1", ["d2"]), ("q2", ["d3", "q2"]), ("q3", [])]
    assert "no list for 1 of 3 queries ('q3')" in caplog.text
    assert "1 lists of queries that are not asked for" in caplog.text


@BOTH
def test_b06_the_query_itself_is_left_out_before_the_cut(method: str, tmp_path: Path) -> None:
    collection, keys = source(method, tmp_path)
    run = retrieve(collection, asked("a", "b"), CandidateParameters(**keys, depth=2, drop_self=True))
    assert found(run) == {"q1": ["d2"], "q2": ["d3", "d1"]}


@BOTH
def test_lists_of_other_queries_are_refused(method: str, tmp_path: Path) -> None:
    collection, keys = source(method, tmp_path, {"x1": [ScoredDocument("d1", 1.0)]})
    with pytest.raises(InputError, match=r"none of the 2 queries .*'q1', 'q2'; found there: 'x1'"):
        retrieve(collection, asked("a", "b"), CandidateParameters(**keys))


def test_a_collection_without_lists_names_those_that_have_them() -> None:
    with pytest.raises(InputError, match=r"small brings no candidate lists .*rankgpt: or files:"):
        retrieve(SmallCollection(["kite"]), asked("kite"), CandidateParameters(method="given"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    parameters = CandidateParameters(method="run", file=str(tmp_path / "no.trec"))
    with pytest.raises(InputError, match=r"no\.trec: no such file"):
        retrieve(SmallCollection(["kite"]), asked("kite"), parameters)
