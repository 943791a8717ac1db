from __future__ import annotations

import random

import pytest

from instruct_distill.evaluation import spans
from instruct_distill.evaluation.spans import SPAN, SpanTable, span_hashes, span_tables

WORDS = [f"w{i}" for i in range(40)]


def test_spans_are_equal_where_the_words_are() -> None:
    generator = random.Random(3)
    texts = [[generator.choice("ab") for _ in range(40)] for _ in range(20)]
    by_words: dict[tuple[str, ...], int] = {}
    for text in texts:
        hashes = span_hashes(text)
        assert len(hashes) == 40 - SPAN + 1
        for i, value in enumerate(hashes):
            assert by_words.setdefault(tuple(text[i : i + SPAN]), int(value)) == int(value)
    assert len(set(by_words.values())) == len(by_words) > 300


def test_the_order_of_words_matters_and_short_texts_have_no_span() -> None:
    assert span_hashes(WORDS[:13])[0] != span_hashes(WORDS[12::-1])[0]
    assert span_hashes(WORDS[:12]).size == 0
    assert span_hashes([]).size == 0


def test_the_first_shared_span_and_its_owner() -> None:
    table = SpanTable([span_hashes(WORDS[:20]), span_hashes(WORDS[5:30])], ["one", "two"])
    assert table.first_shared(span_hashes(["x", *WORDS[6:30]])) == ("one", 1)
    assert table.first_shared(span_hashes(WORDS[10:30])) == ("two", 0)
    assert table.first_shared(span_hashes(["x", *WORDS[6:18], "x"])) is None
    assert table.first_shared(span_hashes([])) is None


def test_tables_of_bounded_size_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [(str(i), [f"{i}-{j}" for j in range(30)]) for i in range(9)]
    monkeypatch.setattr(spans, "SPANS_IN_MEMORY", 40)
    tables = list(span_tables(texts))
    assert len(tables) == 3  # 18 spans a text: three texts fill a table
    for owner, words in texts:
        found = [table.first_shared(span_hashes(words)) for table in tables]
        assert [shared.owner for shared in found if shared] == [owner]
    assert list(span_tables([("short", WORDS[:5])])) == []
