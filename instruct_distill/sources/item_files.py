"""What a collection of items may say besides their texts: how popular they are, and what is no candidate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from instruct_distill.errors import InputError
from instruct_distill.files import read_lines


def read_popularity(path: Path) -> dict[str, float]:
    """Return document id → popularity of a file of ``document id TAB number``, such as a number of sales.

    Raises:
        InputError: a line has another form, a number below 0, or a document that stands there already.
    """
    found: dict[str, float] = {}
    for where, doc_id, number in _pairs(path, "document id TAB number"):
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise InputError(f"{where}: popularity {number!r}; expected a number from 0")
        if doc_id in found:
            raise InputError(f"{where}: document {doc_id!r} stands in a line before; remove one of them")
        found[doc_id] = value
    return found


def read_excluded(path: Path) -> dict[str, frozenset[str]]:
    """Return query id → documents of a file of ``query id TAB document id``.

    Raises:
        InputError: a line has another form.
    """
    found: dict[str, set[str]] = {}
    for _, query_id, doc_id in _pairs(path, "query id TAB document id"):
        found.setdefault(query_id, set()).add(doc_id)
    return {query_id: frozenset(doc_ids) for query_id, doc_ids in found.items()}


def _pairs(path: Path, layout: str) -> Iterator[tuple[str, str, str]]:
    """Yield (file and line, first column, second column)."""
    for number, line in read_lines(path):
        where = f"{path} line {number}"
        first, tab, second = line.partition("\t")
        if not (tab and first.strip() and second.strip()) or "\t" in second:
            raise InputError(f"{where}: {line!r}; expected {layout}")
        yield where, first, second
