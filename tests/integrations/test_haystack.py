from __future__ import annotations

from pathlib import Path

import pytest
from haystack import Document, Pipeline

from instruct_distill.integrations.haystack import StudentRanker
from instruct_distill.reranker import Reranker

TEXTS = ["It is a test.", "Nothing of the kind.", "A test, it is."]


def test_in_a_pipeline_that_was_written_down(served: Path) -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", StudentRanker(str(served), top_k=2))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=[StudentRanker.__module__])
    documents = [Document(content=text, meta={"place": i}) for i, text in enumerate(TEXTS)]
    found = again.run({"ranker": {"query": "what is it", "documents": documents}})["ranker"]["documents"]
    expected = Reranker.from_pretrained(served).rank("what is it", TEXTS, top_k=2)
    assert [document.meta["place"] for document in found] == [item.index for item in expected]
    assert [document.score for document in found] == pytest.approx(
        [item.score for item in expected], abs=1e-4
    )
    assert documents[0].score is None
    three = again.run({"ranker": {"query": "what is it", "documents": documents, "top_k": 3}})
    assert len(three["ranker"]["documents"]) == 3
