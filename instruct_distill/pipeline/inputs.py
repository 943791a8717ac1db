"""What the stages read from a recipe's collections, opened when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import overload

from instruct_distill.evaluation.task_data import TaskQueries, stored_documents, task_queries
from instruct_distill.query_writing.files import read_written
from instruct_distill.recipe import Recipe
from instruct_distill.records import Document, Qrels, Query
from instruct_distill.sources import open_collection
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.document_store import DocumentStore
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.sources.queries import select_queries
from instruct_distill.teachers.labelling import CandidateTexts
from instruct_distill.teachers.strategy import Context
from instruct_distill.trec import RunFile


class CandidateLists(Sequence[CandidateTexts]):
    """Queries with the texts of their candidates; the texts of a list are read when it is asked for.

    Args:
        queries: the queries, in their order.
        candidates: the list of each.
        documents: the texts.
    """

    def __init__(
        self, queries: Sequence[Query], candidates: RunFile, documents: Mapping[str, Document]
    ) -> None:
        self._queries, self._candidates, self._documents = queries, candidates, documents

    @property
    def lengths(self) -> list[int]:
        """The number of documents of each list."""
        return [self._candidates.count(query.query_id) for query in self._queries]

    @property
    def query_ids(self) -> list[str]:
        """The query of each list."""
        return [query.query_id for query in self._queries]

    @overload
    def __getitem__(self, index: int) -> CandidateTexts: ...
    @overload
    def __getitem__(self, index: slice) -> CandidateLists: ...
    def __getitem__(self, index: int | slice) -> CandidateTexts | CandidateLists:
        """Read the texts of a list; of several lists none yet."""
        if isinstance(index, slice):
            return CandidateLists(self._queries[index], self._candidates, self._documents)
        query = self._queries[index]
        ranked = self._candidates.get(query.query_id, [])
        return CandidateTexts(query, tuple(self._documents[document.doc_id] for document in ranked))

    def __len__(self) -> int:
        return len(self._queries)


class Inputs:
    """The collections of one recipe.

    Args:
        recipe: the recipe.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.folder = recipe.folder

    @cached_property
    def collection(self) -> Collection:
        """The collection that is trained on."""
        return open_collection(self.recipe.collection)

    @cached_property
    def queries(self) -> list[Query]:
        """The queries that are labelled.

        Raises:
            InputError: they are to be written by a model, and are not there yet.
        """
        recipe = self.recipe
        if recipe.queries.generate:
            return [query for query, _ in read_written(self.folder / "queries.jsonl")]
        return select_queries(self.collection, recipe.queries, seed=recipe.seed, default_split="train")

    @cached_property
    def tasks(self) -> list[TaskQueries]:
        """The judged queries of each evaluation task."""
        return [task_queries(task, seed=self.recipe.seed) for task in self.recipe.evaluation]

    @cached_property
    def candidates(self) -> RunFile:
        """The lists that are labelled, in the candidate file; queries that found nothing are not in it."""
        return RunFile(self.folder / "candidates.trec")

    @cached_property
    def documents(self) -> DocumentStore:
        """The texts of all candidates that are labelled; they are on the disk, not in memory."""
        return stored_documents(self.collection, self.candidates)

    def lists(self) -> CandidateLists:
        """Return the queries with the texts of their candidates."""
        return CandidateLists(self.queries, self.candidates, self.documents)

    def context(self) -> Context:
        """Return what teacher strategies may look at."""

        def qrels() -> Qrels | None:
            if self.recipe.qrels is not None:
                return read_qrels(self.recipe.qrels)
            split = self.recipe.queries.split or ("train" if "train" in self.collection.splits() else None)
            return self.collection.qrels(split)

        def query_ids() -> list[str]:
            written = self.recipe.queries.generate
            return [query.query_id for query in (self.queries if written else self.collection.queries())]

        return Context(qrels, query_ids, seed=self.recipe.seed)
