"""``files:FOLDER``: documents and queries as JSONL or TSV, judgements and candidates as TREC files.

For recommendations: dialogues are the queries, items the documents; popularity and excluded items as TSV.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Qrels, Query, Run
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.fingerprint import files_fingerprint
from instruct_distill.sources.item_files import read_excluded, read_popularity
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.sources.record_fields import read_documents, read_queries
from instruct_distill.trec import read_run

_LAYOUT = (
    "a folder of files has documents.jsonl or .tsv, and may have queries.jsonl or .tsv, qrels.txt or .tsv, "
    "candidates.trec, and for items popularity.tsv and excluded.tsv, each also with .gz"
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
        self._queries = _optional(folder, "queries.jsonl", "queries.tsv")
        self._qrels = _optional(folder, "qrels.txt", "qrels.tsv")
        self._candidates = _optional(folder, "candidates.trec")
        self._popularities = _optional(folder, "popularity.tsv")
        self._not_wanted = _optional(folder, "excluded.tsv")

    @cached_property
    def _all_queries(self) -> list[Query]:
        if self._queries is None:
            raise self.no_queries("queries.jsonl or queries.tsv")
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
        run.update(read_run(self._candidates))
        return run

    def popularity(self) -> dict[str, float] | None:
        """Return the numbers of ``popularity.tsv``, 0 for documents that it does not name, or None.

        Raises:
            InputError: the file names a document that is not there, or is not readable.
        """
        return self._popularity

    @cached_property
    def _popularity(self) -> dict[str, float] | None:
        if self._popularities is None:
            return None
        counted = read_popularity(self._popularities)
        found = {document.doc_id: counted.pop(document.doc_id, 0.0) for document in self.documents()}
        if counted:
            raise InputError(
                f"{self._popularities}: {len(counted)} documents are not in {self._documents.name} (the "
                f"first: {next(iter(counted))!r}); remove their lines"
            )
        return found

    def popularity_source(self) -> str | None:
        """See :class:`Collection`."""
        return None if self._popularities is None else f"the numbers in {self._popularities.name}"

    @cached_property
    def _excluded(self) -> dict[str, frozenset[str]]:
        return {} if self._not_wanted is None else read_excluded(self._not_wanted)

    def excluded(self, query_id: str) -> frozenset[str]:
        """Return the documents that ``excluded.tsv`` names for a query, such as items known to its user."""
        return self._excluded.get(query_id, frozenset())

    def fingerprint(self) -> str:
        """Return a digest of the file of documents."""
        return files_fingerprint([self._documents])


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
        InputError: the folder lacks documents, or has a file in two formats.
    """
    if not location:
        raise InputError(f"collection {name!r}: no folder; write files:FOLDER")
    return FilesCollection(name, Path(location))
