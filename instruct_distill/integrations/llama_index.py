"""LlamaIndex: a node postprocessor for query engines and retrievers."""

from __future__ import annotations

from typing import Any

from llama_index.core.bridge.pydantic import Field
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from instruct_distill.errors import InputError
from instruct_distill.reranker import LongDocuments, Reranker


class RerankPostprocessor(BaseNodePostprocessor):
    """Keeps the best nodes of a query, best first, with their new scores.

    Args:
        reranker: the student.
        top_n: how many to keep; all if None.
        long_documents: as for :meth:`Reranker.score`.
    """

    reranker: Any = Field(exclude=True)
    top_n: int | None = 5
    long_documents: LongDocuments = "first"

    def __init__(self, reranker: Reranker, **settings: Any) -> None:
        fields: dict[str, Any] = {"reranker": reranker, **settings}
        super().__init__(**fields)

    @classmethod
    def class_name(cls) -> str:
        """Return the name by which LlamaIndex knows this postprocessor."""
        return "RerankPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InputError("nodes cannot be ranked without a query; give query_bundle or query_str")
        texts = [node.node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]
        ranked = self.reranker.rank(
            query_bundle.query_str, texts, self.top_n, long_documents=self.long_documents
        )
        return [NodeWithScore(node=nodes[item.index].node, score=item.score) for item in ranked]
