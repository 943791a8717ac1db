"""Candidates that the collection brings."""

from __future__ import annotations

from collections.abc import Sequence

from instruct_distill.candidates.lists import fit
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.errors import InputError
from instruct_distill.records import Query, Run
from instruct_distill.sources.collection import Collection


def candidates(collection: Collection, queries: Sequence[Query], parameters: CandidateParameters) -> Run:
    """Return the collection's own lists for these queries, cut to depth.

    Raises:
        InputError: the collection brings no lists, or none for these queries.
    """
    run = collection.given()
    if run is None:
        raise InputError(
            f"{collection.name} brings no candidate lists (collections with the prefix rankgpt: or files: "
            "may); use candidates: {method: bm25} to search it, or {method: run, file: ...}"
        )
    return fit(run, collection.name, queries, parameters)
