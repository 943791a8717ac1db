"""What a collection is, whatever it was read from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Qrels, Query, Run
from instruct_distill.registry import nearest


class Collection(ABC):
    """Queries, documents and perhaps judgements and candidate lists, from one source.

    Args:
        name: as it stands in a recipe, prefix included (``beir:data/example/beir``).
    """

    has_every_document = True
    """Whether a document that is not among :meth:`documents` cannot be found by anybody; False for lists that
    bring the texts of their candidates alone."""

    def __init__(self, name: str) -> None:
        self.name = name

    def splits(self) -> tuple[str, ...]:
        """Names of the query splits; empty for a collection that has no splits."""
        return ()

    @abstractmethod
    def queries(self, split: str | None = None) -> list[Query]:
        """Return the queries of a split in the source's order; all of them for ``all`` or None."""

    @abstractmethod
    def documents(self) -> Iterator[Document]:
        """Yield every document in the source's order; memory does not grow with the collection."""

    def pick(self, doc_ids: Iterable[str]) -> Iterator[Document]:
        """Yield the documents of these ids, in any order; ids that the collection lacks are passed over."""
        wanted = set(doc_ids)
        if wanted:
            for document in self.documents():
                if document.doc_id in wanted:
                    yield document
                    wanted.remove(document.doc_id)
                    if not wanted:
                        return

    def fetch(self, doc_ids: Iterable[str]) -> dict[str, Document]:
        """Return the documents of these ids; ids that the collection lacks are not in the result."""
        return {document.doc_id: document for document in self.pick(doc_ids)}

    def qrels(self, split: str | None = None) -> Qrels | None:
        """Return the judgements of a split, or None where the source has none."""
        return None

    def given(self) -> Run | None:
        """Return the candidate lists that the collection brings, or None."""
        return None

    def popularity(self) -> dict[str, float] | None:
        """Return document id → how often it was chosen, for every document, or None where nobody counted."""
        return None

    def popularity_source(self) -> str | None:
        """Return what was counted for the popularity, in words for a result's reader, or None."""
        return None

    def excluded(self, query_id: str) -> frozenset[str]:
        """Return the documents that must not be candidates of a query, such as those that it names itself."""
        return frozenset()

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hex digest that changes when the source's documents change, without reading them all."""

    def no_queries(self, files: str) -> InputError:
        """Return the error of a collection that was asked for queries and has none."""
        return InputError(
            f"{self.name}: no queries (there is no {files}); to train without queries of your own, have a "
            "model write some: queries: {generate: 1000, model: ...}"
        )

    def check_split(self, split: str | None) -> str | None:
        """Return the split as it is.

        Raises:
            InputError: the collection has no such split; the message lists those that it has.
        """
        known = self.splits()
        if split is None or split == "all" or split in known:
            return split
        if not known:
            raise InputError(
                f"{self.name} has no splits, but split {split!r} was asked for; leave 'split' out"
            )
        raise InputError(
            f"{self.name} has no split {split!r}{nearest(split, known)} (it has: {', '.join(known)}, all)"
        )
