"""The most popular documents, whatever is asked: the first stage of a recommender that knows nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.errors import InputError
from instruct_distill.records import Query, Run, ScoredDocument
from instruct_distill.sources.collection import Collection


def candidates(collection: Collection, queries: Sequence[Query], parameters: CandidateParameters) -> Run:
    """Return for each query the ``depth`` most popular documents that the collection does not exclude for it.

    Equally popular ones keep the collection's order.

    Raises:
        InputError: the collection has no popularity.
    """
    popularity = popularity_of(collection, "popular")
    ordered = sorted(popularity, key=lambda doc_id: -popularity[doc_id])
    run: Run = {}
    for query in queries:
        excluded = collection.excluded(query.query_id)
        usable = (doc_id for doc_id in ordered if doc_id not in excluded)
        run[query.query_id] = [
            ScoredDocument(doc_id, popularity[doc_id])
            for doc_id, _ in zip(usable, range(parameters.depth), strict=False)
        ]
    return run


def popularity_of(collection: Collection, method: str) -> Mapping[str, float]:
    """Return document id → popularity.

    Raises:
        InputError: the collection has none.
    """
    popularity = collection.popularity()
    if popularity is None:
        raise InputError(
            f"{collection.name}: its documents carry no popularity, which method {method} needs; use bm25, "
            "or a run file with lists made elsewhere"
        )
    return popularity
