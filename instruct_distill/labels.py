"""The label file: what the teacher said, one line a query, append-only and resumable at any byte.

The first line is a header with the fingerprint of everything that the labels depend on. Work is done in
chunks of consecutive queries; a chunk whose lines are not all there is done again as a whole, so that a
killed and resumed run gives the same bytes as an undisturbed one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from instruct_distill.errors import InputError
from instruct_distill.files import refuse_halves, write_whole
from instruct_distill.records import Comparison, ListLabel

FORMAT = 1


def _number(value: float) -> float:
    """The shortest decimal that is the same float32: short lines, nothing lost."""
    return float(str(np.float32(value)))


def to_line(label: ListLabel) -> str:
    """Write a label as one line of JSON, line end included.

    Raises:
        InputError: a score or margin is not finite, or an id holds half of a surrogate pair.
    """
    numbers = [*label.scores, *(comparison.margin for comparison in label.comparisons)]
    if not all(map(math.isfinite, numbers)):
        raise InputError(f"label of query {label.query_id!r} has a score or margin that is not finite")
    record = {
        "query_id": label.query_id,
        "doc_ids": list(label.doc_ids),
        "scores": [_number(score) for score in label.scores],
        "comparisons": [[first, second, _number(margin)] for first, second, margin in label.comparisons],
    }
    line = json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
    refuse_halves(line, f"label of query {label.query_id!r}")
    return line


def from_record(record: Mapping[str, Any], where: str) -> ListLabel:
    """Read a label from a line's object.

    Raises:
        InputError: keys are missing, or lengths or indices do not fit; the message starts with ``where``.
    """
    query_id, doc_ids = record.get("query_id"), record.get("doc_ids")
    scores, comparisons = record.get("scores"), record.get("comparisons")
    advice = "delete the line to have it labelled again"
    if not (
        isinstance(query_id, str)
        and isinstance(doc_ids, list)
        and isinstance(scores, list)
        and isinstance(comparisons, list)
    ):
        raise InputError(f"{where}: expected query_id, doc_ids, scores and comparisons; {advice}")
    if len(scores) != len(doc_ids):
        raise InputError(
            f"{where}: {len(scores)} scores for {len(doc_ids)} documents of query {query_id!r}; {advice}"
        )
    try:
        read = tuple(
            Comparison(int(first), int(second), float(margin)) for first, second, margin in comparisons
        )
        numbers = tuple(float(score) for score in scores)
    except (TypeError, ValueError, OverflowError):  # also a whole number beyond float, or Infinity as a place
        raise InputError(
            f"{where}: a score or comparison of query {query_id!r} is no number; {advice}"
        ) from None
    n = len(doc_ids)
    if not all(0 <= c.first < n and 0 <= c.second < n and c.first != c.second for c in read):
        raise InputError(
            f"{where}: a comparison of query {query_id!r} names no pair of its {n} documents; {advice}"
        )
    if not all(map(math.isfinite, [*numbers, *(c.margin for c in read)])):
        raise InputError(f"{where}: query {query_id!r} has a number that is not finite; {advice}")
    return ListLabel(query_id, tuple(map(str, doc_ids)), numbers, read)


def parse_line(raw: bytes, where: str) -> dict[str, Any]:
    """Return the object of a whole line.

    Raises:
        InputError: it is no JSON object; the message starts with ``where``.
    """
    try:
        record = json.loads(raw.decode("utf-8"))
        if not isinstance(record, dict):
            raise ValueError("not an object")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: damaged ({error}); delete the line to have it labelled again") from None
    return record


def fingerprint_of(header: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the fingerprint of a header.

    Raises:
        InputError: it is no header of this format; the message starts with ``where``.
    """
    fingerprint = header.get("fingerprint")
    if header.get("labels") != FORMAT or not isinstance(fingerprint, dict):
        raise InputError(f"{where}: expected a header with labels: {FORMAT} and a fingerprint")
    return fingerprint


def header_line(fingerprint: Mapping[str, Any]) -> str:
    """Write the first line of a label file, line end included."""
    return json.dumps({"labels": FORMAT, "fingerprint": fingerprint}, ensure_ascii=False) + "\n"


def _complete_lines(path: Path, lines: int = 0, end: int = 0) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield (line number, end offset, object) of every complete line; a torn last line is passed over.

    Args:
        path: the file.
        lines: lines that are left out, since they were read before.
        end: the end offset of the last one of these.

    Raises:
        InputError: a line other than a torn last one is no JSON object.
    """
    with open(path, "rb") as stream:
        stream.seek(end)
        for number, raw in enumerate(stream, start=lines + 1):
            if not raw.endswith(b"\n"):
                return
            end += len(raw)
            yield number, end, parse_line(raw, f"{path} line {number}")


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the fingerprint in a label file's first line.

    Raises:
        InputError: the file has no whole header.
    """
    path = Path(path)
    for _, _, record in _complete_lines(path):
        return fingerprint_of(record, f"{path} line 1")
    raise InputError(f"{path}: no whole header line")


def read_labels(path: str | os.PathLike[str]) -> Iterator[ListLabel]:
    """Yield the labels of a finished file, one at a time.

    Raises:
        InputError: the file is missing or damaged.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such label file; run the label stage first")
    read_header(path)
    for number, _, record in _complete_lines(path):
        if number > 1:
            yield from_record(record, f"{path} line {number}")


class Line(NamedTuple):
    """Where a label stands.

    Args:
        query_id: whose label it is.
        start: offset of its first byte.
        end: offset behind its line end.
    """

    query_id: str
    start: int
    end: int


def label_lines(path: str | os.PathLike[str]) -> Iterator[Line]:
    """Yield the places of the labels of a file, each checked; a torn last line is passed over.

    Raises:
        InputError: a line is damaged.
    """
    start = 0
    for number, end, record in _complete_lines(Path(path)):
        if number > 1:
            yield Line(from_record(record, f"{path} line {number}").query_id, start, end)
        start = end


class LabelStore:
    """Labels of a run as they are made: by one process into the file itself, by several into a shard each.

    Of the labels nothing stays in memory, of the queries their ids and a few bytes each.

    Args:
        path: the label file.
        fingerprint: everything that the labels depend on, as flat JSON values.
        chunks: the query ids of each chunk, in candidate-file order.
        rank: number of this process.
        processes: number of processes.

    Raises:
        InputError: the file was made with another fingerprint (the message names the fields), or is damaged.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fingerprint: Mapping[str, Any],
        chunks: Sequence[Sequence[str]],
        *,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        self.path = Path(path)
        self.fingerprint = dict(fingerprint)
        self.chunks = [tuple(chunk) for chunk in chunks]
        self.rank, self.processes = rank, processes
        self._own = self.path if processes == 1 else self._shard(rank)
        self._chunk_of_row = array("q", (i for i, chunk in enumerate(self.chunks) for _ in chunk))
        self._row_of = {query_id: row for row, query_id in enumerate(chain.from_iterable(self.chunks))}
        self._read: dict[Path, tuple[int, int]] = {}
        self._done: set[int] = set()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._open_own()
        self._read_new_chunks()

    def pending(self) -> list[int]:
        """Return the numbers of the chunks that this process has still to do."""
        mine = range(self.rank, len(self.chunks), self.processes)
        return [chunk for chunk in mine if chunk not in self._done]

    def finished_queries(self) -> int:
        """Return the number of queries whose labels are on the disk, this process's and the others'."""
        return sum(len(self.chunks[chunk]) for chunk in self._done)

    def append(self, chunk: int, labels: Iterable[ListLabel]) -> None:
        """Write a chunk's labels and flush them to the disk."""
        text = "".join(map(to_line, labels))
        with open(self._own, "ab") as stream:
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        self._done.add(chunk)

    def complete(self) -> bool:
        """Whether every chunk is on the disk, whoever wrote it; what was seen before is not read again."""
        if len(self._done) < len(self.chunks):
            self._read_new_chunks()
        return len(self._done) == len(self.chunks)

    def merge(self) -> None:
        """Put the shards together into the label file, in candidate-file order, and remove them."""
        shards = self._shards()
        if not shards:
            return
        files = [file for file in [self.path, *shards] if file.exists()]
        # of every query the file and the first and last byte: a label is in memory while it is copied
        places = np.zeros((len(self._row_of), 3), dtype=np.int64)
        for number, file in enumerate(files):
            for query_id, start, end in label_lines(file):
                if query_id in self._row_of:
                    places[self._row_of[query_id]] = number, start, end
        with contextlib.ExitStack() as opened:
            sources = [opened.enter_context(open(file, "rb")) for file in files]
            target = opened.enter_context(write_whole(self.path, "wb"))
            target.write(header_line(self.fingerprint).encode("utf-8"))
            for place in places:
                number, start, end = map(int, place)
                sources[number].seek(start)
                target.write(sources[number].read(end - start))
        for shard in shards:
            shard.unlink()

    def _chunk_of(self, query_id: str) -> int | None:
        """Return the number of a query's chunk; None for one that is in none."""
        row = self._row_of.get(query_id)
        return None if row is None else self._chunk_of_row[row]

    def _shard(self, rank: int) -> Path:
        return self.path.with_name(f"{self.path.name}.process-{rank}")

    def _shards(self) -> list[Path]:
        return sorted(self.path.parent.glob(f"{self.path.name}.process-*"))

    def _open_own(self) -> None:
        """Start the file, or cut it back to its last whole chunk."""
        if self._own.exists():
            keep, unfinished, missing, whole = 0, 0, set[str](), set[int]()
            for number, end, record in _complete_lines(self._own):
                if number == 1:
                    self._compare(record, self._own)
                    keep = end
                    continue
                query_id = from_record(record, f"{self._own} line {number}").query_id
                chunk = self._chunk_of(query_id)
                if chunk is None:
                    raise InputError(
                        f"{self._own} line {number}: query {query_id!r} is not in the candidate file"
                    )
                if not missing and chunk not in whole:
                    missing = set(self.chunks[chunk])
                if query_id not in missing:
                    raise InputError(
                        f"{self._own} line {number}: query {query_id!r} stands there out of its place or "
                        "twice; lines before it are missing or were moved. Restore the file, or delete it "
                        "to label again"
                    )
                missing.discard(query_id)
                unfinished = number
                if not missing:
                    keep, unfinished = end, 0
                    whole.add(chunk)
            if keep:
                if unfinished or keep < self._own.stat().st_size:
                    os.truncate(self._own, keep)
                return
        with write_whole(self._own) as stream:
            stream.write(header_line(self.fingerprint))

    def _compare(self, header: dict[str, Any], file: Path) -> None:
        there = fingerprint_of(header, f"{file} line 1")
        changed = [
            key for key in {**there, **self.fingerprint} if there.get(key) != self.fingerprint.get(key)
        ]
        if changed:
            what = "; ".join(
                f"{key}: {there.get(key)!r} there, {self.fingerprint.get(key)!r} now" for key in changed
            )
            raise InputError(
                f"{file} was made with other settings ({what}); choose another name=, or redo=label "
                "(the old file is moved aside)"
            )

    def _read_new_chunks(self) -> None:
        """Note the chunks that were finished since the last look, by any process.

        A file is remembered up to its last whole chunk: what follows may be cut off by the process that it
        belongs to, and be written anew.
        """
        for file in [self.path, *self._shards()]:
            if not file.exists():
                continue
            missing, chunk = set[str](), -1
            for number, end, record in _complete_lines(file, *self._read.get(file, (0, 0))):
                if number == 1:
                    self._compare(record, file)
                    self._read[file] = number, end
                    continue
                query_id = str(record.get("query_id"))
                here = self._chunk_of(query_id)
                if here is None:
                    continue
                if here != chunk:
                    chunk = here
                    missing = set(self.chunks[chunk])
                missing.discard(query_id)
                if not missing:
                    self._done.add(chunk)
                    self._read[file] = number, end
