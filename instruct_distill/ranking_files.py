"""Files in, rankings out: lines of text, TREC runs with their texts, and JSONL requests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import tee
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from instruct_distill.errors import InputError
from instruct_distill.files import read_jsonl, read_lines
from instruct_distill.records import Document, Query, RankedDocument
from instruct_distill.reranker import LongDocuments, Reranker
from instruct_distill.sources.record_fields import read_documents, read_queries
from instruct_distill.trec import read_run, run_lines

STDIN = "-"
TAG = "instruct_distill"
"""The last column of a TREC run."""


class Choices(NamedTuple):
    """How files are ranked.

    Args:
        top_k: documents of each query that are kept; None for all.
        long_documents: as for :meth:`Reranker.score`.
        probability: give probabilities, where the form has a place for them.
    """

    top_k: int | None = None
    long_documents: LongDocuments = "first"
    probability: bool = False

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of :meth:`Reranker.rank_many`."""
        return self._asdict()


def check_files(*places: str | None) -> None:
    """Make sure that files are there before a model is loaded for them.

    Raises:
        InputError: one is not there.
    """
    for place in places:
        if place not in (None, STDIN) and not os.path.exists(place):
            raise InputError(f"{place}: no such file")


def rank_lines(reranker: Reranker, query: str, documents: str, choices: Choices) -> Iterator[str]:
    """Yield rank, score and text, tab-separated, of the lines of a file.

    Args:
        reranker: what ranks.
        query: the query.
        documents: a file with one document a line; ``-`` for stdin.
        choices: how.
    """
    texts = [line for _, line in read_lines(_place(documents))]
    for item in reranker.rank(query, texts, **choices.keywords):
        yield f"{item.rank}\t{item.score:.4f}\t{item.text}"


def rank_run(
    reranker: Reranker, queries: str, documents: str, run: str, form: str, choices: Choices
) -> Iterator[str]:
    """Yield the lines of a run whose lists are ranked anew.

    Args:
        reranker: what ranks.
        queries: JSONL or TSV.
        documents: JSONL or TSV; those of the run are kept in memory.
        run: the candidates, a TREC run.
        form: ``trec`` or ``jsonl``.
        choices: how.

    Raises:
        InputError: the run names a query or document that is not there.
    """
    candidates = read_run(run)
    asked = {query.query_id: query for query in read_queries(Path(queries))}
    wanted = {found.doc_id for ranked in candidates.values() for found in ranked}
    texts = {
        document.doc_id: document for document in read_documents(Path(documents)) if document.doc_id in wanted
    }
    for query_id, ranked in candidates.items():
        if query_id not in asked:
            raise InputError(f"{run}: query {query_id!r} is not in {queries}")
        missing = next((found.doc_id for found in ranked if found.doc_id not in texts), None)
        if missing is not None:
            raise InputError(f"{run}: document {missing!r} of query {query_id!r} is not in {documents}")
    lists = (
        (asked[query_id], [texts[found.doc_id] for found in ranked])
        for query_id, ranked in candidates.items()
    )
    found = reranker.rank_many(lists, **choices.keywords)
    bar = tqdm(found, total=len(candidates), desc="rank", unit="query", disable=None)
    for query_id, items in zip(candidates, bar, strict=True):
        if form == "trec":
            scored = [(item.doc_id or "", item.score) for item in items]
            yield from run_lines(query_id, scored, TAG)
        else:
            yield _json_line({"query_id": query_id, "query": asked[query_id].text}, items, reranker, choices)


def rank_requests(reranker: Reranker, requests: str, choices: Choices) -> Iterator[str]:
    """Yield a JSON line with the ranking of each request.

    Args:
        reranker: what ranks.
        requests: JSONL with ``query`` and ``documents``: texts, or objects with ``text`` and perhaps ``id``
            and ``title``; other keys come back as they were. ``-`` for stdin.
        choices: how.

    Raises:
        InputError: a line is no such request.
    """
    read, kept = tee(_requests(requests))
    found = reranker.rank_many(((query, documents) for _, query, documents in read), **choices.keywords)
    for (rest, query, _), items in zip(kept, found, strict=True):
        yield _json_line({**rest, "query": query.text}, items, reranker, choices)


def _requests(place: str) -> Iterator[tuple[dict[str, Any], Query, list[str | Document]]]:
    for number, record in read_jsonl(_place(place)):
        where = f"{place} line {number}"
        query, documents = record.get("query"), record.get("documents")
        if not isinstance(query, str) or not isinstance(documents, list):
            raise InputError(f'{where}: expected {{"query": "...", "documents": ["...", ...]}}')
        rest = {key: value for key, value in record.items() if key not in ("query", "documents")}
        yield rest, Query(where, query), [_document(each, i, where) for i, each in enumerate(documents)]


def _document(given: Any, position: int, where: str) -> str | Document:
    if isinstance(given, str):
        return given
    if isinstance(given, dict) and isinstance(given.get("text"), str):
        return Document(str(given.get("id", position)), given["text"], str(given.get("title") or ""))
    raise InputError(f"{where}: document {position} is no text, and no object with a text")


def _json_line(
    head: dict[str, Any], items: list[RankedDocument], reranker: Reranker, choices: Choices
) -> str:
    results = []
    for item in items:
        result: dict[str, Any] = {"index": item.index, "rank": item.rank, "score": item.score}
        if item.doc_id is not None:
            result["id"] = item.doc_id
        if item.probability is not None:
            result["probability"] = item.probability
        results.append(result)
    if choices.probability:
        head["probability"] = reranker.probability_kind
    return json.dumps({**head, "results": results}, ensure_ascii=False)


def _place(file: str) -> str:
    return "/dev/stdin" if file == STDIN else file
