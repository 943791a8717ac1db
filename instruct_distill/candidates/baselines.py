"""What a recommender has to beat: rankers that know nothing of language, BM25 and popularity."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from instruct_distill.candidates import retrieve
from instruct_distill.candidates.bm25 import open_engine
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.records import Query, Run, ScoredDocument
from instruct_distill.sources.collection import Collection

SEARCHES = ("bm25", "popular")
"""Methods whose lists come from all documents; the lists of other methods are what there is to order."""


def baselines(
    collection: Collection, queries: Sequence[Query], run: Run, parameters: CandidateParameters
) -> dict[str, Run]:
    """Return rankings by BM25 and by popularity, where documents carry a popularity; else nothing.

    Pools and lists made elsewhere are put into these orders: their own order may be random, and then the
    first stage says nothing of what a ranker has to beat. Where candidates are searched among all documents,
    so are the baselines', and the one that is the first stage itself is left out.

    Args:
        collection: the documents.
        queries: what is asked.
        run: the candidates.
        parameters: how they were found.
    """
    if collection.popularity() is None:
        return {}
    if parameters.method not in SEARCHES:
        return {
            "bm25": by_bm25(collection, queries, run, parameters),
            "popularity": by_popularity(collection, run),
        }
    return {
        name: retrieve(collection, queries, dataclasses.replace(parameters, method=method))
        for name, method in (("bm25", "bm25"), ("popularity", "popular"))
        if method != parameters.method
    }


def orderable(
    collection: Collection, query_ids: Iterable[str], run: Run, parameters: CandidateParameters
) -> Iterator[tuple[str, list[str]]]:
    """Yield query id and the ids that a ranker may order: all documents, or those of lists that are given."""
    if parameters.method not in SEARCHES:
        for query_id, ranked in run.items():
            yield query_id, [document.doc_id for document in ranked]
        return
    everything = [document.doc_id for document in collection.documents()]
    for query_id in query_ids:
        excluded = collection.excluded(query_id)
        yield query_id, [doc_id for doc_id in everything if doc_id not in excluded]


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
