"""Pointwise yes/no: "is this passage relevant?", one prompt a candidate.

arXiv 2311.01555, equation (2); the method is RG of arXiv 2211.09110.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from instruct_distill.inference.engine import Question
from instruct_distill.inference.score_rules import relevance_generation_score, student_score
from instruct_distill.records import Document, ListLabel, Query
from instruct_distill.schema import parameters
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context, Steps, Strategy


@parameters
class Parameters:
    """What the strategy is told in a recipe."""

    score: Literal["equation_2", "yes_logit", "yes_minus_no"] = "equation_2"
    """The paper's equation (2), or a student's rule: the logit of Yes, or its difference to that of No."""


class RelevanceGeneration(Strategy):
    """Scores a candidate 1 + p(Yes) if the model says Yes, else 1 − p(No), or by a student's rule."""

    asks = "answer_logits"
    documents = 1
    default_prompt = "pointwise-passage"

    def __init__(self, parameters: TeacherParameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._score = parameters.strategy_section(Parameters).score

    def prompts(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        return candidates

    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """See :class:`Strategy`."""
        answers = yield [Question(query, (document,)) for document in documents]
        if self._score == "equation_2":
            scores = relevance_generation_score(answers)
        else:
            scores = student_score(answers, self._score)
        return ListLabel(query.query_id, tuple(d.doc_id for d in documents), tuple(map(float, scores)))


STRATEGY = RelevanceGeneration
