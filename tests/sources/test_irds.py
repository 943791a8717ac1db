from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Query, ScoredDocument
from instruct_distill.sources import open_collection
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.irds import IrdsCollection


@pytest.fixture
def registered(tmp_path: Path) -> Iterator[str]:
    """The id of a data set made of local files."""
    import ir_datasets

    (tmp_path / "documents.tsv").write_text("007\tOil the chain.\n7\tFerries leave.\n")
    (tmp_path / "queries.tsv").write_text("q2\tferries\nq1\tnull\n")
    (tmp_path / "qrels.txt").write_text("q1 0 007 2\nq1 0 7 -1\nq2 0 gone 1\n")
    name = "instruct-distill-test"
    ir_datasets.registry.register(
        name,
        ir_datasets.create_dataset(
            docs_tsv=str(tmp_path / "documents.tsv"),
            queries_tsv=str(tmp_path / "queries.tsv"),
            qrels_trec=str(tmp_path / "qrels.txt"),
        ),
    )
    yield name
    del ir_datasets.registry._registered[name]


def test_local_data_set(registered: str) -> None:
    collection = open_collection(f"irds:{registered}")
    assert collection.queries() == [Query("q2", "ferries"), Query("q1", "null")]
    assert list(collection.documents()) == [
        Document("007", "Oil the chain."),
        Document("7", "Ferries leave."),
    ]
    assert collection.fetch(["7", "gone"]) == {"7": Document("7", "Ferries leave.")}
    assert collection.qrels() == {"q1": {"007": 2, "7": -1}, "q2": {"gone": 1}}
    assert collection.fingerprint() == open_collection(f"irds:{registered}").fingerprint()
    with pytest.raises(InputError, match=r"has no splits"):
        collection.queries("test")


def test_subsets_of_one_corpus_have_one_fingerprint() -> None:
    first = open_collection("irds:msmarco-passage/trec-dl-2019/judged").fingerprint()
    assert first == open_collection("irds:msmarco-passage/train/judged").fingerprint()
    assert first != open_collection("irds:vaswani").fingerprint()


class TopicQuery(NamedTuple):
    query_id: int
    title: str
    description: str


class OddQuery(NamedTuple):
    query_id: str
    narrative: str


class TitledDocument(NamedTuple):
    doc_id: int
    title: str
    text: str
    url: str

    def default_text(self) -> str:
        return f"{self.title} {self.text}"


class TextFirstDocument(NamedTuple):
    doc_id: str
    title: str
    text: str

    def default_text(self) -> str:
        return f"{self.text} ({self.title})"


class BodyDocument(NamedTuple):
    doc_id: str
    title: str
    body: str


class PictureDocument(NamedTuple):
    doc_id: str
    pixels: bytes


class Scored(NamedTuple):
    query_id: str
    doc_id: int
    score: float


class StubDataset:
    """What ir_datasets offers, with records of our own."""

    def __init__(
        self,
        queries: tuple[Any, ...] = (),
        documents: tuple[Any, ...] = (),
        scored: tuple[Any, ...] = (),
    ) -> None:
        self.scoreddocs_iter = lambda: iter(scored)
        self.has_scoreddocs = lambda: bool(scored)
        self.queries_iter = lambda: iter(queries)
        self.docs_iter = lambda: iter(documents)
        self.has_queries = lambda: bool(queries)
        self.has_docs = lambda: bool(documents)
        self.has_qrels = lambda: False


def stub(**records: tuple[Any, ...]) -> Collection:
    return IrdsCollection("irds:stub", "stub", StubDataset(**records))


def test_records_of_other_shapes() -> None:
    collection = stub(
        queries=(TopicQuery(301, "oil a chain", "Documents that say how."),),
        documents=(
            TitledDocument(1, "Chains", "Oil them.", "http://localhost"),
            TextFirstDocument("2", "Chains", "Oil them."),
            BodyDocument("3", "Chains", "Oil them."),
        ),
    )
    assert collection.queries() == [Query("301", "oil a chain")]
    assert list(collection.documents()) == [
        Document("1", "Oil them.", "Chains"),
        Document("2", "Oil them. (Chains)", ""),
        Document("3", "Oil them.", "Chains"),
    ]
    assert collection.qrels() is None


def test_scored_documents_are_lists_where_they_have_an_order() -> None:
    queries = (TopicQuery(1, "a", ""), TopicQuery(2, "b", ""), TopicQuery(3, "c", ""))
    ranked = (Scored("1", 7, 0.5), Scored("1", 8, 2.0), Scored("2", 9, 0.0))
    assert stub(queries=queries, scored=ranked).given() == {
        "1": [ScoredDocument("8", 2.0), ScoredDocument("7", 0.5)],
        "2": [ScoredDocument("9", 0.0)],
        "3": [],
    }
    assert stub(queries=queries).given() is None
    unordered = (*ranked, Scored("3", 7, 0.0), Scored("3", 8, 0.0))
    assert stub(queries=queries, scored=unordered).given() is None


def test_records_without_text_are_refused() -> None:
    with pytest.raises(InputError, match=r"no field text, title or query \(they have: query_id, narrative\)"):
        stub(queries=(OddQuery("1", "x"),)).queries()
    with pytest.raises(InputError, match=r"document '1' has no field text or body"):
        list(stub(documents=(PictureDocument("1", b""),)).documents())
    with pytest.raises(InputError, match=r"'stub' has no queries"):
        stub().queries()
    with pytest.raises(InputError, match=r"'stub' has no documents"):
        stub().documents()
