"""Haystack: a ranker component for pipelines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from instruct_distill.reranker import LongDocuments, Reranker


@component
class StudentRanker:
    """Ranks documents for a query.

    Args:
        model: a student's folder or hub id.
        top_k: how many to return; all if None.
        long_documents: as for :meth:`Reranker.score`.
    """

    def __init__(self, model: str, top_k: int | None = None, long_documents: LongDocuments = "first") -> None:
        self.model, self.top_k, self.long_documents = model, top_k, long_documents
        self._reranker: Reranker | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what a pipeline writes down of this component."""
        found: dict[str, Any] = default_to_dict(
            self, model=self.model, top_k=self.top_k, long_documents=self.long_documents
        )
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StudentRanker:
        """Make the component from what a pipeline wrote down."""
        made: StudentRanker = default_from_dict(cls, data)
        return made

    def warm_up(self) -> None:
        """Load the weights, once."""
        if self._reranker is None:
            self._reranker = Reranker.from_pretrained(self.model)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return the documents, best first, with their new scores; those that were given stay as they are."""
        self.warm_up()
        assert self._reranker is not None
        texts = [document.content or "" for document in documents]
        ranked = self._reranker.rank(
            query, texts, self.top_k if top_k is None else top_k, long_documents=self.long_documents
        )
        return {"documents": [replace(documents[item.index], score=item.score) for item in ranked]}
