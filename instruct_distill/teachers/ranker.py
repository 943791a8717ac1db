"""A teacher as a reranker: slow, but what the student is measured against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instruct_distill.inference.engine import Engine, FloatArray
from instruct_distill.labels import LabelStore, read_labels
from instruct_distill.records import Document, Query, RankedDocument
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk
from instruct_distill.teachers.strategy import Strategy


class StrategyRanker:
    """Ranks by asking a teacher on the spot; :class:`TeacherRanker` also writes its labels down.

    Args:
        strategy: how candidates are compared.
        engine: what answers, or None for a strategy that asks nothing.
    """

    def __init__(self, strategy: Strategy, engine: Engine | None) -> None:
        self._strategy, self._engine = strategy, engine
        self._queries = self._prompts = 0

    @property
    def prompts_a_query(self) -> float:
        """The mean number of prompts asked for a query so far; 0 before the first."""
        return self._prompts / self._queries if self._queries else 0.0

    def rank(self, query: Query, documents: Sequence[Document]) -> list[RankedDocument]:
        """Return all documents, best first; equal scores keep the order given."""
        before = getattr(self._engine, "asked", 0)
        (label,) = label_chunk(self._strategy, self._engine, [CandidateTexts(query, tuple(documents))])
        self._queries += 1
        self._prompts += getattr(self._engine, "asked", 0) - before
        return _ranking(_float32(label.scores), documents)


class TeacherRanker:
    """Ranks by the teacher's labels; every label is written down, and none is asked for twice.

    Args:
        strategy: how candidates are compared.
        engine: what answers, or None for a strategy that asks nothing.
        store: where labels go; each query is a chunk of its own.
    """

    def __init__(self, strategy: Strategy, engine: Engine | None, store: LabelStore) -> None:
        self._strategy, self._engine, self._store = strategy, engine, store
        # of a label the scores only: at depth 100 the comparisons of all pairs are a megabyte a query
        self._known = {label.query_id: _float32(label.scores) for label in read_labels(store.path)}
        self._chunk_of = {chunk[0]: number for number, chunk in enumerate(store.chunks)}

    def rank(self, query: Query, documents: Sequence[Document]) -> list[RankedDocument]:
        """Return all documents, best first; equal scores keep the order given."""
        if query.query_id not in self._known:
            self._ask(query, documents)
        return _ranking(self._known[query.query_id], documents)

    def _ask(self, query: Query, documents: Sequence[Document]) -> None:
        (label,) = label_chunk(self._strategy, self._engine, [CandidateTexts(query, tuple(documents))])
        self._store.append(self._chunk_of[query.query_id], [label])
        self._known[query.query_id] = _float32(label.scores)


def _float32(scores: Sequence[float]) -> FloatArray:
    return np.array(scores, dtype=np.float32)


def _ranking(scores: FloatArray, documents: Sequence[Document]) -> list[RankedDocument]:
    """Return the documents, best first; equal scores keep the order given."""
    return [
        RankedDocument(int(i), documents[i].doc_id, float(scores[i]), rank, documents[i].full_text)
        for rank, i in enumerate(np.argsort(-scores, kind="stable"), start=1)
    ]
