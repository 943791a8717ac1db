from __future__ import annotations

import json
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Query, ScoredDocument
from instruct_distill.sources import open_collection


def test_lists_with_judgements(tmp_path: Path) -> None:
    hits = [
        {"content": "No.", "qid": 0, "docid": "0-0", "rank": 1, "score": 1.0},
        {"content": "Yes.", "qid": 0, "docid": "0-1", "rank": 2, "score": 0.5},
    ]
    (tmp_path / "data.json").write_text(json.dumps([{"query": "which?", "hits": hits}]), encoding="utf-8")
    (tmp_path / "qrels.txt").write_text("0 Q0 0-0 0\n0 Q0 0-1 2\n", encoding="utf-8")
    collection = open_collection(f"noveleval:{tmp_path}")
    assert collection.queries() == [Query("0", "which?")]
    assert list(collection.documents()) == [Document("0-0", "No."), Document("0-1", "Yes.")]
    assert collection.qrels() == {"0": {"0-0": 0, "0-1": 2}}
    assert collection.given() == {"0": [ScoredDocument("0-0", 1.0), ScoredDocument("0-1", 0.5)]}
    (tmp_path / "qrels.txt").unlink()
    with pytest.raises(InputError, match=r"no qrels.txt; write noveleval:FOLDER"):
        open_collection(f"noveleval:{tmp_path}")
    with pytest.raises(InputError, match=r"write noveleval:FOLDER"):
        open_collection("noveleval")


def test_the_published_folder(shared_data: Path) -> None:
    collection = open_collection(f"noveleval:{shared_data}/noveleval")
    given, qrels = collection.given(), collection.qrels()
    assert given is not None
    assert qrels is not None
    assert {query_id: [document.doc_id for document in ranked] for query_id, ranked in given.items()} == {
        query_id: list(grades) for query_id, grades in qrels.items()
    }
