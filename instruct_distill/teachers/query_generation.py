"""How likely is the query, written after the passage? One prompt a candidate (UPR, arXiv 2204.07496)."""

from __future__ import annotations

from collections.abc import Sequence

from instruct_distill.inference.engine import Question
from instruct_distill.records import Document, ListLabel, Query
from instruct_distill.teachers.strategy import Steps, Strategy


class QueryGeneration(Strategy):
    """Scores a candidate with the mean log-probability of the query's tokens: n prompts.

    It needs no instruction-following to speak of, so it works with models far too small to compare passages.
    """

    asks = "log_likelihood"
    documents = 1
    default_prompt = "query-generation"

    def prompts(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        return candidates

    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """See :class:`Strategy`."""
        scores = yield [Question(query, (document,)) for document in documents]
        return ListLabel(query.query_id, tuple(d.doc_id for d in documents), tuple(map(float, scores)))


STRATEGY = QueryGeneration
