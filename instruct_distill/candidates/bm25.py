"""Candidates found by BM25 in the collection."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence

from tqdm import tqdm

from instruct_distill.candidates.engine import Engine
from instruct_distill.candidates.lists import cut
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.candidates.tokenise import Tokeniser
from instruct_distill.records import Query, Run
from instruct_distill.sources.collection import Collection

logger = logging.getLogger(__name__)


def candidates(collection: Collection, queries: Sequence[Query], parameters: CandidateParameters) -> Run:
    """Return the best documents of each query, those only that share a term with it and are not excluded.

    A list may thus be shorter than the depth, or empty: one warning counts the queries that find nothing,
    such as those that have only stop words, and shows the first of them.

    Raises:
        InputError: the collection has no documents, or two of the same id.
    """
    engine = open_engine(collection, parameters)
    deeper = 1 if parameters.drop_self else 0
    run: Run = {}
    nothing: list[str] = []
    for query in tqdm(queries, desc="bm25", unit=" queries", disable=None):
        excluded = collection.excluded(query.query_id)
        matches = engine.search(query.text, parameters.depth + deeper + len(excluded))
        found = [document for document in matches if document.doc_id not in excluded]
        if not found:
            why = "no term in common with the documents" if engine.tokeniser(query.text) else "no usable term"
            why = "all that it finds is excluded" if matches else why
            nothing.append(f"{query.query_id} {query.text[:60]!r}: {why}")
        run[query.query_id] = cut(found, query.query_id, parameters)
    if nothing:
        more = ["..."] if len(nothing) > 3 else []
        logger.warning(
            "%s: %d of %d queries find no document and have an empty list (%s)",
            collection.name,
            len(nothing),
            len(queries),
            "; ".join(nothing[:3] + more),
        )
    return run


def open_engine(collection: Collection, parameters: CandidateParameters) -> Engine:
    """Return the collection's index, built where it is not in the cache.

    Raises:
        InputError: the collection has no documents, or two of the same id.
    """
    # The engines' packages take a while to import, and a run needs one of them at most.
    module = importlib.import_module(f"instruct_distill.candidates.{parameters.engine}_engine")
    tokeniser = Tokeniser(stemmer=parameters.stemmer, stop_words=parameters.stop_words)
    engine: Engine = module.open_engine(collection, tokeniser, parameters.k1, parameters.b)
    return engine
