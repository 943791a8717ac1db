"""``irds:ID``: a data set of ir_datasets (https://ir-datasets.com), downloaded when it is first read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Qrels, Query, Run, ScoredDocument
from instruct_distill.registry import nearest
from instruct_distill.sources.collection import Collection


class IrdsCollection(Collection):
    """A data set of ir_datasets; its id pins the exact subset, so that there are no splits.

    Args:
        name: as it stands in a recipe.
        dataset_id: the id in the catalogue, such as ``msmarco-passage/trec-dl-2019/judged``.
        dataset: what ``ir_datasets.load`` returns for it.
    """

    def __init__(self, name: str, dataset_id: str, dataset: Any) -> None:
        super().__init__(name)
        self._id = dataset_id
        self._dataset = dataset

    def queries(self, split: str | None = None) -> list[Query]:
        """Return the queries in the data set's order."""
        self.check_split(split)
        if not self._dataset.has_queries():
            raise InputError(
                f"{self.name}: the data set {self._id!r} has no queries; choose a subset that has"
            )
        return [
            Query(str(record.query_id), self._query_text(record)) for record in self._dataset.queries_iter()
        ]

    def _query_text(self, record: Any) -> str:
        for field in ("text", "title", "query"):
            value = getattr(record, field, None)
            if isinstance(value, str):
                return value
        raise InputError(
            f"{self.name}: queries of {self._id!r} have no field text, title or query "
            f"(they have: {', '.join(record._fields)}); write them to a folder and use files:FOLDER"
        )

    def documents(self) -> Iterator[Document]:
        """Yield the documents in the data set's order."""
        self._require_documents()
        return map(self._document, self._dataset.docs_iter())

    def pick(self, doc_ids: Iterable[str]) -> Iterator[Document]:
        """Yield the documents of these ids through the data set's own index."""
        self._require_documents()
        return map(self._document, self._dataset.docs_store().get_many_iter(list(dict.fromkeys(doc_ids))))

    def _require_documents(self) -> None:
        if not self._dataset.has_docs():
            raise InputError(f"{self.name}: the data set {self._id!r} has no documents; choose one that has")

    def _document(self, record: Any) -> Document:
        title = getattr(record, "title", None)
        title = title if isinstance(title, str) else ""
        if hasattr(record, "default_text"):
            text = str(record.default_text() or "")
            # default_text() joins the fields that the data set's authors chose, the title mostly in front.
            if not text.startswith(title):
                title = ""
            return Document(str(record.doc_id), text[len(title) :].lstrip(), title)
        for field in ("text", "body"):
            value = getattr(record, field, None)
            if isinstance(value, str):
                return Document(str(record.doc_id), value, title)
        raise InputError(
            f"{self.name}: document {record.doc_id!r} has no field text or body "
            f"(it has: {', '.join(record._fields)})"
        )

    def qrels(self, split: str | None = None) -> Qrels | None:
        """Return the judgements, or None where the data set has none."""
        self.check_split(split)
        if not self._dataset.has_qrels():
            return None
        qrels: Qrels = {}
        for record in self._dataset.qrels_iter():
            if int(record.relevance) != record.relevance:
                raise InputError(
                    f"{self.name}: grade {record.relevance!r} of query {record.query_id!r}, document "
                    f"{record.doc_id!r} is no whole number"
                )
            qrels.setdefault(str(record.query_id), {})[str(record.doc_id)] = int(record.relevance)
        return qrels

    def given(self) -> Run | None:
        """Return the scored documents that come with the queries, best first.

        None where the data set has none, or where all of a query's scores are equal: MS MARCO's 1,000
        passages to be reranked, for one, are in no order.
        """
        if not self._dataset.has_scoreddocs():
            return None
        run: Run = {query.query_id: [] for query in self.queries()}
        for record in self._dataset.scoreddocs_iter():
            scored = ScoredDocument(str(record.doc_id), float(record.score))
            run.setdefault(str(record.query_id), []).append(scored)
        for documents in run.values():
            if len(documents) > 1 and len({document.score for document in documents}) == 1:
                return None
            documents.sort(key=lambda document: -document.score)
        return run

    def fingerprint(self) -> str:
        """Return a digest of the id of the data set that the documents come from, and of its description.

        ir_datasets checks each download against a checksum, so that the id pins the documents.
        """
        import ir_datasets

        self._require_documents()
        parent = ir_datasets.docs_parent_id(self._id) or self._id
        description = [parent, self._dataset.docs_metadata()]
        return hashlib.sha256(json.dumps(description, sort_keys=True, default=str).encode()).hexdigest()


def open_collection(name: str, location: str) -> Collection:
    """Open a data set of ir_datasets; nothing is downloaded yet.

    Raises:
        InputError: the catalogue has no such id.
    """
    import ir_datasets

    try:
        dataset = ir_datasets.load(location)
    except KeyError:
        known = sorted(ir_datasets.registry)
        raise InputError(
            f"collection {name!r}: ir_datasets has no data set {location!r}{nearest(location, known)}; "
            "the ids are listed at https://ir-datasets.com"
        ) from None
    return IrdsCollection(name, location, dataset)
