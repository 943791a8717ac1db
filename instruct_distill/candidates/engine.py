"""What a BM25 engine is, and the order in which every engine lists its documents."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from instruct_distill.candidates.tokenise import Tokeniser
from instruct_distill.errors import InputError
from instruct_distill.records import ScoredDocument
from instruct_distill.sources.collection import Collection


class Engine(Protocol):
    """An index over a collection that can be searched."""

    @property
    def tokeniser(self) -> Tokeniser:
        """The tokeniser of the indexed documents, which is that of the queries as well."""

    def search(self, text: str, depth: int) -> list[ScoredDocument]:
        """Return at most ``depth`` documents that share a term with the text.

        Best first; equal scores in the collection's order. Empty where no document shares a term.
        """


def texts_to_index(collection: Collection) -> Iterator[tuple[str, str]]:
    """Yield (document id, title and text) of a collection, with a progress bar on a terminal.

    Raises:
        InputError: the collection has no documents, or two of the same id.
    """
    hashes = array("q")  # 8 bytes a document; the ids themselves would be a gigabyte on MS MARCO
    for document in tqdm(collection.documents(), desc="index", unit=" documents", disable=None):
        hashes.append(hash(document.doc_id))
        yield document.doc_id, document.full_text
    if not hashes:
        raise InputError(f"{collection.name}: the collection has no documents, so nothing can be found in it")
    ordered = np.sort(np.frombuffer(hashes, dtype=np.int64))
    suspects = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    if suspects:
        _refuse_repeated_ids(collection, suspects)


def _refuse_repeated_ids(collection: Collection, hashes: set[int]) -> None:
    seen: set[str] = set()
    for document in collection.documents():
        if hash(document.doc_id) in hashes:
            if document.doc_id in seen:
                raise InputError(
                    f"{collection.name}: two documents have the id {document.doc_id!r}; ids must be unique, "
                    "since judgements, runs and labels refer to them"
                )
            seen.add(document.doc_id)


def best(scores: npt.NDArray[Any], depth: int) -> npt.NDArray[np.intp]:
    """Return the indices of the ``depth`` highest scores, best first.

    Args:
        scores: scores of the matching documents in the collection's order, [matches]; the earlier of equal
            ones goes first.
        depth: indices to return at most.
    """
    kept: npt.NDArray[np.intp] = np.arange(len(scores))
    if len(scores) > depth:
        # Everything that ties with the last place stays until the stable sort, so that the collection's order
        # decides there too; a partition alone would take any of them.
        kept = np.flatnonzero(scores >= np.partition(scores, -depth)[-depth])
    return kept[np.argsort(-scores[kept], kind="stable")][:depth]
