"""A collection in memory, for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from instruct_distill.records import Document, Query, Run
from instruct_distill.sources.collection import Collection


class SmallCollection(Collection):
    """Texts with ids d1, d2, ... or documents; perhaps lists of its own."""

    def __init__(self, documents: Sequence[str | Document], lists: Run | None = None) -> None:
        super().__init__("small")
        self._documents = [
            Document(f"d{number}", document) if isinstance(document, str) else document
            for number, document in enumerate(documents, start=1)
        ]
        self._lists = lists
        self.readings = 0

    def queries(self, split: str | None = None) -> list[Query]:
        return []

    def documents(self) -> Iterator[Document]:
        self.readings += 1
        yield from self._documents

    def given(self) -> Run | None:
        return self._lists

    def fingerprint(self) -> str:
        return hashlib.sha256(repr(self._documents).encode()).hexdigest()


def asked(*texts: str) -> list[Query]:
    """Queries with the ids q1, q2, ..."""
    return [Query(f"q{number}", text) for number, text in enumerate(texts, start=1)]
