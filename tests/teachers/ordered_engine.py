"""An engine that knows the right order of documents d0, d1, ..., and may be of a kind that misuses it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from instruct_distill.errors import NonFiniteScoreError
from instruct_distill.inference.engine import Engine, FloatArray, Question
from instruct_distill.prompts.named import PROMPTS
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.records import Document, ListLabel, Query
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk, strategy_of
from instruct_distill.teachers.strategy import Strategy
from tests.teachers.stub_engine import context, parameters

QUERY = Query("q1", "which is best")

Logits = Callable[[list[int]], list[float]]
"""Places of the documents shown in the right order (0 is best) → logits of their labels."""


def right(places: list[int]) -> list[float]:
    return [-float(place) for place in places]


def always_first(places: list[int]) -> list[float]:
    return [1.0] + [0.0] * (len(places) - 1)


def right_where_the_best_is_first(places: list[int]) -> list[float]:
    """No preference where the best one is not shown first."""
    return right(places) if places[0] == min(places) else [0.0] * len(places)


def broken(places: list[int]) -> list[float]:
    return [float("nan") if 3 in places else -float(place) for place in places]


def without_sense(seed: int) -> Logits:
    numbers = random.Random(seed)
    return lambda places: [float(numbers.randrange(3)) for _ in places]


class OrderedEngine:
    """Answers by ``logits`` of the places in ``order``; NaN is an error, as with every engine."""

    def __init__(self, order: Sequence[int], logits: Logits = right) -> None:
        self.prompt: Prompt = PROMPTS["setwise-passage"]
        self.logits = logits
        self.place = {f"d{item}": place for place, item in enumerate(order)}
        self.asked: list[tuple[str, ...]] = []
        self.rounds = 0

    def places(self, question: Question) -> list[int]:
        self.asked.append(tuple(document.doc_id for document in question.documents))
        return [self.place[document.doc_id] for document in question.documents]

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        self.rounds += 1
        rows = [self.logits(self.places(question)) for question in questions]
        width = max(map(len, rows))
        padded = [row + [-np.inf] * (width - len(row)) for row in rows]
        if any(np.isnan(value) for row in rows for value in row):
            raise NonFiniteScoreError("the model answered nan")
        return np.array(padded, np.float32)

    def log_likelihood(self, questions: Sequence[Question]) -> FloatArray:
        raise AssertionError("nobody asks for it")

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        raise AssertionError("nobody asks for it")


def documents(n: int) -> tuple[Document, ...]:
    return tuple(Document(f"d{i}", f"text {i}") for i in range(n))


def strategy(name: str, seed: int = 13, **keys: object) -> Strategy:
    chosen = {"name": name, **keys} if keys else name
    teacher = parameters(strategy=chosen)
    return strategy_of(teacher, context(seed=seed))


def label(chosen: Strategy, engine: Engine, n: int, query: Query = QUERY) -> ListLabel:
    (found,) = label_chunk(chosen, engine, [CandidateTexts(query, documents(n))])
    return found


def ranking(found: ListLabel) -> list[int]:
    """Positions, best first; equal scores in first-stage order."""
    return sorted(range(len(found.scores)), key=lambda i: (-found.scores[i], i))


def shuffled(n: int, seed: int) -> list[int]:
    order = list(range(n))
    random.Random(seed).shuffle(order)
    return order


def best_k(order: Sequence[int], k: int) -> list[int]:
    """The best k in the right order, then all others as the first stage has them."""
    return [*order[:k], *sorted(order[k:])]
