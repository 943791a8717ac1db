"""First-stage rankings: which documents of a collection are asked about, for each query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from instruct_distill.candidates.parameters import METHODS, CandidateParameters
from instruct_distill.errors import InputError
from instruct_distill.records import Query, Run
from instruct_distill.sources.collection import Collection


def retrieve(collection: Collection, queries: Sequence[Query], parameters: CandidateParameters) -> Run:
    """Return a candidate list for each query, in the order of the queries.

    Args:
        collection: the documents, and perhaps the lists.
        queries: what is asked; each gets an entry, an empty list where nothing is found.
        parameters: the method and its settings.

    Raises:
        InputError: two queries have the same id, or the method cannot give lists for them.
    """
    query_id, times = next(iter(Counter(query.query_id for query in queries).most_common(1)), ("", 0))
    if times > 1:
        raise InputError(
            f"{collection.name}: {times} queries have the id {query_id!r}; ids must be unique, since runs "
            "and labels refer to them"
        )
    run: Run = METHODS.load(parameters.method).candidates(collection, queries, parameters)
    return run
