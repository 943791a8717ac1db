"""TREC files: runs (query, Q0, document, rank, score, tag), and judgements as they are written."""

from __future__ import annotations

import codecs
import math
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.files import read_lines, refuse_halves, write_whole
from instruct_distill.records import Qrels, Run, ScoredDocument

# The white space of C's isspace, as in trec_eval: a no-break space is part of an id.
_FIELD = re.compile(r"[^ \t\n\v\f\r]+")


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a run, each list best first.

    The order is that of the scores; equal ones are in the order of their ranks, then of the lines. A query
    without documents cannot stand in such a file: who needs it takes the queries from elsewhere.

    Raises:
        InputError: a line has not six fields, a rank that is no whole number, a score that is no finite
            number, or a document that the query has already; the message has file and line.
    """
    lists: dict[str, list[_Row]] = {}
    for number, line in read_lines(path):
        query_id, row = _row(line, path, number)
        lists.setdefault(query_id, []).append(row)
    return {query_id: _ordered(rows, query_id, path) for query_id, rows in lists.items()}


class RunFile(Mapping[str, list[ScoredDocument]]):
    """A run as :func:`write_run` leaves it, read one list at a time: of a list its place is in memory.

    Args:
        path: the file; the lines of each query stand together.

    Raises:
        InputError: the file is missing, or the lines of a query do not stand together; a malformed line is
            reported, with its number, when its list is read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._rows: dict[str, int] = {}
        self._places = array("q")  # offset, number of the first line and number of lines of each list
        if not self._path.is_file():
            raise InputError(f"{path}: no such file")
        offset, previous = 0, b""
        with open(self._path, "rb") as stream:
            for number, raw in enumerate(stream, start=1):
                if number == 1 and raw.startswith(codecs.BOM_UTF8):
                    raw, offset = raw[3:], 3
                query = next(iter(raw.split(maxsplit=1)), b"")
                if query and query != previous:
                    query_id = _decoded(query, self._path, number)
                    if query_id in self._rows:
                        raise InputError(
                            f"{path} line {number}: more lines of query {query_id!r}, which begins at line "
                            f"{self._place(query_id)[1]}; put the lines of each query together"
                        )
                    self._rows[query_id] = len(self._rows)
                    self._places.extend((offset, number, 0))
                    previous = query
                if query:
                    self._places[-1] += 1
                offset += len(raw)

    def __getitem__(self, query_id: str) -> list[ScoredDocument]:
        """Read a list, best first."""
        offset, first, count = self._place(query_id)
        rows: list[_Row] = []
        with open(self._path, "rb") as stream:
            stream.seek(offset)
            for number, raw in enumerate(stream, start=first):
                if len(rows) == count:
                    break
                if raw.strip():
                    rows.append(_row(_decoded(raw, self._path, number), self._path, number)[1])
        return _ordered(rows, query_id, self._path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def count(self, query_id: str) -> int:
        """Return the number of documents of a query, 0 for one that the file does not name."""
        return self._place(query_id)[2] if query_id in self._rows else 0

    def _place(self, query_id: str) -> tuple[int, int, int]:
        row = 3 * self._rows[query_id]
        offset, first, count = self._places[row : row + 3]
        return offset, first, count


def _decoded(raw: bytes, path: Path, number: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} line {number}: not UTF-8 ({error})") from None


class _Row(NamedTuple):
    """A line of a run without its query."""

    rank: int
    document: ScoredDocument
    number: int


def _row(line: str, path: str | os.PathLike[str], number: int) -> tuple[str, _Row]:
    """Read a line of a run."""
    fields = _FIELD.findall(line)
    if len(fields) != 6:
        raise InputError(
            f"{path} line {number}: {len(fields)} fields; a run has 6 (query Q0 document rank score "
            "tag), and ids hold no white space"
        )
    query_id, _, doc_id, rank_text, score_text, _ = fields
    try:
        rank = int(rank_text)
    except ValueError:
        raise InputError(
            f"{path} line {number}: rank {rank_text!r} is not a whole number "
            "(a run has the fields query Q0 document rank score tag)"
        ) from None
    return query_id, _Row(rank, ScoredDocument(doc_id, _finite(score_text, f"{path} line {number}")), number)


def _ordered(rows: list[_Row], query_id: str, path: str | os.PathLike[str]) -> list[ScoredDocument]:
    """Return the documents of a list, best first."""
    seen: dict[str, int] = {}
    for row in rows:
        first = seen.setdefault(row.document.doc_id, row.number)
        if first != row.number:
            raise InputError(
                f"{path} line {row.number}: document {row.document.doc_id!r} is in the list of query "
                f"{query_id!r} already (line {first}); delete one of the two lines"
            )
    return [row.document for row in sorted(rows, key=lambda row: (-row.document.score, row.rank))]


def write_run(path: str | os.PathLike[str], run: Run, tag: str) -> None:
    """Write a run in the order given, complete or not at all.

    trec_eval ignores the rank, reads scores in single precision and sorts equal ones by document id. So that
    it sees the order given, a score that is not below the one before it, as float32, is lowered to the next
    float32 below that one. Queries with an empty list leave no line.

    Args:
        path: the file.
        run: the lists, best first.
        tag: name of the system, the last field of each line.

    Raises:
        InputError: an id or the tag is empty or holds white space, a NUL, half of a surrogate pair or a byte
            order mark in front, or a list has a document twice.
        NonFiniteScoreError: a score is NaN, infinite or beyond float32.
    """
    with write_whole(path) as stream:
        for query_id, documents in run.items():
            for line in run_lines(query_id, documents, tag, where=f"{path}: "):
                stream.write(line + "\n")


def run_lines(
    query_id: str, documents: Iterable[tuple[str, float]], tag: str, *, where: str = ""
) -> Iterator[str]:
    """Yield the lines of one query's list, as :func:`write_run` writes them.

    Args:
        query_id: the query.
        documents: (document id, score), best first.
        tag: name of the system.
        where: begins an error's message.

    Raises:
        InputError: as :func:`write_run`.
        NonFiniteScoreError: as :func:`write_run`.
    """
    _check_field("tag", tag)
    _check_field("query id", query_id)
    seen: set[str] = set()
    previous = np.float32(np.inf)
    for rank, (doc_id, exact) in enumerate(documents, start=1):
        _check_field("document id", doc_id)
        if doc_id in seen:
            raise InputError(f"{where}document {doc_id!r} is twice in the list of query {query_id!r}")
        seen.add(doc_id)
        with np.errstate(over="ignore"):
            score = np.float32(exact)
        if np.isfinite(score) and score >= previous:
            score = np.nextafter(previous, np.float32(-np.inf))
        if not np.isfinite(score):
            raise NonFiniteScoreError(
                f"{where}query {query_id!r}, document {doc_id!r}: score {exact} is not a finite "
                "single-precision number"
            )
        previous = score
        # str gives the shortest number that reads back as the same float32.
        yield f"{query_id} Q0 {doc_id} {rank} {score!s} {tag}"


def write_qrels(path: str | os.PathLike[str], qrels: Qrels) -> None:
    """Write judgements in TREC's form (query, 0, document, grade), complete or not at all.

    Raises:
        InputError: an id cannot stand there, as in :func:`write_run`.
    """
    with write_whole(path) as stream:
        for query_id, grades in qrels.items():
            _check_field("query id", query_id)
            for doc_id, grade in grades.items():
                _check_field("document id", doc_id)
                stream.write(f"{query_id} 0 {doc_id} {grade}\n")


def _finite(text: str, where: str) -> float:
    """Return the number that a score field holds."""
    try:
        # float() would read 1_000 as well, which no other reader of runs does.
        score = math.nan if "_" in text else float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{where}: score {text!r} is not a finite number")
    return score


def _check_field(kind: str, text: str) -> None:
    if not _FIELD.fullmatch(text):
        raise InputError(
            f"{kind} {text!r} cannot stand in a TREC run: it is empty or holds white space, which separates "
            "the fields; replace it, in documents, queries and judgements alike"
        )
    if "\0" in text or text.startswith("\ufeff"):
        what = "a NUL, at which trec_eval ends it" if "\0" in text else "a byte order mark in front"
        raise InputError(
            f"{kind} {text!r} cannot stand in a TREC run: it has {what}; remove it, in documents, "
            "queries and judgements alike"
        )
    refuse_halves(text, f"{kind} {text!r} cannot stand in a TREC run")
