from __future__ import annotations

import pytest
from langchain_core.documents import Document

from instruct_distill.integrations.langchain import RerankCompressor
from instruct_distill.reranker import Reranker

TEXTS = ["It is a test.", "Nothing of the kind.", "A test, it is."]


def test_the_best_documents_with_their_scores(reranker: Reranker) -> None:
    documents = [
        Document(page_content=text, metadata={"place": i}, id=str(i)) for i, text in enumerate(TEXTS)
    ]
    found = RerankCompressor(reranker=reranker, top_n=2).compress_documents(documents, "what is it")
    expected = reranker.rank("what is it", TEXTS, top_k=2)
    assert [document.metadata["place"] for document in found] == [item.index for item in expected]
    assert [document.id for document in found] == [str(item.index) for item in expected]
    assert [document.metadata["relevance_score"] for document in found] == pytest.approx(
        [item.score for item in expected], abs=1e-4
    )
    assert "relevance_score" not in documents[0].metadata
    assert RerankCompressor(reranker=reranker).compress_documents([], "q") == []
