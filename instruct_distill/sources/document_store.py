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
        documents: what is kept; ids are different.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        run = self._database.execute
        run("PRAGMA journal_mode = OFF")
        run("CREATE TABLE documents (doc_id TEXT, text TEXT, title TEXT)")
        run("BEGIN")
        self._database.executemany("INSERT INTO documents VALUES (?, ?, ?)", documents)
        # an index that is made at the end is sorted once, not page by page
        run("CREATE UNIQUE INDEX by_id ON documents (doc_id)")
        run("COMMIT")
        self._count: int = run("SELECT count(*) FROM documents").fetchone()[0]

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
        return self._count

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
