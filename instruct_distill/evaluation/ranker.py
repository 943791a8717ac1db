"""Candidate lists put through a ranker, one query after the other, with the time that each took."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from tqdm import tqdm

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.evaluation.memory import device_peak, process_peak
from instruct_distill.records import Document, Query, RankedDocument, Run, ScoredDocument


class Ranker(Protocol):
    """Anything that orders the documents of one query: a student, a teacher, somebody else's model."""

    def rank(self, query: Query, documents: Sequence[Document]) -> Sequence[RankedDocument]:
        """Return every document once, with its score; ``index`` is the position in ``documents``."""


class RerankedList(NamedTuple):
    """One query's candidates after reranking.

    Args:
        query_id: the query.
        documents: all of its candidates, best first.
        reranked: how many of them the ranker scored; the others follow below.
        seconds: wall time of the ranker.
    """

    query_id: str
    documents: list[ScoredDocument]
    reranked: int
    seconds: float


class Timing(NamedTuple):
    """What reranking took.

    Args:
        queries: number of queries that the ranker was asked about.
        median: seconds a query; the first query, which warms up, does not weigh on it.
        mean: seconds a query.
        documents_per_second: over all queries.
        process_peak_bytes: the most memory that the process has held since its start, whatever for.
        device_peak_bytes: the most that its tensors have held on the GPU since its start; 0 without one.
    """

    queries: int
    median: float
    mean: float
    documents_per_second: float
    process_peak_bytes: int = 0
    device_peak_bytes: int = 0


def rerank(
    ranker: Ranker,
    queries: Iterable[Query],
    candidates: Run,
    documents: Mapping[str, Document],
    *,
    depth: int | None = None,
    name: str = "rerank",
) -> Iterator[RerankedList]:
    """Rerank the first ``depth`` candidates of each query, and yield each list as soon as it is there.

    Candidates below the depth follow the reranked ones, in their order, with strictly lower scores (in
    single precision). Candidates of equal score keep the first stage's order. Queries without a list in
    ``candidates`` are left out. Inputs are checked before the first list is asked for.

    Args:
        ranker: what orders the documents.
        queries: the queries to go through; the caller leaves out those that it has already.
        candidates: first-stage lists, best first.
        documents: document id → document.
        depth: candidates of each query that the ranker sees; None for all of them.
        name: shown at the progress bar (which shows on a terminal only).

    Raises:
        InputError: the depth is below 1, a document is not in ``documents``, or the ranker does not return
            every document once.
        NonFiniteScoreError: the ranker returned NaN or infinity.
    """
    if depth is not None and depth < 1:
        raise InputError(f"depth {depth} was given; expected 1 or more, or none for all candidates")
    chosen = [query for query in queries if query.query_id in candidates]
    for query in chosen:
        for candidate in candidates[query.query_id][:depth]:
            if candidate.doc_id not in documents:
                raise InputError(
                    f"query {query.query_id}: candidate {candidate.doc_id} is not in the collection; "
                    "give the collection that the candidates were retrieved from"
                )
    return (
        _rerank_one(ranker, query, candidates[query.query_id], documents, depth)
        for query in tqdm(chosen, desc=name, unit="query", disable=None)
    )


def run_of(lists: Iterable[RerankedList]) -> Run:
    """Return the run that these lists make."""
    return {item.query_id: item.documents for item in lists}


def timing_of(lists: Iterable[RerankedList]) -> Timing | None:
    """Return what these lists took, or None where the ranker was never asked."""
    asked = [item for item in lists if item.reranked]
    seconds = [item.seconds for item in asked]
    total = math.fsum(seconds)
    if not total:
        return None
    return Timing(
        queries=len(asked),
        median=statistics.median(seconds),
        mean=total / len(asked),
        documents_per_second=sum(item.reranked for item in asked) / total,
        process_peak_bytes=process_peak(),
        device_peak_bytes=device_peak(),
    )


def _rerank_one(
    ranker: Ranker,
    query: Query,
    candidates: Sequence[ScoredDocument],
    documents: Mapping[str, Document],
    depth: int | None,
) -> RerankedList:
    head = [candidate.doc_id for candidate in candidates[:depth]]
    if not head:
        return RerankedList(query.query_id, [], 0, 0.0)
    texts = [documents[doc_id] for doc_id in head]
    start = time.perf_counter()
    ranked = ranker.rank(query, texts)
    seconds = time.perf_counter() - start
    if sorted(item.index for item in ranked) != list(range(len(head))):
        raise InputError(
            f"query {query.query_id}: the ranker was given {len(head)} documents and returned {len(ranked)} "
            "entries; expected each document once"
        )
    scores = np.empty(len(head), dtype=np.float32)
    for item in ranked:
        if not math.isfinite(item.score):
            raise NonFiniteScoreError(
                f"query {query.query_id}, document {head[item.index]}: score {item.score}"
            )
        scores[item.index] = item.score
    # Stable on the negated scores: documents of equal score stay in the first stage's order.
    order = np.argsort(-scores, kind="stable")
    result = [ScoredDocument(head[i], float(scores[i])) for i in order]
    lowest = scores[order[-1]]
    for candidate in candidates[len(head) :]:
        # One less is no less for a large score in single precision; then the next number below is.
        lowest = min(lowest - np.float32(1), np.nextafter(lowest, np.float32(-np.inf)))
        result.append(ScoredDocument(candidate.doc_id, float(lowest)))
    return RerankedList(query.query_id, result, len(head), seconds)
