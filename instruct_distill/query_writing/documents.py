"""Which documents queries are written from: all of a collection's, in an order drawn by the seed."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator

from instruct_distill.records import Document
from instruct_distill.sources.collection import Collection


class DrawnDocuments:
    """A collection's documents in random order, those that are too short left out.

    The order depends on the seed and the document ids alone. Only some of them are in memory at a time; the
    collection is read again when they are used up.

    Args:
        collection: what is drawn from.
        seed: the recipe's seed.
        least_words: words of title and text that a document has at least.
        at_once: documents that one pass over the collection draws.

    Attributes:
        too_short: documents that were left out; known after the first one is drawn.
    """

    def __init__(self, collection: Collection, *, seed: int, least_words: int, at_once: int) -> None:
        self._collection, self._seed = collection, seed
        self._least_words, self._at_once = least_words, at_once
        self.too_short = 0

    def __iter__(self) -> Iterator[Document]:
        """Yield each document once."""
        last = b""
        while True:
            part = heapq.nsmallest(self._at_once, self._after(last))
            yield from (document for _, document in part)
            if len(part) < self._at_once:
                return
            last = part[-1][0]

    def _after(self, last: bytes) -> Iterator[tuple[bytes, Document]]:
        """Yield (lot, document) of those whose lot comes after another."""
        self.too_short = 0
        for document in self._collection.documents():
            if len(document.full_text.split()) < self._least_words:
                self.too_short += 1
                continue
            lot = hashlib.sha256(f"document\0{self._seed}\0{document.doc_id}".encode()).digest()
            if lot > last:
                yield lot, document
