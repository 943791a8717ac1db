from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.errors import InputError
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.results import evaluate_run
from instruct_distill.evaluation.task_data import (
    TaskQueries,
    candidate_documents,
    stored_documents,
    task_queries,
)
from instruct_distill.records import ScoredDocument
from instruct_distill.sources import open_collection
from instruct_distill.trec import write_run


def beir(folder: Path, queries: list[str], qrels: dict[str, str]) -> str:
    """A collection with the documents d1, d2 and d3; qrels is split → lines."""
    (folder / "qrels").mkdir(parents=True)
    for file, ids in (("corpus", ["d1", "d2", "d3"]), ("queries", queries)):
        lines = [json.dumps({"_id": each, "title": "", "text": f"{each} about bicycles"}) for each in ids]
        (folder / f"{file}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for split, rows in qrels.items():
        (folder / "qrels" / f"{split}.tsv").write_text(rows.replace(" ", "\t") + "\n", encoding="utf-8")
    return f"beir:{folder}"


def task(collection: str, seed: int = 13, **section: Any) -> TaskQueries:
    content = {"collection": collection, **section}
    return task_queries(TypeAdapter(EvaluationParameters).validate_python(content), seed=seed)


@pytest.fixture
def collection(tmp_path: Path) -> str:
    qrels = {"test": "q1 d1 1\nq3 d2 2\nq3 d3 0", "train": "q2 d2 1"}
    return beir(tmp_path / "b", ["q1", "q2", "q3", "q4"], qrels)


def test_the_judged_queries_of_the_test_split(collection: str) -> None:
    data = task(collection)
    assert [query.query_id for query in data.queries] == ["q1", "q3"]
    assert data.qrels == {"q1": {"d1": 1}, "q3": {"d2": 2, "d3": 0}}


def test_another_split_or_all_of_them(collection: str) -> None:
    assert [query.query_id for query in task(collection, queries={"split": "train"}).queries] == ["q2"]
    everything = task(collection, queries={"split": "all"})
    assert [query.query_id for query in everything.queries] == ["q1", "q2", "q3"]
    assert set(everything.qrels) == {"q1", "q2", "q3"}
    with pytest.raises(InputError, match="no split 'dev'"):
        task(collection, queries={"split": "dev"})


def test_a_sample_has_the_judgements_of_its_queries_only(tmp_path: Path) -> None:
    ids = [f"q{i}" for i in range(20)]
    name = beir(tmp_path / "b", ids, {"test": "\n".join(f"{each} d1 1" for each in ids[::2])})
    data = task(name, queries={"sample": 4})
    chosen = [query.query_id for query in data.queries]
    assert len(chosen) == 4
    assert set(chosen) <= set(ids[::2])
    assert list(data.qrels) == chosen
    assert [query.query_id for query in task(name, queries={"sample": 4}).queries] == chosen
    assert {
        tuple(q.query_id for q in task(name, seed, queries={"sample": 4}).queries) for seed in range(9)
    } != {tuple(chosen)}


def test_b54_judged_queries_that_the_collection_lacks_still_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = beir(tmp_path / "b", ["q1"], {"test": "q1 d1 1\ngone d1 1"})
    with caplog.at_level(logging.WARNING):
        data = task(name)
    assert "1 of 2 judged queries are not in the collection (the first: 'gone')" in caplog.text
    assert [query.query_id for query in data.queries] == ["q1"]
    assert set(data.qrels) == {"q1", "gone"}


def test_b54_judged_documents_that_the_collection_lacks_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One of two relevant documents is gone: what is found first is worth 0.61315, not 1."""
    data = task(beir(tmp_path / "b", ["q1"], {"test": "q1 gone 1\nq1 d1 1"}))
    lists = {"q1": [ScoredDocument("d1", 2.0), ScoredDocument("d2", 1.0)]}
    with caplog.at_level(logging.WARNING):
        documents = data.documents(lists)
    assert list(documents) == ["d1", "d2"]
    assert "1 of 2 judged documents are not in the collection (the first: 'gone')" in caplog.text
    assert evaluate_run(data.qrels, lists, ["nDCG@10"]).means["nDCG@10"] == pytest.approx(0.61315, abs=1e-5)


def test_b54_judgements_of_another_corpus_stop_before_any_work(collection: str, tmp_path: Path) -> None:
    file = tmp_path / "qrels.txt"
    file.write_text("q1 0 msmarco_1 1\nq3 0 msmarco_2 1\n", encoding="utf-8")
    data = task(collection, qrels=str(file))
    with pytest.raises(
        InputError, match=r"none of the 2 judged documents .*have 'msmarco_1', the collection has 'd1'"
    ):
        data.check({"q1": [ScoredDocument("d1", 1.0)]})


def test_b54_lists_that_bring_their_texts_alone_may_lack_judged_documents(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hits = [{"content": "a text", "qid": "q1", "docid": "d1", "rank": 1, "score": 1.0}]
    (tmp_path / "lists.json").write_text(json.dumps([{"query": "a query", "hits": hits}]), encoding="utf-8")
    (tmp_path / "qrels.txt").write_text("q1 0 d7 1\n", encoding="utf-8")
    data = task(f"rankgpt:{tmp_path / 'lists.json'}", qrels=str(tmp_path / "qrels.txt"))
    with caplog.at_level(logging.WARNING):
        data.check({"q1": [ScoredDocument("d1", 1.0)]})
    assert caplog.messages == []


def test_judgements_of_a_file_take_the_place_of_the_collections(collection: str, tmp_path: Path) -> None:
    file = tmp_path / "qrels.txt"
    file.write_text("q3 0 d1 3\n", encoding="utf-8")
    data = task(collection, qrels=str(file))
    assert [query.query_id for query in data.queries] == ["q3"]
    assert data.qrels == {"q3": {"d1": 3}}


def test_judgements_of_other_queries_are_refused(collection: str, tmp_path: Path) -> None:
    file = tmp_path / "qrels.txt"
    file.write_text("1001 0 d1 3\n", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"none of the 1 judged queries .* have '1001', the collection has 'q1'"
    ):
        task(collection, qrels=str(file))
    with pytest.raises(InputError, match=r"nothing.txt: no such file"):
        task(collection, qrels=str(tmp_path / "nothing.txt"))


def test_a_collection_without_judgements_is_no_task(tmp_path: Path) -> None:
    name = beir(tmp_path / "b", ["q1"], {})
    with pytest.raises(InputError, match=r"b brings no judgements; name a file with 'qrels:'"):
        task(name)


def test_candidates_that_the_collection_lacks_are_refused(collection: str, tmp_path: Path) -> None:
    file = tmp_path / "other.trec"
    lists = {"q1": [ScoredDocument("d1", 2.0), ScoredDocument("x9", 1.0)], "q3": [ScoredDocument("d2", 1.0)]}
    write_run(file, lists, "x")
    from_file = CandidateParameters(method="run", file=str(file))
    data = task(collection, candidates={"method": "run", "file": str(file)})
    parameters = EvaluationParameters(collection=collection, candidates=from_file)
    candidates = data.candidates(parameters)
    assert [document.doc_id for document in candidates["q1"]] == ["d1", "x9"]
    with pytest.raises(InputError, match=r"1 of 3 candidates are not in the collection \(the first: 'x9'\)"):
        data.documents(candidates)


def test_the_documents_of_the_candidates_and_no_others(collection: str) -> None:
    data = task(collection)
    documents = data.documents(
        {"q1": [ScoredDocument("d3", 1.0)], "q3": [ScoredDocument("d3", 1.0)], "q4": []}
    )
    assert {doc_id: document.text for doc_id, document in documents.items()} == {"d3": "d3 about bicycles"}


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_documents_on_the_disk_are_those_in_memory(collection: str, at_once: int) -> None:
    opened = open_collection(collection)
    lists = {"q1": ["d3", "d1"], "q2": ["d1"], "q3": [], "q4": ["d2", "d3"]}
    run = {query: [ScoredDocument(doc_id, 1.0) for doc_id in ranked] for query, ranked in lists.items()}
    assert dict(stored_documents(opened, run, at_once)) == candidate_documents(opened, run)
    run["q3"] = [ScoredDocument(doc_id, 1.0) for doc_id in ("x1", "d1", "x2")]
    run["q4"] = [ScoredDocument("x1", 1.0)]
    message = r"2 of 4 candidates are not in the collection \(the first: 'x1'\)"
    for find in (candidate_documents, lambda *given: stored_documents(*given, at_once)):
        with pytest.raises(InputError, match=message):
            find(opened, run)
