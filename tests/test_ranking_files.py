from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruct_distill.errors import InputError
from instruct_distill.ranking_files import Choices, rank_lines, rank_requests, rank_run
from instruct_distill.records import Document, Query, RankedDocument
from instruct_distill.reranker import Reranker


class Longest(Reranker):
    """A reranker that knows no model: a document's score is the length of its text."""

    def __init__(self) -> None:
        self.calibration = None

    def rank_many(
        self, lists: Any, top_k: int | None = None, **choices: Any
    ) -> Iterator[list[RankedDocument]]:
        for _, documents in lists:
            yield self._order(documents, top_k, bool(choices["probability"]))

    def rank(
        self,
        query: str | Query,
        documents: Sequence[str | Document],
        top_k: int | None = None,
        **choices: Any,
    ) -> list[RankedDocument]:
        return self._order(documents, top_k, bool(choices["probability"]))

    @staticmethod
    def _order(documents: Sequence[str | Document], top_k: int | None, chance: bool) -> list[RankedDocument]:
        texts = [d if isinstance(d, str) else d.full_text for d in documents]
        scores = np.array([len(text) for text in texts], dtype=np.float32)
        return [
            RankedDocument(
                int(i),
                d.doc_id if isinstance(d := documents[i], Document) else None,
                float(scores[i]),
                rank,
                texts[i],
                0.5 if chance else None,
            )
            for rank, i in enumerate(np.argsort(-scores, kind="stable")[:top_k], start=1)
        ]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "queries.tsv").write_text("q1\tfirst\nq2\tsecond\n", encoding="utf-8")
    documents = [
        {"id": "a", "text": "xx"},
        {"id": "b", "text": "yyyy", "title": "t"},
        {"id": "c", "text": "é"},
    ]
    (tmp_path / "documents.jsonl").write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    (tmp_path / "in.trec").write_text(
        "q2 Q0 c 1 2.0 x\nq2 Q0 a 2 1.0 x\nq1 Q0 a 1 3.0 x\nq1 Q0 b 2 2.0 x\nq1 Q0 c 3 1.0 x\n",
        encoding="utf-8",
    )
    return tmp_path


def ranked(files: Path, form: str = "trec", **choices: Any) -> list[str]:
    return list(
        rank_run(
            Longest(),
            str(files / "queries.tsv"),
            str(files / "documents.jsonl"),
            str(files / "in.trec"),
            form,
            Choices(**choices),
        )
    )


def test_a_run_is_ranked_anew(files: Path) -> None:
    assert ranked(files) == [
        "q2 Q0 a 1 2.0 instruct_distill",
        "q2 Q0 c 2 1.0 instruct_distill",
        "q1 Q0 b 1 6.0 instruct_distill",
        "q1 Q0 a 2 2.0 instruct_distill",
        "q1 Q0 c 3 1.0 instruct_distill",
    ]
    assert [line.split()[2] for line in ranked(files, top_k=1)] == ["a", "b"]


def test_a_run_as_json(files: Path) -> None:
    first = json.loads(ranked(files, "jsonl", top_k=1, probability=True)[0])
    assert first == {
        "query_id": "q2",
        "query": "second",
        "probability": "sigmoid",
        "results": [{"index": 1, "rank": 1, "score": 2.0, "id": "a", "probability": 0.5}],
    }


def test_a_run_of_other_files(files: Path) -> None:
    (files / "queries.tsv").write_text("q1\tfirst\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"in\.trec: query 'q2' is not in .*queries\.tsv"):
        ranked(files)
    (files / "queries.tsv").write_text("q1\tfirst\nq2\tsecond\n", encoding="utf-8")
    (files / "documents.jsonl").write_text('{"id": "a", "text": "x"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="document 'c' of query 'q2' is not in"):
        ranked(files)


def test_lines(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\nbbb\n", encoding="utf-8")
    found = list(rank_lines(Longest(), "q", str(tmp_path / "lines"), Choices()))
    assert found == ["1\t3.0000\tbbb", "2\t1.0000\ta"]


def test_requests_keep_what_came_with_them(tmp_path: Path) -> None:
    lines = [
        {"id": 7, "query": "q", "documents": ["a", "bbb"]},
        {"query": "Ünïcode", "documents": [{"id": "x", "text": "a", "title": "T"}, {"text": "b"}]},
        {"query": "nothing", "documents": []},
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = [json.loads(line) for line in rank_requests(Longest(), str(tmp_path / "r.jsonl"), Choices())]
    assert found[0] == {
        "id": 7,
        "query": "q",
        "results": [{"index": 1, "rank": 1, "score": 3.0}, {"index": 0, "rank": 2, "score": 1.0}],
    }
    assert found[1]["query"] == "Ünïcode"
    assert [result["id"] for result in found[1]["results"]] == ["x", "1"]
    assert found[2]["results"] == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query": "q"}', r"line 1: expected {\"query\""),
        ('{"query": 3, "documents": []}', "line 1: expected"),
        ('{"query": "q", "documents": [3]}', "line 1: document 0 is no text"),
        ('{"query": "q", "documents": "text"}', "line 1: expected"),
    ],
)
def test_what_is_no_request(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "r.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        list(rank_requests(Longest(), str(tmp_path / "r.jsonl"), Choices()))
