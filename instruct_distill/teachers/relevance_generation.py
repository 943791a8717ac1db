"""Pointwise yes/no: "is this passage relevant?", one prompt a candidate.

arXiv 2311.01555, equation (2); the method is RG of arXiv 2211.09110.
"""

from __future__ import annotations

from collections.abc import Sequence

from instruct_distill.inference.engine import Question
from instruct_distill.inference.score_rules import relevance_generation_score
from instruct_distill.records import Document, ListLabel, Query
from instruct_distill.teachers.strategy import Steps, Strategy


class RelevanceGeneration(Strategy):
    """Scores a candidate 1 + p(Yes) if the model says Yes, else 1 − p(No): n prompts."""

    asks = "answer_logits"
    documents = 1
    default_prompt = "pointwise-passage"

    def prompts(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        return candidates

    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """See :class:`Strategy`."""
        answers = yield [Question(query, (document,)) for document in documents]
        scores = relevance_generation_score(answers)
        return ListLabel(query.query_id, tuple(d.doc_id for d in documents), tuple(map(float, scores)))


STRATEGY = RelevanceGeneration
