"""One system on one task, as a file that grows by a line a query and can be gone on with after a kill."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from instruct_distill.errors import InputError
from instruct_distill.evaluation.ranker import Ranker, RerankedList, rerank
from instruct_distill.files import read_json, write_json
from instruct_distill.records import Document, Query, Run, ScoredDocument

SYSTEMS_FILE = "systems.json"


def same_systems(folder: Path, candidates: Run, depth: int | None, rankers: Mapping[str, Ranker]) -> None:
    """Write down what the runs in a task's folder are made from; refuse to go on with something else.

    Args:
        folder: the task's folder.
        candidates: first-stage lists.
        depth: candidates of each query that are reranked.
        rankers: system → what ranks; one that has an ``identity`` is recognised by it.

    Raises:
        InputError: the folder holds the runs of other systems or candidates; the message says what differs.
    """
    lists = hashlib.sha256()
    for query_id, ranked in candidates.items():
        lists.update(json.dumps([query_id, ranked]).encode("utf-8"))
    content = {
        "candidates": lists.hexdigest()[:32],
        "depth": depth,
        "systems": {
            name: getattr(ranker, "identity", type(ranker).__name__) for name, ranker in rankers.items()
        },
    }
    content = json.loads(json.dumps(content))
    file = folder / SYSTEMS_FILE
    if file.exists():
        before = read_json(file)
        changed = [key for key in content if not isinstance(before, dict) or before.get(key) != content[key]]
        if changed:
            raise InputError(
                f"{folder} holds runs that were made otherwise: {', '.join(changed)} changed; give another "
                "folder, or remove this one"
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_json(file, content)


def rank_with_resume(
    ranker: Ranker,
    queries: Sequence[Query],
    candidates: Run,
    documents: Mapping[str, Document],
    *,
    file: Path,
    depth: int | None,
    name: str,
    known: Mapping[str, RerankedList] | None = None,
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
        known: query id → what the same system made of the same list in another task.

    Raises:
        InputError: the file is damaged, or cannot be written.
    """
    done = _read(file)
    missing = [query for query in queries if query.query_id not in done]
    shared = [known[query.query_id] for query in missing if query.query_id in known] if known else []
    taken = {item.query_id for item in shared}
    left = [query for query in missing if query.query_id not in taken]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        stream = open(file, "ab")
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error})") from None
    with stream:
        for item in chain(shared, rerank(ranker, left, candidates, documents, depth=depth, name=name)):
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
                if not isinstance(record["query_id"], str):
                    raise ValueError("query_id is no text")
                documents = [
                    ScoredDocument(str(doc_id), float(score)) for doc_id, score in record["documents"]
                ]
                item = RerankedList(
                    record["query_id"], documents, int(record["reranked"]), float(record["seconds"])
                )
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                raise InputError(f"{file} line {number}: damaged ({error}); delete the line") from None
            if not all(math.isfinite(score) for _, score in item.documents):
                raise InputError(f"{file} line {number}: damaged (a score is not finite); delete the line")
            done[item.query_id] = item
    if end < file.stat().st_size:
        os.truncate(file, end)
    return done
