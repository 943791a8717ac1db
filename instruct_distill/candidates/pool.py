"""Small pools for recommendation: what was recommended, what BM25 finds, and what is popular.

The pool of arXiv 2311.01555 for ReDial: the movie that was recommended, BM25's top 5 and 4 popular movies.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Iterable, Mapping, Sequence

from tqdm import tqdm

from instruct_distill.candidates.bm25 import open_engine
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.candidates.popular import popularity_of
from instruct_distill.errors import InputError
from instruct_distill.records import Query, Run, ScoredDocument
from instruct_distill.sources.collection import Collection

logger = logging.getLogger(__name__)


def candidates(collection: Collection, queries: Sequence[Query], parameters: CandidateParameters) -> Run:
    """Return a pool for each query, whole whatever the depth, in an order that says nothing.

    A pool has the query's relevant documents (``with_target``), the best ``bm25`` others that BM25 finds, and
    ``popular`` drawn without replacement, in proportion to popularity, from those above ``popular_above``.
    Where BM25 finds fewer, more popular ones are drawn; where not enough are above, the rest is drawn from.
    Documents that the collection excludes for a query are in none of its parts. Draws and order depend on the
    seed, the query's id and the documents' ids alone.

    Raises:
        InputError: the collection has no popularity or no judgements, a query has no relevant document, or
            there are fewer documents than a pool needs.
    """
    popularity = popularity_of(collection, "pool")
    popular = [doc_id for doc_id, count in popularity.items() if count > parameters.popular_above]
    qrels = (collection.qrels() or {}) if parameters.with_target else {}
    engine = open_engine(collection, parameters) if parameters.bm25 else None
    run: Run = {}
    short = rare = 0
    for query in tqdm(queries, desc="pool", unit=" queries", disable=None):
        excluded = collection.excluded(query.query_id)
        pool = _targets(query, qrels, collection) if parameters.with_target else []
        size = len(pool) + parameters.bm25 + parameters.popular
        if engine:
            found = engine.search(query.text, parameters.bm25 + len(pool) + len(excluded))
            usable = [document.doc_id for document in found if document.doc_id not in {*excluded, *pool}]
            pool += usable[: parameters.bm25]
            short += len(usable) < parameters.bm25
        for source in (popular, popularity):
            missing = size - len(pool)
            if missing:
                left = [doc_id for doc_id in source if doc_id not in {*excluded, *pool}]
                pool += _draw(left, popularity, missing, f"{parameters.seed}\0draw\0{query.query_id}")
                rare += source is popularity
        if len(pool) < size:
            raise InputError(
                f"{collection.name}: a pool for query {query.query_id!r} needs {size} documents, and only "
                f"{len(pool)} may be in it; lower 'bm25' or 'popular'"
            )
        pool.sort(key=lambda doc_id: _number(f"{parameters.seed}\0order\0{query.query_id}", doc_id))
        run[query.query_id] = [
            ScoredDocument(doc_id, float(size - place)) for place, doc_id in enumerate(pool)
        ]
    logger.info(
        "%s: %d pools, %d documents of popularity above %g; BM25 found fewer than %d for %d queries, popular "
        "documents did not suffice for %d",
        collection.name,
        len(run),
        len(popular),
        parameters.popular_above,
        parameters.bm25,
        short,
        rare,
    )
    return run


def _targets(query: Query, qrels: Mapping[str, Mapping[str, int]], collection: Collection) -> list[str]:
    targets = [doc_id for doc_id, grade in qrels.get(query.query_id, {}).items() if grade > 0]
    if not targets:
        raise InputError(
            f"{collection.name}: query {query.query_id!r} has no relevant document to put into its pool; set "
            "with_target to false, or leave such queries out"
        )
    return targets


def _draw(doc_ids: Iterable[str], popularity: Mapping[str, float], size: int, seed: str) -> list[str]:
    """Draw without replacement in proportion to popularity; those of popularity 0 come last.

    Each document gets an exponential waiting time with its popularity as the rate; the first to arrive are a
    sample as if drawn one after the other (https://doi.org/10.1016/j.ipl.2005.11.003).
    """

    def arrival(doc_id: str) -> tuple[float, float]:
        number, rate = _number(seed, doc_id), popularity[doc_id]
        return (-math.log(number) / rate if rate > 0 else math.inf, number)

    return sorted(doc_ids, key=arrival)[:size]


def _number(seed: str, doc_id: str) -> float:
    """Return a number between 0 and 1, both left out, that depends on the arguments alone."""
    digest = hashlib.sha256(f"{seed}\0{doc_id}".encode()).digest()
    return (int.from_bytes(digest[:6], "big") + 0.5) / 2.0**48
