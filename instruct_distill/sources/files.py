"""``files:FOLDER``: documents and queries as JSONL or TSV, judgements and candidates as TREC files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from instruct_distill.errors import InputError
from instruct_distill.files import read_lines
from instruct_distill.records import Document, Qrels, Query, Run, ScoredDocument
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.fingerprint import files_fingerprint
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.sources.record_fields import read_documents, read_queries

# The white space of C's isspace, as in trec_eval: a no-break space is part of an id.
_FIELD = re.compile(r"[^ \t\n\v\f\r]+")
_LAYOUT = (
    "a folder of files has documents.jsonl or .tsv, queries.jsonl or .tsv, and may have qrels.txt or .tsv "
    "and candidates.trec, each also with .gz"
)


class FilesCollection(Collection):
    """A folder of plain files.

    Args:
        name: as it stands in a recipe.
        folder: the folder.
    """

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name)
        self._documents = _required(folder, "documents.jsonl", "documents.tsv")
        self._queries = _required(folder, "queries.jsonl", "queries.tsv")
        self._qrels = _optional(folder, "qrels.txt", "qrels.tsv")
        self._candidates = _optional(folder, "candidates.trec")

    @cached_property
    def _all_queries(self) -> list[Query]:
        return read_queries(self._queries)

    def queries(self, split: str | None = None) -> list[Query]:
        """Return the queries in file order."""
        self.check_split(split)
        return list(self._all_queries)

    def documents(self) -> Iterator[Document]:
        """Yield the documents in file order."""
        return read_documents(self._documents)

    def qrels(self, split: str | None = None) -> Qrels | None:
        """Return the judgements of ``qrels.txt`` or ``qrels.tsv``, or None where there is no such file."""
        self.check_split(split)
        return None if self._qrels is None else read_qrels(self._qrels)

    def given(self) -> Run | None:
        """Return the lists of ``candidates.trec``, or None where there is no such file.

        Lists are ordered by score; equal scores keep the order of the file. A query that the file does
        not name has an empty list.
        """
        if self._candidates is None:
            return None
        run: Run = {query.query_id: [] for query in self._all_queries}
        for query_id, document in _candidate_lines(self._candidates):
            run.setdefault(query_id, []).append(document)
        return {query_id: sorted(ranked, key=lambda d: -d.score) for query_id, ranked in run.items()}

    def fingerprint(self) -> str:
        """Return a digest of the file of documents."""
        return files_fingerprint([self._documents])


def _candidate_lines(path: Path) -> Iterator[tuple[str, ScoredDocument]]:
    seen: set[tuple[str, str]] = set()
    for number, line in read_lines(path):
        columns = _FIELD.findall(line)
        where = f"{path} line {number}"
        if len(columns) != 6:
            raise InputError(f"{where}: {len(columns)} columns; expected 6: query Q0 document rank score tag")
        query_id, _, doc_id, _, written, _ = columns
        try:
            score = float(written)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise InputError(
                f"{where}: score {written!r} of query {query_id!r}, document {doc_id!r} is no number"
            )
        if (query_id, doc_id) in seen:
            raise InputError(f"{where}: document {doc_id!r} stands twice in the list of query {query_id!r}")
        seen.add((query_id, doc_id))
        yield query_id, ScoredDocument(doc_id, score)


def _optional(folder: Path, *names: str) -> Path | None:
    """Return the one file of these names, plain or packed; None where there is none."""
    found = [folder / each for name in names for each in (name, f"{name}.gz") if (folder / each).is_file()]
    if len(found) > 1:
        raise InputError(
            f"{folder}: {' and '.join(path.name for path in found)} stand side by side; keep one"
        )
    return found[0] if found else None


def _required(folder: Path, *names: str) -> Path:
    path = _optional(folder, *names)
    if path is None:
        raise InputError(f"{folder}: no {' or '.join(names)}; {_LAYOUT}")
    return path


def open_collection(name: str, location: str) -> Collection:
    """Open a folder of plain files.

    Raises:
        InputError: the folder lacks documents or queries, or has a file in two formats.
    """
    if not location:
        raise InputError(f"collection {name!r}: no folder; write files:FOLDER")
    return FilesCollection(name, Path(location))
