from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.evaluation.ranker import RerankedList, run_of
from instruct_distill.evaluation.system_run import rank_with_resume
from instruct_distill.records import Document, Query, RankedDocument, Run, ScoredDocument

QUERIES = [Query("q1", "one"), Query("q2", "two"), Query("q3", "three"), Query("q4", "four")]
DOCUMENTS = {f"d{i}": Document(f"d{i}", str(i)) for i in range(1, 4)}
CANDIDATES: Run = {
    query.query_id: [ScoredDocument(f"d{i}", 4.0 - i) for i in range(1, 4)] for query in QUERIES
} | {"q4": []}


class Backwards:
    """Ranks the last candidate first; stops, as if killed, at the query ``stop``."""

    def __init__(self, stop: str = "", score: float = 0.0) -> None:
        self.stop, self.score = stop, score
        self.asked: list[str] = []

    def rank(self, query: Query, documents: Sequence[Document]) -> list[RankedDocument]:
        if query.query_id == self.stop:
            raise KeyboardInterrupt
        self.asked.append(query.query_id)
        return [
            RankedDocument(i, documents[i].doc_id, i + self.score, len(documents) - i, documents[i].text)
            for i in reversed(range(len(documents)))
        ]


def rank(ranker: Backwards, file: Path, queries: Sequence[Query] = QUERIES) -> list[RerankedList]:
    return rank_with_resume(ranker, queries, CANDIDATES, DOCUMENTS, file=file, depth=2, name="test")


def test_the_lists_come_back_in_the_order_of_the_queries(tmp_path: Path) -> None:
    file = tmp_path / "task" / "student.jsonl"
    ranker = Backwards()
    lists = rank(ranker, file)
    assert [item.query_id for item in lists] == ["q1", "q2", "q3", "q4"]
    assert [[document.doc_id for document in item.documents] for item in lists] == [
        ["d2", "d1", "d3"]
    ] * 3 + [[]]
    assert lists[0].documents == [
        ScoredDocument("d2", 1.0),
        ScoredDocument("d1", 0.0),
        ScoredDocument("d3", -1.0),
    ]
    assert [item.reranked for item in lists] == [2, 2, 2, 0]
    assert ranker.asked == ["q1", "q2", "q3"]


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "student.jsonl"
    with pytest.raises(KeyboardInterrupt):
        rank(Backwards(stop="q3"), file)
    assert len(file.read_text(encoding="utf-8").splitlines()) == 2
    second = Backwards()
    lists = rank(second, file)
    assert second.asked == ["q3"]
    assert run_of(lists) == run_of(rank(Backwards(), tmp_path / "other.jsonl"))
    finished = file.read_bytes()
    third = Backwards()
    assert rank(third, file) == lists
    assert (third.asked, file.read_bytes()) == ([], finished)


@pytest.mark.parametrize("torn", [b'{"query_id": "q2", "docu', b"\xff", b'{"query_id":"q2"}'])
def test_a_torn_last_line_is_done_again(tmp_path: Path, torn: bytes) -> None:
    file = tmp_path / "student.jsonl"
    rank(Backwards(), file, QUERIES[:1])
    whole = file.read_bytes()
    file.write_bytes(whole + torn)
    ranker = Backwards()
    lists = rank(ranker, file)
    assert ranker.asked == ["q2", "q3"]
    assert len(lists) == 4
    assert file.read_bytes().startswith(whole + b'{"query_id": "q2", ')
    assert [json.loads(line)["query_id"] for line in file.read_text(encoding="utf-8").splitlines()] == [
        "q1",
        "q2",
        "q3",
        "q4",
    ]


@pytest.mark.parametrize(
    "line", ["x", "[]", "{}", '{"query_id": "q1", "documents": [["d1"]], "reranked": 1, "seconds": 0}']
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "student.jsonl"
    rank(Backwards(), file, QUERIES[:1])
    file.write_bytes(file.read_bytes() + line.encode() + b"\n")
    with pytest.raises(InputError, match=r"student.jsonl line 2: damaged .*; delete the line"):
        rank(Backwards(), file)


def test_lines_of_other_queries_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "student.jsonl"
    rank(Backwards(), file)
    assert [item.query_id for item in rank(Backwards(stop="q3"), file, [QUERIES[2], QUERIES[0]])] == [
        "q3",
        "q1",
    ]


def test_b48_a_score_that_is_no_number_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "student.jsonl"
    with pytest.raises(NonFiniteScoreError, match="query q1, document d2: score nan"):
        rank(Backwards(score=float("nan")), file)
    assert file.read_bytes() == b""


def test_ids_and_texts_beyond_ascii_survive(tmp_path: Path) -> None:
    file = tmp_path / "é" / "student.jsonl"
    queries, documents = [Query("frage-ü\u2028", "x")], {"d-é": Document("d-é", "x")}
    candidates = {"frage-ü\u2028": [ScoredDocument("d-é", 1.0)]}
    first = rank_with_resume(Backwards(), queries, candidates, documents, file=file, depth=None, name="x")
    ranker = Backwards()
    assert rank_with_resume(ranker, queries, candidates, documents, file=file, depth=None, name="x") == first
    assert ranker.asked == []


def test_a_file_where_the_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "task").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"task/student.jsonl: cannot be written"):
        rank(Backwards(), tmp_path / "task" / "student.jsonl")
