"""LangChain: a document compressor for ``ContextualCompressionRetriever``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict

from instruct_distill.reranker import LongDocuments, Reranker


class RerankCompressor(BaseDocumentCompressor):
    """Keeps the best documents of a query, best first, with ``relevance_score`` in their metadata.

    Args:
        reranker: the student.
        top_n: how many to keep; all if None.
        long_documents: as for :meth:`Reranker.score`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    reranker: Reranker
    top_n: int | None = 3
    long_documents: LongDocuments = "first"

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        """Return copies of the best documents; those that were given stay as they are."""
        texts = [document.page_content for document in documents]
        return [
            Document(
                page_content=documents[item.index].page_content,
                metadata={**documents[item.index].metadata, "relevance_score": item.score},
                id=documents[item.index].id,
            )
            for item in self.reranker.rank(query, texts, self.top_n, long_documents=self.long_documents)
        ]
