from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Query
from instruct_distill.sources import open_collection, record_fields
from instruct_distill.sources.collection import Collection

CORPUS = (
    '{"_id":"d1","title":"Harbour ferries","text":"Ferries leave the harbour every twenty minutes."}\n'
    '{"_id":"d2","title":"Bicycle chain care","text":"Clean and oil the chain after wet rides."}\n'
    '{"_id":"d6","title":"","text":""}\n'
)
QUERIES = (
    '{"_id":"q3","text":"unjudged"}\n'
    '{"_id":"q1","text":"how to oil a bicycle chain"}\n'
    '{"_id":"q2","text":"when do ferries leave"}\n'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "corpus.jsonl").write_text(CORPUS)
    (tmp_path / "queries.jsonl").write_text(QUERIES)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td1\t1\nq1\td2\t2\n")
    (tmp_path / "qrels" / "dev.tsv").write_text("q3\td1\t0\n")
    return tmp_path


def opened(folder: Path) -> Collection:
    return open_collection(f"beir:{folder}")


def test_reads_the_folder(folder: Path) -> None:
    collection = opened(folder)
    assert collection.splits() == ("dev", "test")
    assert [query.query_id for query in collection.queries("test")] == ["q1", "q2"]  # the order of the file
    assert collection.queries("dev") == [Query("q3", "unjudged")]
    assert [query.query_id for query in collection.queries()] == ["q3", "q1", "q2"]
    assert collection.queries("all") == collection.queries()
    assert collection.qrels("test") == {"q1": {"d2": 2}, "q2": {"d1": 1}}
    assert collection.qrels() == {"q1": {"d2": 2}, "q2": {"d1": 1}, "q3": {"d1": 0}}
    assert list(collection.documents())[1:] == [
        Document("d2", "Clean and oil the chain after wet rides.", "Bicycle chain care"),
        Document("d6", "", ""),
    ]
    assert set(collection.fetch(["d6", "nowhere", "d1"])) == {"d1", "d6"}
    assert collection.given() is None


def test_unknown_split(folder: Path) -> None:
    with pytest.raises(
        InputError, match=r"no split 'tset'; did you mean 'test'\? \(it has: dev, test, all\)"
    ):
        opened(folder).queries("tset")


def test_packed_and_without_judgements(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(CORPUS.encode()))
    (tmp_path / "queries.jsonl.gz").write_bytes(gzip.compress(QUERIES.encode()))
    collection = opened(tmp_path)
    assert collection.splits() == ()
    assert collection.qrels() is None
    assert len(collection.queries()) == 3
    assert len(list(collection.documents())) == 3


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no corpus.jsonl \(or corpus.jsonl.gz\)"):
        opened(tmp_path)


def test_grades_that_differ_between_splits(folder: Path) -> None:
    (folder / "qrels" / "dev.tsv").write_text("q1\td2\t1\n")
    assert opened(folder).qrels("dev") == {"q1": {"d2": 1}}
    with pytest.raises(InputError, match=r"test.tsv: document 'd2' has grade 2 .* another grade"):
        opened(folder).qrels()


def test_b51_ids_and_texts_are_strings(folder: Path) -> None:
    texts = ["null", "NA", "nan", "None", "TRUE", "1e5"]
    ids = [7, "007", "0071", "1E5", "true", "NA"]
    records = [{"_id": i, "text": text} for i, text in zip(ids, texts, strict=True)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "corpus.jsonl").write_text('{"_id":7,"title":null,"text":null}\n{"_id":"07","text":12}\n')
    (folder / "qrels" / "test.tsv").write_text("7\t7\t1\n007\t07\t1\n")
    collection = opened(folder)
    wanted = [
        Query(i, text) for i, text in zip(["7", "007", "0071", "1E5", "true", "NA"], texts, strict=True)
    ]
    assert collection.queries() == wanted
    assert collection.queries("test") == wanted[:2]
    assert list(collection.documents()) == [Document("7", "", ""), Document("07", "12", "")]
    assert collection.qrels("test") == {"7": {"7": 1}, "007": {"07": 1}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"_id":"q2","text":{"body":"x"}}',
            r"queries.jsonl line 2: 'text' is {'body': 'x'}; expected a text",
        ),
        ('{"_id":"q2","text":1e5}', r"line 2: 'text' is 100000.0"),
        ('{"_id":"q2","text":true}', r"line 2: 'text' is True"),
        ('{"_id":"q2"}', r"line 2: no field 'text' or .*\(the record has: '_id'\)"),
        ('{"text":"x"}', r"line 2: no field '_id' or"),
        ('{"_id":1E5,"text":"x"}', r"line 2: '_id' is 100000.0; expected an id"),
        ('{"_id":null,"text":"x"}', r"line 2: '_id' is None"),
        ('{"_id":true,"text":"x"}', r"line 2: '_id' is True"),
        ('{"_id":" ","text":"x"}', r"line 2: '_id' is ' '"),
        ('{"_id":"q1","text":"x"}', r"line 2: query id 'q1' stands in line 1 already"),
        ('["q2", "x"]', r"line 2: expected a JSON object"),
        ('{"_id":"q2"', r"line 2: not JSON"),
    ],
)
def test_b51_records_that_cannot_be_read(folder: Path, line: str, message: str) -> None:
    (folder / "queries.jsonl").write_text('{"_id":"q1","text":"x"}\n' + line + "\n")
    with pytest.raises(InputError, match=message):
        opened(folder).queries()


def test_number_and_string_of_one_id_are_one_document(folder: Path) -> None:
    (folder / "corpus.jsonl").write_text('{"_id":7,"text":"a"}\n\n{"_id":"7","text":"b"}\n')
    with pytest.raises(InputError, match=r"corpus.jsonl line 3: document id '7' stands in line 1 already"):
        list(opened(folder).documents())


def test_two_ids_of_one_hash_are_two_documents(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_fields, "hash", lambda text: 1, raising=False)
    assert [document.doc_id for document in opened(folder).documents()] == ["d1", "d2", "d6"]


def test_b52_bom_crlf_and_line_separators(folder: Path) -> None:
    (folder / "corpus.jsonl").write_bytes(b"\xef\xbb\xbf" + CORPUS.replace("\n", "\r\n").encode())
    assert [document.doc_id for document in opened(folder).documents()] == ["d1", "d2", "d6"]
    text = "one\u2028two\u0085three café"
    (folder / "corpus.jsonl").write_text(
        json.dumps({"_id": "d1", "text": text}, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    assert list(opened(folder).documents()) == [Document("d1", text)]


def test_b52_invalid_bytes_are_named(folder: Path) -> None:
    (folder / "corpus.jsonl").write_bytes(b'{"_id":"d1","text":"a"}\n{"_id":"d2","text":"\x9d"}\n')
    with pytest.raises(InputError, match=r"corpus.jsonl line 2: byte 0x9d"):
        list(opened(folder).documents())


def test_halves_of_surrogate_pairs_are_replaced(folder: Path) -> None:
    (folder / "corpus.jsonl").write_text('{"_id":"d1","text":"a \\ud83d b \\ud83d\\ude00"}\n')
    assert list(opened(folder).documents()) == [Document("d1", "a \ufffd b \U0001f600")]


def test_fingerprint_follows_the_documents(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = opened(folder).fingerprint()
    (folder / "queries.jsonl").write_text('{"_id":"q9","text":"other"}\n')
    assert opened(folder).fingerprint() == before
    elsewhere = tmp_path_factory.mktemp("copy")
    for name in ("corpus.jsonl", "queries.jsonl"):
        (elsewhere / name).write_bytes((folder / name).read_bytes())
    assert opened(elsewhere).fingerprint() == before
    (folder / "corpus.jsonl").write_text(CORPUS.replace("twenty", "thirty"))
    assert opened(folder).fingerprint() != before


def test_scifact(shared_data: Path) -> None:
    collection = opened(shared_data / "scifact")
    assert collection.splits() == ("test", "train")
    assert len(collection.queries("test")) == 300
    assert len(collection.queries("train")) == 809
    documents = {document.doc_id for document in collection.documents()}
    assert len(documents) == 5183
    qrels = collection.qrels("test") or {}
    assert len(qrels) == 300
    assert all(doc_id in documents for grades in qrels.values() for doc_id in grades)
