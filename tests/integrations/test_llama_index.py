from __future__ import annotations

import pytest
from llama_index.core.schema import NodeWithScore, TextNode

from instruct_distill.errors import InputError
from instruct_distill.integrations.llama_index import RerankPostprocessor
from instruct_distill.reranker import Reranker

TEXTS = ["It is a test.", "Nothing of the kind.", "A test, it is."]


def test_the_best_nodes_with_their_scores(reranker: Reranker) -> None:
    nodes = [NodeWithScore(node=TextNode(text=text, id_=str(i)), score=0.1) for i, text in enumerate(TEXTS)]
    found = RerankPostprocessor(reranker, top_n=2).postprocess_nodes(nodes, query_str="what is it")
    expected = reranker.rank("what is it", TEXTS, top_k=2)
    assert [node.node.node_id for node in found] == [str(item.index) for item in expected]
    assert [node.score for node in found] == pytest.approx([item.score for item in expected], abs=1e-4)
    assert [node.score for node in nodes] == [0.1] * 3


def test_without_a_query(reranker: Reranker) -> None:
    with pytest.raises(InputError, match="without a query"):
        RerankPostprocessor(reranker).postprocess_nodes([NodeWithScore(node=TextNode(text="x"))])
