"""``beir:FOLDER``: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``, as BEIR distributes them.

Format: https://github.com/beir-cellar/beir/wiki/Load-your-custom-dataset
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Qrels, Query
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.fingerprint import files_fingerprint
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.sources.record_fields import read_documents, read_queries


class BeirCollection(Collection):
    """A folder in BEIR form; each file of ``qrels/`` is a split.

    Args:
        name: as it stands in a recipe.
        folder: the folder.
    """

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name)
        self._corpus = _corpus(folder)
        self._queries = _plain_or_packed(folder, "queries.jsonl")
        self._qrels = {
            path.name.removesuffix(".gz").removesuffix(".tsv"): path
            for pattern in ("*.tsv.gz", "*.tsv")
            for path in sorted((folder / "qrels").glob(pattern))
        }

    def splits(self) -> tuple[str, ...]:
        """Names of the files in ``qrels/``, without their ending."""
        return tuple(sorted(self._qrels))

    @cached_property
    def _all_queries(self) -> list[Query]:
        if self._queries is None:
            raise self.no_queries("queries.jsonl")
        return read_queries(self._queries)

    def queries(self, split: str | None = None) -> list[Query]:
        """Return the judged queries of a split in file order; every query for ``all`` or None."""
        if self.check_split(split) in (None, "all"):
            return list(self._all_queries)
        judged = self.qrels(split) or {}
        return [query for query in self._all_queries if query.query_id in judged]

    def documents(self) -> Iterator[Document]:
        """Yield the documents of ``corpus.jsonl``."""
        return read_documents(self._corpus)

    def qrels(self, split: str | None = None) -> Qrels | None:
        """Return the judgements of a split; those of all splits together for ``all`` or None."""
        self.check_split(split)
        if not self._qrels:
            return None
        if split is not None and split != "all":
            return read_qrels(self._qrels[split])
        joined: Qrels = {}
        for each in self.splits():
            for query_id, grades in read_qrels(self._qrels[each]).items():
                for doc_id, grade in grades.items():
                    if joined.setdefault(query_id, {}).setdefault(doc_id, grade) != grade:
                        raise InputError(
                            f"{self._qrels[each]}: document {doc_id!r} has grade {grade} for query "
                            f"{query_id!r}, but another grade in another split; ask for one split"
                        )
        return joined

    def fingerprint(self) -> str:
        """Return a digest of ``corpus.jsonl``."""
        return files_fingerprint([self._corpus])


def _plain_or_packed(folder: Path, file_name: str) -> Path | None:
    paths = (folder / file_name, folder / f"{file_name}.gz")
    return next((path for path in paths if path.is_file()), None)


def _corpus(folder: Path) -> Path:
    path = _plain_or_packed(folder, "corpus.jsonl")
    if path is None:
        raise InputError(
            f"{folder}: no corpus.jsonl (or corpus.jsonl.gz); a BEIR folder has corpus.jsonl, and may have "
            "queries.jsonl and qrels/SPLIT.tsv"
        )
    return path


def open_collection(name: str, location: str) -> Collection:
    """Open a folder in BEIR form.

    Raises:
        InputError: the folder lacks ``corpus.jsonl``.
    """
    if not location:
        raise InputError(f"collection {name!r}: no folder; write beir:FOLDER")
    return BeirCollection(name, Path(location))
