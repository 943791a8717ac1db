from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Query
from instruct_distill.sources import open_collection
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.python_docs import PythonDocsCollection

LONG = "It goes on with a good many more words so that the rest of this text is long enough for a document."


@pytest.fixture(scope="module")
def collection() -> Collection:
    return open_collection("python-docs")


def test_size_and_splits(collection: Collection) -> None:
    assert collection.splits() == ("test", "train")
    test, train = collection.queries("test"), collection.queries("train")
    assert len(test) > 150
    assert len(train) > 500
    assert not set(test) & set(train)
    assert sorted(test + train) == sorted(collection.queries())
    assert len({query.text.casefold() for query in test + train}) == len(test + train)


def test_judgements_and_texts(collection: Collection) -> None:
    documents = {document.doc_id: document for document in collection.documents()}
    assert len({document.text for document in documents.values()}) == len(documents)
    for split in ("test", "train"):
        qrels = collection.qrels(split) or {}
        queries = collection.queries(split)
        assert list(qrels) == [query.query_id for query in queries]
        for query in queries:
            ((doc_id, grade),) = qrels[query.query_id].items()
            assert query.query_id == f"q:{doc_id}"
            assert not query.query_id.split()[1:]
            assert grade == 1
            assert query.text not in documents[doc_id].full_text
            assert ">>>" not in documents[doc_id].text


def test_a_known_item(collection: Collection) -> None:
    name = "shutil.copytree"
    (query,) = [query for query in collection.queries() if query.query_id == f"q:{name}"]
    assert query.text == "Recursively copy a directory tree and return the destination directory."
    document = collection.fetch([name])[name]
    assert document.title == name
    assert document.text.startswith("If exception(s) occur, an Error is raised")


def test_no_module_is_imported() -> None:
    program = (
        "import sys; from instruct_distill.sources import open_collection\n"
        "collection = open_collection('python-docs'); before = set(sys.modules)\n"
        "assert list(collection.documents()); print(sorted(set(sys.modules) - before))\n"
        "print('turtle' in sys.modules, 'tkinter' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "False False"]


def test_fingerprint(collection: Collection, tmp_path: Path) -> None:
    assert collection.fingerprint() == open_collection("python-docs").fingerprint()
    (tmp_path / "one.py").write_text(f'"""Say one thing after another. {LONG}"""\n')
    before = PythonDocsCollection("python-docs", tmp_path).fingerprint()
    (tmp_path / "one.py").write_text(f'"""Say one thing after another. {LONG} More."""\n')
    assert PythonDocsCollection("python-docs", tmp_path).fingerprint() != before


def test_what_is_taken_from_a_source(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        f'''
"""Run a shop, e.g. One for bread.

{LONG}

>>> sell("bread")
'sold'

And more.
"""
raise RuntimeError("imported")
class Till:
    """Count the money of one day. {LONG} Till."""
    def total(self):
        """Too short. {LONG}"""
    def _hidden(self):
        """Nobody may see this method. {LONG} Hidden."""
    async def close(self, when):
        """Close the till until tomorrow morning

        {LONG} Close.
        """
if True:
    def sell(what):
        """sell(what) -> the price of it. {LONG} Sell."""
    def again(what):
        """Count the money of one day. {LONG} Again."""
    def brief(what):
        """Give all the money back. No more."""
'''
    )
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "_private.py").write_text(f'"""Keep this to yourself please. {LONG} Private."""\n')
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "thing.py").write_text(f'"""Test a thing of the shop. {LONG} Test."""\n')
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text(f'"""Wrap things up in paper. {LONG} Pack."""\n')
    collection = PythonDocsCollection("python-docs", tmp_path)
    assert collection.queries() == [
        Query("q:pack", "Wrap things up in paper."),
        Query("q:shop", "Run a shop, e.g. One for bread."),
        Query("q:shop.Till", "Count the money of one day."),
        Query("q:shop.Till.close", "Close the till until tomorrow morning"),
    ]
    assert list(collection.documents())[1:3] == [
        Document("shop", f"{LONG} And more.", "shop"),
        Document("shop.Till", f"{LONG} Till.", "shop.Till"),
    ]


def test_a_library_without_sources(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no documentation strings under .* without the sources"):
        PythonDocsCollection("python-docs", tmp_path).queries()
