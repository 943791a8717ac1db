"""Which queries a stage works on, and whether the judgements belong to them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Container, Mapping, Sequence
from itertools import chain

from instruct_distill.errors import InputError
from instruct_distill.records import Qrels, Query
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.parameters import QueriesParameters

_log = logging.getLogger(__name__)


def select_split(collection: Collection, split: str | None, default_split: str) -> str | None:
    """Return the split to use: the one asked for, else the default one, None where there are no splits.

    Raises:
        InputError: the collection has splits, but not that one.
    """
    if split is not None:
        return collection.check_split(split)
    if not collection.splits():
        return None
    if default_split not in collection.splits():
        raise InputError(
            f"{collection.name} has no split {default_split!r}, the one used where none is named "
            f"(it has: {', '.join(collection.splits())}); name one with queries.split, or 'all'"
        )
    return default_split


def select_queries(
    collection: Collection, parameters: QueriesParameters, *, seed: int, default_split: str
) -> list[Query]:
    """Return the queries that a recipe's ``queries`` section asks for, in the source's order.

    The sample depends on the seed and the query ids alone: the queries with the smallest hashes of both.
    Fewer queries than asked for are taken all, with a warning.

    Args:
        collection: where the queries come from.
        parameters: the section.
        seed: the recipe's seed.
        default_split: the split where the section names none and the collection has splits.

    Raises:
        InputError: the collection lacks the split, or has no query.
    """
    split = select_split(collection, parameters.split, default_split)
    queries = collection.queries(split)
    if not queries:
        raise InputError(f"{collection.name}: no queries" + (f" in split {split!r}" if split else ""))
    return sample_queries(queries, parameters.sample, seed=seed, source=collection.name)


def sample_queries(queries: list[Query], size: int | None, *, seed: int, source: str) -> list[Query]:
    """Return a sample without replacement, in the order given; all queries for None.

    Args:
        queries: what is drawn from.
        size: how many; where there are fewer, all of them are taken, with a warning.
        seed: the recipe's seed.
        source: the collection's name, for the warning.
    """
    if size is None:
        return queries
    if size > len(queries):
        _log.warning("%s: %d queries asked for, %d found; all of them are used", source, size, len(queries))
    ranked = sorted(range(len(queries)), key=lambda index: _draw(seed, queries[index].query_id))
    return [queries[index] for index in sorted(ranked[:size])]


def _draw(seed: int, query_id: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{query_id}".encode()).digest()


def check_judged_queries(collection_name: str, qrels: Qrels, queries: Sequence[Query]) -> int:
    """Return how many judged queries the collection lacks, and warn of them.

    Args:
        collection_name: for messages.
        qrels: the judgements.
        queries: all queries of the split, before a sample is drawn.

    Raises:
        InputError: the judgements share no query with the collection.
    """
    known = {query.query_id for query in queries}
    return _unknown(collection_name, "queries", qrels, known, queries[0].query_id if queries else None)


def check_judged_documents(
    collection_name: str, qrels: Qrels, there: Container[str], example: str | None
) -> int:
    """Return how many judged documents the collection lacks, and warn of them.

    Args:
        collection_name: for messages.
        qrels: the judgements.
        there: the judged documents that the collection has.
        example: the id of any document of the collection, for messages; None where it has none.

    Raises:
        InputError: the judgements share no document with the collection.
    """
    judged = dict.fromkeys(chain.from_iterable(qrels.values()))
    return _unknown(collection_name, "documents", judged, there, example)


def _unknown(
    collection_name: str, kind: str, judged: Mapping[str, object], known: Container[str], example: str | None
) -> int:
    missing = [judged_id for judged_id in judged if judged_id not in known]
    if judged and len(missing) == len(judged):
        raise InputError(
            f"{collection_name}: none of the {len(judged)} judged {kind} is in the collection "
            f"(judgements have {missing[0]!r}, the collection has "
            f"{'none' if example is None else repr(example)}); "
            "the judgements belong to another collection, or ids were changed"
        )
    if missing:
        _log.warning(
            "%s: %d of %d judged %s are not in the collection (the first: %r); "
            "judgements of them still count in the ideal ranking",
            collection_name,
            len(missing),
            len(judged),
            kind,
            missing[0],
        )
    return len(missing)
