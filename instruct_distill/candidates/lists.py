"""Candidate lists fitted to what was asked for: cut to depth, and one list for each query."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.errors import InputError
from instruct_distill.records import Query, Run, ScoredDocument

logger = logging.getLogger(__name__)


def cut(
    documents: Sequence[ScoredDocument], query_id: str, parameters: CandidateParameters
) -> list[ScoredDocument]:
    """Return the first ``depth`` documents, without the query itself where ``drop_self`` is set."""
    if parameters.drop_self:
        documents = [document for document in documents if document.doc_id != query_id]
    return list(documents[: parameters.depth])


def fit(run: Run, source: str, queries: Sequence[Query], parameters: CandidateParameters) -> Run:
    """Return the lists of a run for the queries that are asked for, in their order.

    Queries of the run that are not asked for are left out. A query that the run lacks gets an empty list, and
    a warning says how many do.

    Args:
        run: lists made elsewhere.
        source: what they were made by, for messages: a file or a collection.
        queries: the queries that are asked for.
        parameters: depth, and whether a query's own document is dropped.

    Raises:
        InputError: the run has none of the queries, so it belongs to other ones.
    """
    missing = [query.query_id for query in queries if query.query_id not in run]
    if queries and len(missing) == len(queries):
        raise InputError(
            f"{source}: none of the {len(queries)} queries has a list there (asked for: {_some(missing)}; "
            f"found there: {_some(list(run)) or 'no query at all'}); give the lists of these queries, or the "
            "queries of these lists"
        )
    if missing:
        logger.warning(
            "%s: no list for %d of %d queries (%s); theirs are empty",
            source,
            len(missing),
            len(queries),
            _some(missing),
        )
    ignored = len(run) - (len(queries) - len(missing))
    if ignored:
        logger.info("%s: %d lists of queries that are not asked for are left out", source, ignored)
    return {query.query_id: cut(run.get(query.query_id, ()), query.query_id, parameters) for query in queries}


def _some(ids: Sequence[str]) -> str:
    return ", ".join([*map(repr, ids[:3]), *(["..."] if len(ids) > 3 else [])])
