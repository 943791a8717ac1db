"""Candidates from a TREC run file: any other search engine's lists."""

from __future__ import annotations

from collections.abc import Sequence

from instruct_distill.candidates.lists import fit
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.errors import InputError
from instruct_distill.records import Query, Run
from instruct_distill.sources.collection import Collection
from instruct_distill.trec import read_run


def candidates(collection: Collection, queries: Sequence[Query], parameters: CandidateParameters) -> Run:
    """Return the lists of the file for these queries, cut to depth.

    Raises:
        InputError: the file cannot be read, or has none of the queries.
    """
    if parameters.file is None:
        raise InputError(f"{collection.name}: candidates of method run need 'file', the path of a TREC run")
    return fit(read_run(parameters.file), parameters.file, queries, parameters)
