from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.sources import open_collection, prefixes


def test_a_member_is_found_by_its_file_name() -> None:
    assert {"beir", "files", "irds", "python-docs", "rankgpt"} <= set(prefixes())
    assert not {"collection", "fingerprint", "parameters", "qrels", "queries", "record-fields"} & set(
        prefixes()
    )


def test_every_member_opens_collections() -> None:
    from instruct_distill.sources import SOURCES

    for name in SOURCES.names():
        assert callable(SOURCES.load(name).open_collection)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bier:somewhere", r"unknown prefix 'bier'; did you mean 'beir'\?.*known prefixes: beir, files"),
        ("python_docs", r"did you mean 'python-docs'\?"),
        ("data/example/beir", r"expected PREFIX:LOCATION"),
        ("", r"unknown prefix ''"),
        ("python-docs:3.11", r"write python-docs alone"),
        ("beir", r"write beir:FOLDER"),
        ("files:", r"write files:FOLDER"),
        ("rankgpt:nowhere.json", r"no file 'nowhere.json'"),
        ("irds:vaswanni", r"no data set 'vaswanni'; did you mean 'vaswani'\?"),
    ],
)
def test_names_that_cannot_be_opened(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_collection(name)


def test_a_location_may_hold_colons(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id":"d1","text":"x"}\n')
    (folder / "queries.jsonl").write_text('{"_id":"q1","text":"y"}\n')
    collection = open_collection(f"beir:{folder}")
    assert collection.name == f"beir:{folder}"
    assert [document.doc_id for document in collection.documents()] == ["d1"]


def test_opening_imports_neither_torch_nor_ir_datasets() -> None:
    program = (
        "import sys; from instruct_distill.sources import SOURCES, queries\n"
        "for name in SOURCES.names(): SOURCES.load(name)\n"
        "print(sorted({'torch', 'transformers', 'ir_datasets'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
