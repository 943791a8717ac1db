"""Judgement files: TREC's four columns, or BEIR's three with or without a header."""

from __future__ import annotations

import os
import re

from instruct_distill.errors import InputError
from instruct_distill.files import read_lines
from instruct_distill.records import Qrels

_WHITE_SPACE = re.compile(r"[ \t\r\f\v]+")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_HEADER_OF_GRADES = frozenset({"score", "relevance", "rel", "grade", "label"})


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """Return the judgements of a file: query id → document id → grade, in file order.

    Columns are separated by any white space: ``query iteration document grade`` (TREC; the second column
    is not used) or ``query document grade`` (BEIR). Files ending in ``.gz`` are unpacked.

    Raises:
        InputError: a line has another number of columns, a grade that is no whole number, or a second,
            different grade for a pair; or the file holds no judgement.
    """
    qrels: Qrels = {}
    width = 0
    for index, (number, line) in enumerate(read_lines(path)):
        columns = _WHITE_SPACE.split(line.strip(" \t\r\f\v"))
        where = f"{path} line {number}"
        if len(columns) not in (3, 4) or (width and len(columns) != width):
            expected = (
                f"{width}, as in the lines before it" if width else "3 (query document grade) or 4 (TREC)"
            )
            raise InputError(f"{where}: {len(columns)} columns; expected {expected}")
        width = len(columns)
        query_id, doc_id, grade = columns[0], columns[-2], columns[-1]
        if index == 0 and grade.lower() in _HEADER_OF_GRADES:
            continue
        if not _WHOLE_NUMBER.fullmatch(grade):
            raise InputError(
                f"{where}: grade {grade!r} of query {query_id!r}, document {doc_id!r} is no whole number; "
                "write grades as 0, 1, 2, ..."
            )
        before = qrels.setdefault(query_id, {}).setdefault(doc_id, int(grade))
        if before != int(grade):
            raise InputError(
                f"{where}: document {doc_id!r} has grade {grade} for query {query_id!r}, "
                f"but grade {before} in a line before it; remove one of them"
            )
    if not qrels:
        raise InputError(f"{path}: no judgements in the file")
    return qrels
