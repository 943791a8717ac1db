"""Ids and texts as they leave a file: strings, exactly as written, or an error with file and line."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from instruct_distill.errors import InputError
from instruct_distill.files import LONE_SURROGATE, read_jsonl, read_lines, refuse_halves
from instruct_distill.records import Document, Query

ID_KEYS = ("_id", "id", "doc_id", "docid", "query_id", "qid")
TEXT_KEYS = ("text", "contents", "content")


def id_field(value: object, where: str, key: str) -> str:
    """Return an id as a string; whole JSON numbers are converted (7 → ``7``), strings are left alone.

    Raises:
        InputError: the value is empty, null, a boolean, a container, a number with fraction or exponent,
            or holds half of a surrogate pair.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        refuse_halves(value, f"{where}: {key!r}")
        return value
    raise InputError(f"{where}: {key!r} is {value!r}; expected an id: a string, or a whole number")


def text_field(value: object, where: str, key: str) -> str:
    """Return a text as a string; null is an empty text and a whole JSON number its digits.

    Raises:
        InputError: the value is a number with a fraction or exponent (its spelling is lost), a boolean or
            a container.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value if value.isascii() else LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise InputError(f"{where}: {key!r} is {value!r}; expected a text in quotation marks")


def first_key(record: Mapping[str, Any], keys: Sequence[str], where: str) -> str:
    """Return the first of the keys that the record has.

    Raises:
        InputError: it has none of them.
    """
    for key in keys:
        if key in record:
            return key
    wanted = " or ".join(repr(key) for key in keys)
    raise InputError(
        f"{where}: no field {wanted} (the record has: {', '.join(map(repr, record)) or 'nothing'})"
    )


def read_queries(path: Path) -> list[Query]:
    """Return the queries of a JSONL file, or of a TSV file of ``id TAB text``, in file order.

    Raises:
        InputError: a record lacks a field, or has a value of the wrong kind, or repeats an id.
    """
    queries = []
    lines: dict[str, int] = {}
    for number, query_id, _, text in _records(path, title_allowed=False):
        _refuse_repeated(path, "query", query_id, lines.setdefault(query_id, number), number)
        queries.append(Query(query_id, text))
    return queries


def read_documents(path: Path) -> Iterator[Document]:
    """Yield the documents of a JSONL file, or of a TSV file of ``id TAB [title TAB] text``, in file order.

    Eight bytes a document are kept in memory; repeated ids are reported once the file is read to its end.

    Raises:
        InputError: a record lacks a field, or has a value of the wrong kind, or repeats an id.
    """
    hashes = array("q")
    for _, doc_id, title, text in _records(path, title_allowed=True):
        hashes.append(hash(doc_id))
        yield Document(doc_id, text, title)
    ordered = np.sort(np.frombuffer(hashes, dtype=np.int64)) if hashes else np.empty(0, dtype=np.int64)
    suspects = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    if suspects:  # two equal ids, or two ids of one hash: a second look tells
        lines: dict[str, int] = {}
        for number, doc_id, _, _ in _records(path, title_allowed=True):
            if hash(doc_id) in suspects:
                _refuse_repeated(path, "document", doc_id, lines.setdefault(doc_id, number), number)


def _refuse_repeated(path: Path, kind: str, record_id: str, first: int, number: int) -> None:
    if first != number:
        raise InputError(
            f"{path} line {number}: {kind} id {record_id!r} stands in line {first} already; "
            "ids must be unique, remove or rename one of them"
        )


def _records(path: Path, *, title_allowed: bool) -> Iterator[tuple[int, str, str, str]]:
    """Yield (line number, id, title, text)."""
    is_tsv = path.name.removesuffix(".gz").endswith(".tsv")
    return _tsv_records(path, title_allowed=title_allowed) if is_tsv else _jsonl_records(path)


def _jsonl_records(path: Path) -> Iterator[tuple[int, str, str, str]]:
    for number, record in read_jsonl(path):
        where = f"{path} line {number}"
        id_key = first_key(record, ID_KEYS, where)
        text_key = first_key(record, TEXT_KEYS, where)
        yield (
            number,
            id_field(record[id_key], where, id_key),
            text_field(record.get("title"), where, "title"),
            text_field(record[text_key], where, text_key),
        )


def _tsv_records(path: Path, *, title_allowed: bool) -> Iterator[tuple[int, str, str, str]]:
    widths = (2, 3) if title_allowed else (2,)
    layout = "id TAB text, or id TAB title TAB text" if title_allowed else "id TAB text"
    width = 0
    for index, (number, line) in enumerate(read_lines(path)):
        columns = line.split("\t")
        where = f"{path} line {number}"
        if len(columns) not in widths:
            raise InputError(f"{where}: {len(columns)} columns; expected {layout}")
        if width and len(columns) != width:
            raise InputError(f"{where}: {len(columns)} columns, but the lines before it have {width}")
        width = len(columns)
        if index == 0 and columns[0] in ID_KEYS and columns[-1] in TEXT_KEYS:
            continue  # a header
        title = columns[1] if width == 3 else ""
        yield number, id_field(columns[0], where, "id"), title, columns[-1]
