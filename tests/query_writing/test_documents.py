from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from instruct_distill.query_writing.documents import DrawnDocuments
from instruct_distill.records import Document, Query
from instruct_distill.sources.collection import Collection


class Corpus(Collection):
    def __init__(self, documents: list[Document]) -> None:
        super().__init__("corpus")
        self._documents = documents
        self.passes = 0

    def queries(self, split: str | None = None) -> list[Query]:
        raise AssertionError("nobody needs them")

    def documents(self) -> Iterator[Document]:
        self.passes += 1
        return iter(self._documents)

    def fingerprint(self) -> str:
        return ""


LONG = [Document(f"d{i}", "one two three four") for i in range(20)]
SHORT = [Document("e1", ""), Document("e2", " \n\t"), Document("e3", "one two three")]


def drawn(corpus: Corpus, *, seed: int = 13, at_once: int = 100) -> DrawnDocuments:
    return DrawnDocuments(corpus, seed=seed, least_words=4, at_once=at_once)


def ids(documents: DrawnDocuments) -> list[str]:
    return [document.doc_id for document in documents]


@pytest.mark.parametrize(("at_once", "passes"), [(100, 1), (21, 1), (20, 2), (7, 3), (1, 21)])
def test_the_order_does_not_depend_on_how_many_are_held(at_once: int, passes: int) -> None:
    whole = ids(drawn(Corpus(LONG)))
    assert sorted(whole) == sorted(document.doc_id for document in LONG)
    assert whole != [document.doc_id for document in LONG]
    corpus = Corpus([*SHORT, *LONG[::-1]])
    documents = drawn(corpus, at_once=at_once)
    assert ids(documents) == whole
    assert (corpus.passes, documents.too_short) == (passes, 3)


def test_the_seed_decides() -> None:
    assert ids(drawn(Corpus(LONG))) == ids(drawn(Corpus(LONG)))
    assert ids(drawn(Corpus(LONG))) != ids(drawn(Corpus(LONG), seed=14))


def test_a_title_counts() -> None:
    assert ids(drawn(Corpus([Document("d", "two three four", "one"), Document("e", "", "one")]))) == ["d"]


def test_only_what_is_needed_is_read() -> None:
    corpus = Corpus(LONG)
    assert len(list(islice(drawn(corpus, at_once=5), 5))) == 5
    assert corpus.passes == 1
