"""Label files as a user handles them: is this one whole, and how do several become one?"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.files import write_whole
from instruct_distill.labels import (
    Line,
    fingerprint_of,
    from_record,
    header_line,
    label_lines,
    parse_line,
    read_header,
    read_labels,
)
from instruct_distill.records import ListLabel, Run

_OF_THE_LISTS = ("lists", "texts")
"""Fields of a fingerprint that say which lists were labelled; all others say how."""


class Verified(NamedTuple):
    """What the check of a label file found.

    Args:
        lists: whole lines with a label.
        problems: one sentence a problem, in the order of the file.
    """

    lists: int
    problems: list[str]


def verify_labels(path: str | os.PathLike[str], candidates: Run | None = None) -> Verified:
    """Check every line of a label file: header, numbers, indices, duplicates, and a torn end.

    Args:
        path: the file.
        candidates: the lists that were labelled: each label must have its list's documents, in the list's
            order, and each list must have a label.

    Raises:
        InputError: the file is missing.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such label file")
    problems: list[str] = []
    line_of: dict[str, int] = {}
    fingerprint: dict[str, Any] = {}
    whole = number = 0
    with open(path, "rb") as stream:
        for number, raw in enumerate(stream, start=1):
            where = f"{path} line {number}"
            if not raw.endswith(b"\n"):
                problems.append(f"{where}: torn; a run that goes on labels that query again")
                continue
            try:
                record = parse_line(raw, where)
                if number == 1:
                    fingerprint = fingerprint_of(record, where)
                    continue
                label = from_record(record, where)
            except InputError as error:
                problems.append(str(error))
                continue
            whole += 1
            problems += (f"{where}: {problem}" for problem in _problems(label, line_of, candidates))
            line_of.setdefault(label.query_id, number)
    if number == 0:
        problems.append(f"{path}: empty; a label file begins with a header")
    promised = fingerprint.get("lists")
    if isinstance(promised, int) and promised != len(line_of):
        problems.append(f"{path}: the header promises {promised} lists, {len(line_of)} are there")
    missing = [query_id for query_id in candidates or {} if query_id not in line_of]
    if missing:
        problems.append(f"{path}: {len(missing)} candidate lists have no label (the first: {missing[0]!r})")
    return Verified(whole, problems)


def _problems(label: ListLabel, line_of: Mapping[str, int], candidates: Run | None) -> Iterator[str]:
    """Yield what is wrong with one label."""
    query_id = label.query_id
    if query_id in line_of:
        yield f"query {query_id!r} has a label already (line {line_of[query_id]}); delete one of the two"
    if len(set(label.doc_ids)) < len(label.doc_ids):
        twice = next(d for position, d in enumerate(label.doc_ids) if d in label.doc_ids[:position])
        yield f"document {twice!r} is twice in the list of query {query_id!r}"
    if candidates is None:
        return
    # a list without candidates leaves no line in a candidate file
    expected = [document.doc_id for document in candidates.get(query_id, [])]
    if query_id not in candidates and label.doc_ids:
        yield f"query {query_id!r} is not in the candidate file"
    elif set(expected) != set(label.doc_ids):
        yield (
            f"query {query_id!r} has {len(label.doc_ids)} documents, its candidates are {len(expected)}, "
            f"{len(set(expected) & set(label.doc_ids))} of them the same"
        )
    elif list(label.doc_ids) != expected:
        yield f"the documents of query {query_id!r} are not in the order of the candidate file"


def find_label(path: str | os.PathLike[str], query_id: str) -> ListLabel:
    """Return a query's label.

    Raises:
        InputError: the file is missing or damaged, or has no such query.
    """
    first = None
    count = 0
    for label in read_labels(path):
        if label.query_id == query_id:
            return label
        first, count = first or label.query_id, count + 1
    known = f"it has {count}, the first is {first!r}" if first else "it has none"
    raise InputError(f"{path}: no label of query {query_id!r} ({known})")


def merge_labels(
    files: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    candidates: Run | None = None,
) -> int:
    """Put label files of different queries, or the shards of one run, together into one file.

    All must have been made alike: the fingerprints are equal but for the fields that say which lists were
    labelled. Where those differ, the new header has the sum of the lists and a digest of the texts' digests.
    Lines are copied as they are, one at a time.

    Args:
        files: the files; a torn last line is left out.
        target: the file to make.
        candidates: labels are put into the order of these lists, those without a list last; without it, the
            order is that of the files.

    Returns:
        the number of labels.

    Raises:
        InputError: the files were made differently, have a query in common or are damaged, or the target is
            there already.
    """
    paths = [Path(file) for file in files]
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such label file")
    if Path(target).exists():
        raise InputError(f"{target} is there already; choose another name, or move it aside")
    header = _common_header(paths)
    places: dict[str, tuple[int, Line]] = {}
    for number, path in enumerate(paths):
        for line in label_lines(path):
            if line.query_id in places:
                raise InputError(
                    f"{path}: query {line.query_id!r} has a label in {paths[places[line.query_id][0]]} "
                    "already; files that are merged have different queries"
                )
            places[line.query_id] = number, line
    order = list(places)
    if candidates is not None:
        order = [query_id for query_id in candidates if query_id in places]
        order += [query_id for query_id in places if query_id not in candidates]
    with contextlib.ExitStack() as opened:
        sources = [opened.enter_context(open(path, "rb")) for path in paths]
        stream = opened.enter_context(write_whole(target, "wb"))
        stream.write(header_line(header).encode("utf-8"))
        for query_id in order:
            number, line = places[query_id]
            sources[number].seek(line.start)
            stream.write(sources[number].read(line.end - line.start))
    return len(order)


def _common_header(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the fingerprint of the merged file."""
    headers = [read_header(path) for path in paths]
    first = headers[0]
    for path, other in zip(paths, headers, strict=True):
        changed = [
            f"{key}: {first.get(key)!r} and {other.get(key)!r}"
            for key in {**first, **other}
            if key not in _OF_THE_LISTS and first.get(key) != other.get(key)
        ]
        if changed:
            raise InputError(f"{paths[0]} and {path} were made differently ({'; '.join(changed)})")
    parts = {json.dumps([header.get(key) for key in _OF_THE_LISTS]): header for header in headers}
    if len(parts) == 1:
        return first
    texts = "\n".join(str(header.get("texts")) for header in parts.values())
    together = {
        "lists": sum(int(header.get("lists", 0)) for header in parts.values()),
        "texts": hashlib.sha256(texts.encode("utf-8")).hexdigest()[:32],
    }
    return {**first, **together}
