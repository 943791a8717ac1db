"""One system on one task, as a file that grows by a line a query and can be gone on with after a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from instruct_distill.errors import InputError
from instruct_distill.evaluation.ranker import Ranker, RerankedList, rerank
from instruct_distill.records import Document, Query, Run, ScoredDocument


def rank_with_resume(
    ranker: Ranker,
    queries: Sequence[Query],
    candidates: Run,
    documents: Mapping[str, Document],
    *,
    file: Path,
    depth: int | None,
    name: str,
) -> list[RerankedList]:
    """Rerank a task's lists, those that the file has already excepted, and return all of them.

    Args:
        ranker: the system.
        queries: the task's queries; the result is in their order.
        candidates: first-stage lists.
        documents: their documents.
        file: JSONL, a line a query; a torn last line is done again.
        depth: candidates of each query that are reranked.
        name: the system's name, for the progress bar.

    Raises:
        InputError: the file is damaged, or cannot be written.
    """
    done = _read(file)
    left = [query for query in queries if query.query_id not in done]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        stream = open(file, "ab")
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error})") from None
    with stream:
        for item in rerank(ranker, left, candidates, documents, depth=depth, name=name):
            record = {
                "query_id": item.query_id,
                "documents": [[doc_id, score] for doc_id, score in item.documents],
                "reranked": item.reranked,
                "seconds": item.seconds,
            }
            stream.write((json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
            done[item.query_id] = item
    return [done[query.query_id] for query in queries if query.query_id in done]


def _read(file: Path) -> dict[str, RerankedList]:
    """Read the lines that are whole, and cut a torn last one off."""
    done: dict[str, RerankedList] = {}
    if not file.exists():
        return done
    end = 0
    with open(file, "rb") as stream:
        for number, raw in enumerate(stream, start=1):
            if not raw.endswith(b"\n"):
                break
            end += len(raw)
            try:
                record = json.loads(raw.decode("utf-8"))
                documents = [
                    ScoredDocument(str(doc_id), float(score)) for doc_id, score in record["documents"]
                ]
                item = RerankedList(
                    record["query_id"], documents, int(record["reranked"]), float(record["seconds"])
                )
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{file} line {number}: damaged ({error}); delete the line") from None
            done[item.query_id] = item
    if end < file.stat().st_size:
        os.truncate(file, end)
    return done
