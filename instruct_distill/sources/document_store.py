"""Documents that lie on the disk and are read one by one: memory does not grow with their number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, ValuesView

from instruct_distill.records import Document


class DocumentStore(Mapping[str, Document]):
    """Document id → document, in a temporary file.

    The file is SQLite's own kind of temporary one: in the folder that ``SQLITE_TMPDIR`` or ``TMPDIR`` names,
    else ``/var/tmp``, without a name, so that it is gone when the process ends, however it ends.

    Args:
        documents: what is kept.
    """

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("CREATE TABLE documents (doc_id TEXT UNIQUE, text TEXT, title TEXT)")
        self.add(documents)

    def add(self, documents: Iterable[Document]) -> None:
        """Put documents in; one whose id is there already changes nothing."""
        self._database.execute("BEGIN")
        self._database.executemany("INSERT OR IGNORE INTO documents VALUES (?, ?, ?)", documents)
        self._database.execute("COMMIT")

    def __getitem__(self, doc_id: str) -> Document:
        """Read one document."""
        found = self._database.execute("SELECT * FROM documents WHERE doc_id = ?", (doc_id,)).fetchone()
        if found is None:
            raise KeyError(doc_id)
        return Document(*found)

    def __iter__(self) -> Iterator[str]:
        """Yield the ids in the order in which the documents came."""
        return (doc_id for (doc_id,) in self._database.execute("SELECT doc_id FROM documents ORDER BY rowid"))

    def __len__(self) -> int:
        count: int = self._database.execute("SELECT count(*) FROM documents").fetchone()[0]
        return count

    def __contains__(self, doc_id: object) -> bool:
        found = self._database.execute("SELECT 1 FROM documents WHERE doc_id = ?", (doc_id,)).fetchone()
        return found is not None

    def values(self) -> ValuesView[Document]:
        """Return a view that reads the documents in the order in which they came."""
        return _Values(self)

    def rows(self) -> Iterator[Document]:
        """Yield the documents in the order in which they came."""
        return (Document(*row) for row in self._database.execute("SELECT * FROM documents ORDER BY rowid"))


class _Values(ValuesView[Document]):
    """One pass over the table in place of a question for each id."""

    _mapping: DocumentStore

    def __iter__(self) -> Iterator[Document]:
        return self._mapping.rows()
