"""``queries.jsonl``: written queries, which any other tool can read too."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from instruct_distill.errors import InputError
from instruct_distill.files import read_jsonl, write_whole
from instruct_distill.query_writing.writing import WrittenQuery
from instruct_distill.records import Query


def save_queries(path: Path, queries: Iterable[WrittenQuery]) -> None:
    """Write one line a query, ``query_id``, ``text`` and ``document_id``: all lines, or no file."""
    with write_whole(path) as stream:
        for (query_id, text), document_id in queries:
            record = {"query_id": query_id, "text": text, "document_id": document_id}
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_written(path: Path) -> list[WrittenQuery]:
    """Return the queries of a file.

    Raises:
        InputError: the file is missing, or a line has not these three texts.
    """
    found = []
    for number, record in read_jsonl(path):
        texts = [record.get(key) for key in ("query_id", "text", "document_id")]
        if not all(isinstance(text, str) for text in texts):
            raise InputError(f"{path} line {number}: expected query_id, text and document_id")
        query_id, text, document_id = map(str, texts)
        found.append(WrittenQuery(Query(query_id, text), document_id))
    return found
