"""What a task is made of, read from its collection: judged queries, candidates and their texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from instruct_distill.candidates import retrieve
from instruct_distill.errors import InputError
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.records import Document, Qrels, Query, Run, ScoredDocument
from instruct_distill.sources import open_collection
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.document_store import DocumentStore
from instruct_distill.sources.parameters import QueriesParameters
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.sources.queries import (
    check_judged_documents,
    check_judged_queries,
    sample_queries,
    select_queries,
    select_split,
)


@dataclass(frozen=True)
class TaskQueries:
    """The part of a task that needs no documents.

    Args:
        collection: the collection.
        queries: the judged queries.
        qrels: the judgements of exactly these queries.
    """

    collection: Collection
    queries: list[Query]
    qrels: Qrels

    def candidates(self, parameters: EvaluationParameters) -> Run:
        """Return the first-stage lists."""
        return retrieve(self.collection, self.queries, parameters.candidates)

    def documents(self, candidates: Run) -> dict[str, Document]:
        """Return the documents of some lists.

        Raises:
            InputError: as :meth:`check`.
        """
        return {document.doc_id: document for document in self._checked(candidates)}

    def check(self, candidates: Run) -> None:
        """Make sure that lists and judgements belong to the collection, without keeping its texts.

        Judged documents that the collection lacks are counted in a warning.

        Raises:
            InputError: a candidate is not in the collection, or none of the judged documents is.
        """
        for _ in self._checked(candidates):
            pass

    def _checked(self, candidates: Run) -> Iterator[Document]:
        """Yield the candidates' documents in one pass that looks for the judged ones, too."""
        missing = _candidate_ids(candidates)
        count = len(missing)
        judged: set[str] = set()
        if self.collection.has_every_document:
            judged.update(chain.from_iterable(self.qrels.values()))
        there: set[str] = set()
        for document in self.collection.pick(dict.fromkeys([*missing, *judged])):
            if document.doc_id in judged:
                there.add(document.doc_id)
            if document.doc_id in missing:
                del missing[document.doc_id]
                yield document
        _check_found(self.collection, list(missing), count)
        if judged:
            example = None if there else next((d.doc_id for d in self.collection.documents()), None)
            check_judged_documents(self.collection.name, self.qrels, there, example)


def task_queries(parameters: EvaluationParameters, *, seed: int) -> TaskQueries:
    """Open a task: its judgements and the queries that have some.

    Raises:
        InputError: there are no judgements, or they belong to other queries.
    """
    collection = open_collection(parameters.collection)
    everything = QueriesParameters(split=parameters.queries.split)
    queries = select_queries(collection, everything, seed=seed, default_split="test")
    if parameters.qrels is not None:
        qrels: Qrels | None = read_qrels(parameters.qrels)
    else:
        qrels = collection.qrels(select_split(collection, parameters.queries.split, "test"))
    if qrels is None:
        raise InputError(f"{parameters.collection} brings no judgements; name a file with 'qrels:'")
    check_judged_queries(parameters.collection, qrels, queries)
    judged = [query for query in queries if query.query_id in qrels]
    chosen = sample_queries(judged, parameters.queries.sample, seed=seed, source=parameters.collection)
    kept = {query.query_id for query in chosen}
    if parameters.queries.sample is None:
        # judged queries that the collection lacks count 0, as in trec_eval -c
        return TaskQueries(collection, chosen, qrels)
    return TaskQueries(collection, chosen, {q: grades for q, grades in qrels.items() if q in kept})


def candidate_documents(collection: Collection, candidates: Run) -> dict[str, Document]:
    """Return document id → document for every candidate.

    Raises:
        InputError: a candidate is not in the collection.
    """
    wanted = _candidate_ids(candidates)
    found = collection.fetch(wanted)
    _check_found(collection, [doc_id for doc_id in wanted if doc_id not in found], len(wanted))
    return found


def _candidate_ids(candidates: Run) -> dict[str, None]:
    return dict.fromkeys(document.doc_id for ranked in candidates.values() for document in ranked)


def stored_documents(
    collection: Collection, candidates: Mapping[str, Sequence[ScoredDocument]], at_once: int = 250_000
) -> DocumentStore:
    """Return the same for more documents than memory should hold: they are on the disk.

    Args:
        collection: where the documents are.
        candidates: the lists, which may lie on the disk too.
        at_once: candidates that one pass over the collection looks for.

    Raises:
        InputError: a candidate is not in the collection.
    """
    store = DocumentStore()
    missing: list[str] = []
    wanted: dict[str, None] = {}

    def look_for_them() -> None:
        store.add(collection.pick(wanted))
        missing.extend(doc_id for doc_id in wanted if doc_id not in store)
        wanted.clear()

    for ranked in candidates.values():
        wanted.update((document.doc_id, None) for document in ranked if document.doc_id not in store)
        if len(wanted) >= at_once:
            look_for_them()
    look_for_them()
    _check_found(collection, list(dict.fromkeys(missing)), len(store) + len(set(missing)))
    return store


def _check_found(collection: Collection, missing: Sequence[str], wanted: int) -> None:
    if missing:
        raise InputError(
            f"{collection.name}: {len(missing)} of {wanted} candidates are not in the collection "
            f"(the first: {missing[0]!r}); the candidates belong to another collection"
        )
