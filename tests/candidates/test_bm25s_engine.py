from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from instruct_distill.candidates import retrieve
from instruct_distill.candidates.bm25s_engine import Bm25sEngine, open_engine, write_index
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.candidates.tokenise import Tokeniser
from tests.candidates.small_collection import SmallCollection, asked

TEXTS = ["A red kite", "Blue Kite festival", "winter boots", "東京の天気"]


def test_b02_a_new_process_reads_the_index_and_finds_the_same(tmp_path: Path) -> None:
    write_index(enumerate_texts(), tmp_path, Tokeniser(stemmer=None), k1=0.9, b=0.4)
    code = (
        "import sys, json; from pathlib import Path;"
        "from instruct_distill.candidates.bm25s_engine import Bm25sEngine;"
        "engine = Bm25sEngine(Path(sys.argv[1]));"
        "print(json.dumps([engine.search(text, 10) for text in sys.argv[2:]]))"
    )
    queries = ["blue, KITE!", "天気", "kites"]
    output = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), *queries], check=True, capture_output=True, text=True
    ).stdout
    here = Bm25sEngine(tmp_path)
    assert json.loads(output) == [[list(found) for found in here.search(text, 10)] for text in queries]
    assert [found.doc_id for found in here.search("blue, KITE!", 10)] == ["n°2", "n°1"]
    assert here.search("kites", 10) == []  # the stored tokeniser does not stem


def enumerate_texts() -> list[tuple[str, str]]:
    return [(f"n°{number}", text) for number, text in enumerate(TEXTS, start=1)]


def test_the_index_is_read_by_memory_map(tmp_path: Path) -> None:
    write_index(enumerate_texts(), tmp_path, Tokeniser(), k1=0.9, b=0.4)
    engine = Bm25sEngine(tmp_path)
    assert isinstance(engine._bm25.scores["data"], np.memmap)
    assert isinstance(engine._bm25.scores["indices"], np.memmap)
    assert isinstance(engine._ids, np.memmap)


def test_the_second_search_builds_nothing(cache: Path) -> None:
    texts = SmallCollection(TEXTS)
    first = retrieve(texts, asked("kite"), CandidateParameters())
    assert texts.readings == 1
    assert retrieve(texts, asked("kite"), CandidateParameters()) == first
    assert texts.readings == 1
    assert len(os.listdir(cache / "bm25")) == 1


@pytest.mark.parametrize("other", [{"k1": 1.2}, {"b": 0.75}, {"stemmer": None}, {"stop_words": "none"}])
def test_other_settings_are_another_index(cache: Path, other: dict[str, object]) -> None:
    texts = SmallCollection(TEXTS)
    retrieve(texts, asked("kite"), CandidateParameters())
    retrieve(texts, asked("kite"), CandidateParameters(**other))
    assert texts.readings == 2
    assert len(os.listdir(cache / "bm25")) == 2


def test_other_documents_are_another_index() -> None:
    assert retrieve(SmallCollection(["red kite"]), asked("kite"), CandidateParameters())["q1"] != []
    assert retrieve(SmallCollection(["red hose"]), asked("kite"), CandidateParameters())["q1"] == []


def test_depth_does_not_touch_the_index(cache: Path) -> None:
    texts = SmallCollection(TEXTS)
    retrieve(texts, asked("kite"), CandidateParameters(depth=1))
    retrieve(texts, asked("kite"), CandidateParameters(depth=2, drop_self=True))
    assert texts.readings == 1


def test_a_build_that_fails_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("instruct_distill.candidates.bm25s_engine.write_json", stop)
        with pytest.raises(OSError, match="disk full"):
            open_engine(SmallCollection(TEXTS), Tokeniser(), 0.9, 0.4)
    assert os.listdir(cache / "bm25") == []
    assert len(open_engine(SmallCollection(TEXTS), Tokeniser(), 0.9, 0.4).search("kite", 5)) == 2
