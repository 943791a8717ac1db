from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Query, ScoredDocument
from instruct_distill.sources import open_collection
from instruct_distill.sources.collection import Collection


def folder_of(tmp_path: Path, **contents: str) -> Collection:
    files = {
        "documents.tsv": "d1\tHarbour ferries\tFerries leave.\nd2\tChains\tOil them.\n",
        "queries.tsv": "q1\thow to oil\nq2\tferries\n",
        **{name.replace("__", "."): content for name, content in contents.items()},
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode())
    return open_collection(f"files:{tmp_path}")


def test_tsv(tmp_path: Path) -> None:
    collection = folder_of(tmp_path, qrels__txt="q1 0 d2 2\n")
    assert collection.queries() == [Query("q1", "how to oil"), Query("q2", "ferries")]
    assert list(collection.documents()) == [
        Document("d1", "Ferries leave.", "Harbour ferries"),
        Document("d2", "Oil them.", "Chains"),
    ]
    assert collection.qrels() == {"q1": {"d2": 2}}
    assert collection.given() is None
    assert collection.splits() == ()
    with pytest.raises(InputError, match=r"has no splits, but split 'test' was asked for"):
        collection.queries("test")


@pytest.mark.parametrize("id_key", ["_id", "id", "doc_id", "docid", "query_id", "qid"])
@pytest.mark.parametrize("text_key", ["text", "contents", "content"])
def test_jsonl_keys(tmp_path: Path, id_key: str, text_key: str) -> None:
    (tmp_path / "documents.jsonl").write_text(f'{{"{id_key}": 7, "{text_key}": "a\\tb", "title": "T"}}\n')
    (tmp_path / "queries.jsonl").write_text(f'{{"{id_key}": "007", "{text_key}": "NA"}}\n')
    collection = open_collection(f"files:{tmp_path}")
    assert list(collection.documents()) == [Document("7", "a\tb", "T")]
    assert collection.queries() == [Query("007", "NA")]
    assert collection.qrels() is None


def test_packed(tmp_path: Path) -> None:
    for name, content in {
        "documents.tsv.gz": "d1\tx\n",
        "queries.jsonl.gz": '{"id":"q1","text":"y"}\n',
        "qrels.tsv.gz": "q1\td1\t1\n",
        "candidates.trec.gz": "q1 Q0 d1 1 2.0 bm25\n",
    }.items():
        (tmp_path / name).write_bytes(gzip.compress(content.encode()))
    collection = open_collection(f"files:{tmp_path}")
    assert list(collection.documents()) == [Document("d1", "x")]
    assert collection.queries() == [Query("q1", "y")]
    assert collection.qrels() == {"q1": {"d1": 1}}
    assert collection.given() == {"q1": [ScoredDocument("d1", 2.0)]}


def test_b51_b52_tsv_texts_are_left_alone(tmp_path: Path) -> None:
    collection = folder_of(
        tmp_path,
        documents__tsv='\ufeff007\tnull\r\n0071\t"quoted" \u2028 text\r\n1E5\t\r\n',
        queries__tsv="query_id\ttext\nNA\t1e5\n7\tNone\n",
    )
    assert list(collection.documents()) == [
        Document("007", "null"),
        Document("0071", '"quoted" \u2028 text'),
        Document("1E5", ""),
    ]
    assert collection.queries() == [Query("NA", "1e5"), Query("7", "None")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("documents__tsv", "d1\ta\td\te\n", r"documents.tsv line 1: 4 columns; expected id TAB text, or"),
        ("documents__tsv", "d1\ta\nd2\ta\tb\n", r"line 2: 3 columns, but the lines before it have 2"),
        ("documents__tsv", "d1\ta\nd1\tb\n", r"line 2: document id 'd1' stands in line 1 already"),
        ("documents__tsv", "d1\ta\n\tb\n", r"line 2: 'id' is ''"),
        ("queries__tsv", "q1 how to oil\n", r"queries.tsv line 1: 1 columns; expected id TAB text$"),
        ("queries__tsv", "q1\ta\tb\n", r"queries.tsv line 1: 3 columns"),
    ],
)
def test_lines_that_cannot_be_read(tmp_path: Path, name: str, content: str, message: str) -> None:
    collection = folder_of(tmp_path, **{name: content})
    with pytest.raises(InputError, match=message):
        _ = collection.queries(), list(collection.documents())


def test_b49_candidates_in_every_layout(tmp_path: Path) -> None:
    rows = [("q1", "d1", "1.2e-05"), ("q1", "d2", "+3.5"), ("q9", "d1", "12")]
    for separator, end in ((" ", "\n"), ("\t", "\n"), ("  ", "\r\n")):
        lines = [separator.join([query, "Q0", doc, "1", score, "tag"]) for query, doc, score in rows]
        assert folder_of(tmp_path, candidates__trec=end.join(lines)).given() == {
            "q1": [ScoredDocument("d2", 3.5), ScoredDocument("d1", 1.2e-05)],
            "q2": [],
            "q9": [ScoredDocument("d1", 12.0)],
        }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 Q0 d2 2 1.0", r"candidates.trec line 2: 5 fields; a run has 6"),
        ("q1 Q0 night ferry 2 1.0 tag", r"line 2: 7 fields"),
        ("q1 Q0 d2 2 nan tag", r"line 2: score 'nan' is not a finite number"),
        ("q1 Q0 d2 2 1e400 tag", r"line 2: score '1e400'"),
        ("q1 Q0 d1 2 1.0 tag", r"line 2: document 'd1' is in the list of query 'q1' already"),
    ],
)
def test_b48_b49_bad_candidate_lines(tmp_path: Path, line: str, message: str) -> None:
    collection = folder_of(tmp_path, candidates__trec=f"q1 Q0 d1 1 2.0 tag\n{line}\n")
    with pytest.raises(InputError, match=message):
        collection.given()


def test_folders_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no documents.jsonl or documents.tsv; a folder of files has"):
        open_collection(f"files:{tmp_path}")
    with pytest.raises(InputError, match=r"queries.jsonl and queries.tsv stand side by side; keep one"):
        folder_of(tmp_path, queries__jsonl="{}\n")


def test_items_with_popularity_and_what_is_known_to_a_query(tmp_path: Path) -> None:
    collection = folder_of(tmp_path, popularity__tsv="d2\t12\n", excluded__tsv="q1\td1\nq1\td2\n")
    assert collection.popularity() == {"d1": 0.0, "d2": 12.0}
    assert collection.popularity_source() == "the numbers in popularity.tsv"
    assert collection.excluded("q1") == {"d1", "d2"}
    assert collection.excluded("q2") == frozenset()


def test_without_these_files_nothing_is_popular_or_excluded(tmp_path: Path) -> None:
    collection = folder_of(tmp_path)
    assert (collection.popularity(), collection.popularity_source()) == (None, None)
    assert collection.excluded("q1") == frozenset()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("popularity__tsv", "d1 3\n", r"popularity.tsv line 1: 'd1 3'; expected document id TAB number"),
        ("popularity__tsv", "d1\t3\t4\n", r"line 1: .*; expected document id TAB number"),
        ("popularity__tsv", "d1\tmany\n", r"line 1: popularity 'many'; expected a number from 0"),
        ("popularity__tsv", "d1\t-1\n", r"line 1: popularity '-1'"),
        ("popularity__tsv", "d1\tinf\n", r"line 1: popularity 'inf'"),
        ("popularity__tsv", "d1\t1\nd1\t2\n", r"line 2: document 'd1' stands in a line before"),
        ("popularity__tsv", "d1\t1\nx\t2\n", r"1 documents are not in documents.tsv \(the first: 'x'\)"),
        ("excluded__tsv", "q1\t\n", r"excluded.tsv line 1: 'q1\\t'; expected query id TAB document id"),
    ],
)
def test_item_files_that_cannot_be_read(tmp_path: Path, name: str, content: str, message: str) -> None:
    collection = folder_of(tmp_path, **{name: content})
    with pytest.raises(InputError, match=message):
        _ = collection.popularity(), collection.excluded("q1")
