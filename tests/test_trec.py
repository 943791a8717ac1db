from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.records import ScoredDocument
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.trec import RunFile, read_run, write_qrels, write_run

LINES = [
    ["q1", "Q0", "IPCC_report,_1992", "1", "12", "bm25"],
    ["q1", "Q0", "d2", "2", "+3.5", "bm25"],
    ["q1", "Q0", "d3", "3", "1.2e-05", "bm25"],
    ["q2", "Q0", "d\u00a01", "1", "-1", "bm25"],
]


def run_file(folder: Path, text: str) -> Path:
    path = folder / "x.trec"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("blank", [" ", "\t", "  ", " \t "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_b49_any_white_space_and_line_end(tmp_path: Path, blank: str, end: str, last: bool) -> None:
    text = end.join(blank.join(fields) for fields in LINES) + (end * 2 if last else "")
    assert read_run(run_file(tmp_path, text)) == {
        "q1": [("IPCC_report,_1992", 12.0), ("d2", 3.5), ("d3", 1.2e-05)],
        "q2": [("d\u00a01", -1.0)],
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 Q0 d2 2 1.0", "line 2: 5 fields"),
        ("q1 Q0 night ferry 2 1.0 x", "line 2: 7 fields"),
        ("q1 Q0 d2 1.0 2 x", "line 2: rank '1.0'"),
        ("q1 Q0 d1 2 1.0 x", r"line 2: document 'd1' is in the list of query 'q1' already \(line 1\)"),
    ],
)
def test_b49_malformed_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_run(run_file(tmp_path, f"q1 Q0 d1 1 2.0 x\n{line}\n"))


@pytest.mark.parametrize("score", ["nan", "inf", "-inf", "1e400", "1_0", "high"])
def test_b48_scores_that_are_no_finite_number_are_refused(tmp_path: Path, score: str) -> None:
    with pytest.raises(InputError, match=f"line 2: score '{score}' is not a finite number"):
        read_run(run_file(tmp_path, f"q1 Q0 d1 1 2.0 x\nq1 Q0 d2 2 {score} x\n"))


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, 1e39])
def test_b48_such_scores_are_not_written(tmp_path: Path, score: float) -> None:
    with pytest.raises(NonFiniteScoreError, match="query 'q1', document 'd2'"):
        write_run(
            tmp_path / "x.trec", {"q1": [ScoredDocument("d1", 1.0), ScoredDocument("d2", score)]}, tag="x"
        )
    assert list(tmp_path.iterdir()) == []


def test_the_order_is_that_of_scores_then_ranks_then_lines(tmp_path: Path) -> None:
    text = "q Q0 a 1 1.0 x\nq Q0 b 4 2.0 x\nq Q0 c 3 2.0 x\nq Q0 d 4 2.0 x\nq Q0 e 2 1.000000001 x\n"
    assert [found.doc_id for found in read_run(run_file(tmp_path, text))["q"]] == ["c", "b", "d", "e", "a"]


@pytest.mark.parametrize(
    "scores",
    [
        [1.0, 1.0, 1.0],
        [1.000000001, 1.0, 0.5],
        [0.0, 0.0, 0.0],
        [-3.0, -3.0, 5.0],
        [1e-45, 1e-45, 0.0],
        [16.1, 16.1 - 1e-9, 16.1 - 2e-9],
    ],
)
def test_b40_written_scores_strictly_decrease_as_float32(tmp_path: Path, scores: list[float]) -> None:
    names = ["d2", "d9", "d10"]
    path = tmp_path / "x.trec"
    write_run(path, {"q": list(map(ScoredDocument, names, scores))}, tag="x")
    written = [line.split() for line in path.read_text().splitlines()]
    assert [fields[2] for fields in written] == names
    assert [fields[3] for fields in written] == ["1", "2", "3"]
    single = np.array([float(fields[4]) for fields in written]).astype(np.float32)
    assert single[0] == np.float32(scores[0])
    assert (np.diff(single) < 0).all()
    assert [found.doc_id for found in read_run(path)["q"]] == names


def test_b40_trec_eval_sees_the_order_given(tmp_path: Path) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    path = tmp_path / "x.trec"
    write_run(path, {"q": [ScoredDocument(name, 1.0) for name in ("d2", "d9", "d10")]}, tag="x")
    scores = {"q": {found.doc_id: found.score for found in read_run(path)["q"]}}
    for place, name in enumerate(("d2", "d9", "d10"), start=1):
        values = pytrec_eval.RelevanceEvaluator({"q": {name: 1}}, {"recip_rank"}).evaluate(scores)
        assert values["q"]["recip_rank"] == pytest.approx(1 / place)


def test_float32_scores_are_read_back_as_written(tmp_path: Path) -> None:
    scores = np.sort(np.random.default_rng(0).normal(size=500).astype(np.float32) * 20)[::-1]
    run = {"q": [ScoredDocument(str(place), float(score)) for place, score in enumerate(scores)]}
    write_run(tmp_path / "x.trec", run, tag="x")
    back = read_run(tmp_path / "x.trec")["q"]
    assert [np.float32(found.score) for found in back] == scores.tolist()
    write_run(tmp_path / "y.trec", {"q": back}, tag="x")
    assert (tmp_path / "y.trec").read_bytes() == (tmp_path / "x.trec").read_bytes()


@pytest.mark.parametrize(
    ("query_id", "doc_id", "tag", "message"),
    [
        ("q", "night ferry", "x", "document id 'night ferry'"),
        ("q", "night\tferry", "x", "document id"),
        ("q", "", "x", "document id ''"),
        ("q 1", "d", "x", "query id 'q 1'"),
        ("q", "d", "my run", "tag 'my run'"),
    ],
)
def test_b49_white_space_in_ids_is_not_written(
    tmp_path: Path, query_id: str, doc_id: str, tag: str, message: str
) -> None:
    path = run_file(tmp_path, "the old file")
    with pytest.raises(InputError, match=message):
        write_run(path, {"a": [ScoredDocument("b", 1.0)], query_id: [ScoredDocument(doc_id, 1.0)]}, tag)
    assert path.read_text() == "the old file"


def test_a_document_twice_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="document 'd' is twice in the list of query 'q'"):
        write_run(tmp_path / "x.trec", {"q": [ScoredDocument("d", 2.0), ScoredDocument("d", 1.0)]}, "x")


def test_an_empty_list_leaves_no_line(tmp_path: Path) -> None:
    write_run(tmp_path / "x.trec", {"q1": [], "q2": [ScoredDocument("d", 0.25)]}, "x")
    assert (tmp_path / "x.trec").read_text() == "q2 Q0 d 1 0.25 x\n"


def test_a_published_run_is_read(shared_data: Path) -> None:
    run = read_run(shared_data / "trec-dl" / "runs" / "dl19.rankgpt-gpt-3.5-turbo.run")
    assert len(run) == 43
    assert run["264014"][0] == ("5611210", 15.780599594116211)


def test_qrels_that_were_written_read_back(tmp_path: Path) -> None:
    qrels = {"7": {"007": 2, "d_1": 0}, "q2": {"d3": -1}}
    write_qrels(tmp_path / "qrels.txt", qrels)
    assert (tmp_path / "qrels.txt").read_text() == "7 0 007 2\n7 0 d_1 0\nq2 0 d3 -1\n"
    assert read_qrels(tmp_path / "qrels.txt") == qrels
    with pytest.raises(InputError, match="night ferry"):
        write_qrels(tmp_path / "bad.txt", {"q": {"night ferry": 1}})


# -- a list at a time ---------------------------------------------------------------------------------------


def test_a_run_that_stays_on_the_disk(tmp_path: Path) -> None:
    run = {
        "q1": [ScoredDocument("d1", 3.0), ScoredDocument("d2", 2.5), ScoredDocument("d3", -1.0)],
        "q é": [],
        "q3": [ScoredDocument("é1", 0.25)],
        "7": [ScoredDocument(f"d{i}", 100.0 - i) for i in range(100)],
    }
    path = tmp_path / "x.trec"
    write_run(path, {query_id.replace(" ", "-"): ranked for query_id, ranked in run.items()}, "bm25")
    found = RunFile(path)
    assert dict(found) == read_run(path) == {query_id: ranked for query_id, ranked in run.items() if ranked}
    assert list(found) == ["q1", "q3", "7"]
    assert [found.count(query_id) for query_id in ("q1", "q-é", "q3", "7")] == [3, 0, 1, 100]
    assert found.get("q-é", []) == []
    with pytest.raises(KeyError):
        found["q2"]


@pytest.mark.parametrize(
    "text",
    [
        "q1 Q0 d1 1 1 x\n\nq1\tQ0 d2  2 2 x\r\n\n q2 Q0 d1 1 1 x",
        "\n\nq1 Q0 d1 2 1 x\nq1 Q0 d2 1 1 x\n",
        "",
    ],
)
def test_such_a_run_is_read_like_any_other(tmp_path: Path, text: str) -> None:
    path = run_file(tmp_path, text)
    assert dict(RunFile(path)) == read_run(path)


def test_lines_of_a_query_that_do_not_stand_together(tmp_path: Path) -> None:
    path = run_file(tmp_path, "\nq1 Q0 d1 1 2 x\nq2 Q0 d1 1 2 x\nq1 Q0 d2 2 1 x\n")
    with pytest.raises(InputError, match="line 4: more lines of query 'q1', which begins at line 2; put the"):
        RunFile(path)
    with pytest.raises(InputError, match="no such file"):
        RunFile(tmp_path / "other.trec")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"q2 Q0 d2 2 1.0", "line 3: 5 fields"),
        (b"q2 Q0 d1 2 1.0 x", r"line 3: document 'd1' is in the list of query 'q2' already \(line 2\)"),
        (b"q2 Q0 d\xff 2 1.0 x", "line 3: not UTF-8"),
    ],
)
def test_malformed_lines_are_named_when_they_are_read(tmp_path: Path, line: bytes, message: str) -> None:
    path = run_file(tmp_path, "q1 Q0 d1 1 2 x\nq2 Q0 d1 1 2 x\n")
    path.write_bytes(path.read_bytes() + line)
    run = RunFile(path)
    assert run["q1"] == [ScoredDocument("d1", 2.0)]
    with pytest.raises(InputError, match=message):
        run["q2"]
