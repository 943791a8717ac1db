"""``rankgpt:FILE``: queries with their passages, text included, as RankGPT and InstructDistill write them.

RankGPT (https://github.com/sunnweiwei/RankGPT) has a JSON list, or JSONL, of
``{query, hits: [{content, qid, docid, rank, score}]}``; the training data of InstructDistill is JSONL of
``{query, positive_passages, retrieved_passages: [{docid, text, title}]}``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from instruct_distill.errors import InputError
from instruct_distill.files import read_json, read_jsonl, read_lines
from instruct_distill.records import Document, Qrels, Query, Run, ScoredDocument
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.fingerprint import files_fingerprint
from instruct_distill.sources.record_fields import TEXT_KEYS, first_key, id_field, text_field

_DOC_ID_KEYS = ("docid", "doc_id", "_id", "id")
_QUERY_ID_KEYS = ("qid", "query_id")


class _Content(NamedTuple):
    queries: list[Query]
    documents: dict[str, Document]
    run: Run
    qrels: Qrels


class RankGptCollection(Collection):
    """A file of candidate lists with text; it is held in memory once it is read.

    Args:
        name: as it stands in a recipe.
        path: the file.
    """

    has_every_document = False

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(name)
        self._path = path

    @cached_property
    def _content(self) -> _Content:
        content = _Content([], {}, {}, {})
        first_seen: dict[str, str] = {}
        for number, where, record in _records(self._path):
            _add_record(content, first_seen, number, where, record)
        if not content.queries:
            raise InputError(f"{self._path}: no records in the file")
        return content

    def queries(self, split: str | None = None) -> list[Query]:
        """Return the queries in file order; ids are ``qid`` or ``query_id``, else the record's number."""
        self.check_split(split)
        return list(self._content.queries)

    def documents(self) -> Iterator[Document]:
        """Yield the passages of all lists, each once, in the order of their first places."""
        yield from self._content.documents.values()

    def qrels(self, split: str | None = None) -> Qrels | None:
        """Return grade 1 for the ``positive_passages``, or None where no record has such."""
        self.check_split(split)
        return self._content.qrels or None

    def given(self) -> Run:
        """Return the lists in the order of the file.

        Scores are the file's where they fall strictly as float32, else the length of the list downwards.
        """
        return self._content.run

    def fingerprint(self) -> str:
        """Return a digest of the file."""
        return files_fingerprint([self._path])


def _records(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield (number, place for messages, record) of a JSON list or of JSONL."""
    _, first_line = next(read_lines(path), (0, ""))
    if not first_line.lstrip().startswith("["):
        for number, record in read_jsonl(path):
            yield number, f"{path} line {number}", record
        return
    for number, record in enumerate(read_json(path), start=1):
        where = f"{path} record {number}"
        if not isinstance(record, dict):
            raise InputError(f"{where}: expected a JSON object, found {type(record).__name__}")
        yield number, where, record


def _add_record(
    content: _Content, first_seen: dict[str, str], number: int, where: str, record: dict[str, Any]
) -> None:
    list_key = first_key(record, ("hits", "retrieved_passages"), where)
    hits = _passages(record, list_key, where)
    query_id = _query_id(record, hits, number, where)
    if query_id in content.run:
        raise InputError(f"{where}: query id {query_id!r} stands in a record before; ids must be unique")
    content.queries.append(
        Query(query_id, text_field(record[first_key(record, ("query",), where)], where, "query"))
    )
    documents = [_document(hit, f"{where}, {list_key} {place}") for place, hit in enumerate(hits, start=1)]
    doc_ids = [document.doc_id for document in documents]
    if len(set(doc_ids)) < len(doc_ids):
        repeated = next(doc_id for doc_id in doc_ids if doc_ids.count(doc_id) > 1)
        raise InputError(f"{where}: document {repeated!r} stands twice in the list of query {query_id!r}")
    content.run[query_id] = [
        ScoredDocument(doc_id, score)
        for doc_id, score in zip(doc_ids, _scores(hits, query_id, where), strict=True)
    ]
    positives = [
        _document(passage, f"{where}, positive_passages {place}")
        for place, passage in enumerate(_passages(record, "positive_passages", where), start=1)
    ]
    if positives:
        content.qrels[query_id] = {document.doc_id: 1 for document in positives}
    for document in [*documents, *positives]:
        known = content.documents.setdefault(document.doc_id, document)
        before = first_seen.setdefault(document.doc_id, where)
        if known != document:
            raise InputError(
                f"{where}: document {document.doc_id!r} has another text than in {before} "
                f"({_start(document)} and {_start(known)}); give different documents different ids"
            )


def _start(document: Document) -> str:
    text = document.full_text
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _passages(record: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    passages = record.get(key) or []
    if not isinstance(passages, list) or not all(isinstance(passage, dict) for passage in passages):
        raise InputError(f"{where}: {key!r} is not a list of JSON objects")
    return passages


def _query_id(record: dict[str, Any], hits: list[dict[str, Any]], number: int, where: str) -> str:
    values = [(key, part[key]) for part in (record, *hits) for key in _QUERY_ID_KEYS if key in part]
    ids = list(dict.fromkeys(id_field(value, where, key) for key, value in values))
    if len(ids) > 1:
        raise InputError(f"{where}: one list with the query ids {ids[0]!r} and {ids[1]!r}; expected one id")
    return ids[0] if ids else str(number)


def _document(passage: dict[str, Any], where: str) -> Document:
    id_key = first_key(passage, _DOC_ID_KEYS, where)
    text_key = first_key(passage, TEXT_KEYS, where)
    return Document(
        id_field(passage[id_key], where, id_key),
        text_field(passage[text_key], where, text_key),
        text_field(passage.get("title"), where, "title"),
    )


def _is_finite(number: int | float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number beyond the largest float
        return False


def _scores(hits: list[dict[str, Any]], query_id: str, where: str) -> list[float]:
    scores = []
    for place, hit in enumerate(hits, start=1):
        score = hit.get("score")
        if isinstance(score, (int, float)) and not isinstance(score, bool):
            if not _is_finite(score):
                raise InputError(f"{where}, hits {place}: score {score} of query {query_id!r} is not finite")
            scores.append(float(score))
    # trec_eval reads single precision, in which close scores become ties.
    if len(scores) == len(hits) and all(np.float32(a) > np.float32(b) for a, b in pairwise(scores)):
        return scores
    return [float(score) for score in range(len(hits), 0, -1)]


def open_collection(name: str, location: str) -> Collection:
    """Open a file of candidate lists with text.

    Raises:
        InputError: there is no such file.
    """
    if not location or not Path(location).is_file():
        raise InputError(f"collection {name!r}: no file {location!r}; write rankgpt:FILE")
    return RankGptCollection(name, Path(location))
