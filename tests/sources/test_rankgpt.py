from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Query, ScoredDocument
from instruct_distill.sources import open_collection
from instruct_distill.sources.collection import Collection


def hit(docid: object, content: str, score: object = None, **more: object) -> dict[str, Any]:
    return {"docid": docid, "content": content, "score": score, **more}


def collection_of(tmp_path: Path, records: list[Any], *, jsonl: bool = False) -> Collection:
    path = tmp_path / "lists.json"
    if jsonl:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    else:
        path.write_text(json.dumps(records, indent=2))
    return open_collection(f"rankgpt:{path}")


HITS = [hit(7, "a", 2.5, qid=19), hit("007", "b", 1.5, qid=19)]


@pytest.mark.parametrize("jsonl", [False, True])
def test_lists(tmp_path: Path, jsonl: bool) -> None:
    records = [{"query": "first", "hits": HITS}, {"query": "null", "hits": []}]
    collection = collection_of(tmp_path, records, jsonl=jsonl)
    assert collection.queries() == [Query("19", "first"), Query("2", "null")]
    assert list(collection.documents()) == [Document("7", "a"), Document("007", "b")]
    assert collection.given() == {"19": [ScoredDocument("7", 2.5), ScoredDocument("007", 1.5)], "2": []}
    assert collection.qrels() is None
    assert collection.splits() == ()


def test_training_lines(tmp_path: Path) -> None:
    records = [
        {
            "query": "first",
            "positive_passages": [{"docid": "p", "text": "right", "title": "T"}],
            "retrieved_passages": [{"docid": "a", "text": "x"}, {"docid": "b", "text": "y", "title": None}],
        },
        {"query": "second", "query_id": "q2", "retrieved_passages": [{"docid": "a", "text": "x"}]},
    ]
    collection = collection_of(tmp_path, records, jsonl=True)
    assert collection.queries() == [Query("1", "first"), Query("q2", "second")]
    assert collection.given() == {
        "1": [ScoredDocument("a", 2.0), ScoredDocument("b", 1.0)],
        "q2": [ScoredDocument("a", 1.0)],
    }
    assert list(collection.documents()) == [
        Document("a", "x"),
        Document("b", "y"),
        Document("p", "right", "T"),
    ]
    assert collection.qrels() == {"1": {"p": 1}}


@pytest.mark.parametrize(
    "scores",
    [(1.5, 2.5), (2.0, 2.0), (None, None), (2.0, None), ("2", "1"), (1.00000001, 1.0)],
    ids=["rising", "tied", "none", "partial", "strings", "tied-as-float32"],
)
def test_unusable_scores_keep_the_order_of_the_file(tmp_path: Path, scores: tuple[object, object]) -> None:
    records = [{"query": "x", "hits": [hit("a", "x", scores[0]), hit("b", "y", scores[1])]}]
    assert collection_of(tmp_path, records).given() == {
        "1": [ScoredDocument("a", 2.0), ScoredDocument("b", 1.0)]
    }


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            [{"query": "x", "hits": HITS}, {"query": "y", "hits": [hit("7", "other", 1, qid=20)]}],
            r"record 2: document '7' has another text than in .*record 1 \('other' and 'a'\)",
        ),
        ([{"query": "x", "hits": HITS}] * 2, r"record 2: query id '19' stands in a record before"),
        ([{"query": "x", "hits": [HITS[0], HITS[0]]}], r"record 1: document '7' stands twice in the list"),
        ([{"query": "x", "hits": [HITS[0], hit("b", "y", qid=20)]}], r"the query ids '19' and '20'"),
        ([{"query": "x"}], r"record 1: no field 'hits' or 'retrieved_passages'"),
        ([{"hits": HITS}], r"record 1: no field 'query'"),
        ([{"query": {"text": "x"}, "hits": HITS}], r"record 1: 'query' is {'text': 'x'}; expected a text"),
        ([{"query": "x", "hits": [{"docid": "a"}]}], r"record 1, hits 1: no field 'text' or"),
        ([{"query": "x", "hits": ["a"]}], r"record 1: 'hits' is not a list of JSON objects"),
        ([{"query": "x", "hits": [hit("a", "x", float("nan"))]}], r"hits 1: score nan of query '1'"),
        (["x"], r"record 1: expected a JSON object, found str"),
        ([], r"no records"),
    ],
)
def test_records_that_cannot_be_used(tmp_path: Path, records: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        collection_of(tmp_path, records).queries()


@pytest.mark.parametrize(("year", "count"), [(19, 43), (20, 54), (21, 53), (22, 76)])
def test_trec_dl(shared_data: Path, year: int, count: int) -> None:
    collection = open_collection(f"rankgpt:{shared_data / 'trec-dl' / 'candidates' / f'dl{year}.bm25.json'}")
    run = collection.given()
    assert run is not None
    assert len(collection.queries()) == len(run) == count
    assert {len(ranked) for ranked in run.values()} == {100}
    for ranked in run.values():
        scores = np.array([document.score for document in ranked], dtype=np.float32)
        assert (np.diff(scores) < 0).all()
    texts = {document.doc_id: document.text for document in collection.documents()}
    assert all(texts[document.doc_id] for ranked in run.values() for document in ranked)
    if year == 19:
        assert collection.queries()[0] == Query("264014", "how long is life cycle of flea")


def test_noveleval(shared_data: Path) -> None:
    collection = open_collection(f"rankgpt:{shared_data / 'noveleval' / 'data.json'}")
    assert len(collection.queries()) == 21
    assert len(list(collection.documents())) == 420


def test_b54_a_positive_among_the_retrieved_stands_in_the_list_once_and_is_relevant(tmp_path: Path) -> None:
    passages = [{"docid": name, "text": f"text {name}", "title": ""} for name in ("d5", "d2")]
    record = {"query": "x", "positive_passages": [passages[1]], "retrieved_passages": passages}
    collection = collection_of(tmp_path, [record])
    assert [document.doc_id for document in (collection.given() or {})["1"]] == ["d5", "d2"]
    assert collection.qrels() == {"1": {"d2": 1}}
    assert [document.doc_id for document in collection.documents()] == ["d5", "d2"]
