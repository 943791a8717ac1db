"""An engine that answers from a function, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.prompts.named import PROMPTS
from instruct_distill.records import Document, Qrels, Query
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context

Q1 = Query("q1", "how to oil a bicycle chain")
Q2 = Query("q2", "when do ferries leave")
D1 = Document("d1", "Ferries leave the harbour every twenty minutes.", "Harbour ferries")
D2 = Document("d2", "Clean and oil the chain after wet rides.", "Bicycle chain care")
D3 = Document("d3", "Tomato plants need full sun and steady water.", "Growing tomatoes")
D4 = Document("d4", "Tides rise and fall twice a day along the coast.", "Tide tables")
D5 = Document("d5", "A drop of oil stops a hinge from squeaking.", "Squeaky hinges")
D6 = Document("d6", "")


class StubEngine:
    """Margin of the first answer: ``answer(question)``; the second answer's logit is 0."""

    def __init__(self, answer: Callable[[Question], float]) -> None:
        self.prompt = PROMPTS["pairwise-passage"]
        self.answer = answer
        self.asked: list[tuple[str, ...]] = []
        self.calls = 0

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        return np.array([[self._ask(question), 0.0] for question in questions], np.float32)

    def log_likelihood(self, questions: Sequence[Question]) -> FloatArray:
        return np.array([self._ask(question) for question in questions], np.float32)

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        raise AssertionError("nothing is to be written")

    def _ask(self, question: Question) -> float:
        self.asked.append((question.query.query_id, *(document.doc_id for document in question.documents)))
        return self.answer(question)


def parameters(**values: object) -> TeacherParameters:
    return TeacherParameters(**({"model": "stub"} | values))  # type: ignore[arg-type]


def context(query_ids: Sequence[str] = (), qrels: Qrels | None = None, seed: int = 13) -> Context:
    return Context(qrels=lambda: qrels, query_ids=lambda: list(query_ids), seed=seed)


def write(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    return str(path)
