"""What a pool's documents look like to rankers that know nothing of language: BM25 and popularity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instruct_distill.candidates.bm25 import open_engine
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.records import Query, Run, ScoredDocument
from instruct_distill.sources.collection import Collection


def baselines(
    collection: Collection, queries: Sequence[Query], run: Run, parameters: CandidateParameters
) -> dict[str, Run]:
    """Return the candidates ordered by BM25 and by popularity, where they are pools; else nothing.

    A pool's own order is random, so the first stage says nothing of what a ranker has to beat.
    """
    if parameters.method != "pool":
        return {}
    return {
        "bm25": by_bm25(collection, queries, run, parameters),
        "popularity": by_popularity(collection, run),
    }


def by_bm25(
    collection: Collection, queries: Sequence[Query], run: Run, parameters: CandidateParameters
) -> Run:
    """Return the lists of a run in BM25's order; what it does not find comes last, ties keep their order."""
    engine = open_engine(collection, parameters)
    size = sum(1 for _ in collection.documents())
    ordered: Run = {}
    for query in queries:
        scores = dict(engine.search(query.text, size))
        ordered[query.query_id] = _ordered(run.get(query.query_id, []), scores)
    return ordered


def by_popularity(collection: Collection, run: Run) -> Run:
    """Return the lists of a run by falling popularity; equal ones keep their order."""
    popularity = collection.popularity() or {}
    return {query_id: _ordered(documents, popularity) for query_id, documents in run.items()}


def _ordered(documents: Sequence[ScoredDocument], scores: Mapping[str, float]) -> list[ScoredDocument]:
    scored = [ScoredDocument(document.doc_id, scores.get(document.doc_id, 0.0)) for document in documents]
    return sorted(scored, key=lambda document: -document.score)
