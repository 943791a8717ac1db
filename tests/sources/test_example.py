from __future__ import annotations

import importlib.util
from pathlib import Path

from instruct_distill.sources import open_collection
from instruct_distill.sources.queries import check_judged_documents, check_judged_queries

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "data" / "example"


def test_the_formats_agree() -> None:
    beir = open_collection(f"beir:{EXAMPLE / 'beir'}")
    files = open_collection(f"files:{EXAMPLE / 'files'}")
    rankgpt = open_collection(f"rankgpt:{EXAMPLE / 'rankgpt.json'}")
    documents = list(beir.documents())
    assert len(documents) == 50
    assert list(files.documents()) == documents
    assert len(beir.queries()) == 10
    assert beir.queries() == files.queries() == rankgpt.queries()
    assert beir.qrels() == files.qrels()
    assert files.given() == rankgpt.given()
    assert set(rankgpt.documents()) <= set(documents)


def test_splits_and_judgements() -> None:
    beir = open_collection(f"beir:{EXAMPLE / 'beir'}")
    assert beir.splits() == ("test", "train")
    assert (len(beir.queries("train")), len(beir.queries("test"))) == (6, 4)
    qrels = beir.qrels() or {}
    known = {document.doc_id for document in beir.documents()}
    assert check_judged_queries(beir.name, qrels, beir.queries()) == 0
    assert check_judged_documents(beir.name, qrels, known, None) == 0
    assert all(max(grades.values()) == 2 for grades in qrels.values())
    assert {grade for grades in qrels.values() for grade in grades.values()} == {0, 1, 2}


def test_the_written_formats_are_those_of_the_script(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("write_example", ROOT / "scripts" / "write_example.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.write_example(tmp_path)
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert len(written) == 5
    for path in written:
        assert (tmp_path / path).read_bytes() == (EXAMPLE / path).read_bytes(), path
