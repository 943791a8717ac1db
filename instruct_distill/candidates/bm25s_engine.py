"""Lucene's BM25 through bm25s: scores computed ahead, an index on disk that is read by memory map."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import shutil
import uuid
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import bm25s
import numpy as np

from instruct_distill.candidates.engine import best, texts_to_index
from instruct_distill.candidates.tokenise import Tokeniser, rules
from instruct_distill.files import cache_folder, read_json, write_json
from instruct_distill.records import ScoredDocument
from instruct_distill.sources.collection import Collection

# bm25s sets its logger to DEBUG when imported, which prints to every handler of the program.
logging.getLogger("bm25s").setLevel(logging.WARNING)

FORMAT_VERSION = 1
"""Raised when the files of an index change."""


class Bm25sEngine:
    """An opened index folder; the postings and the document ids stay on disk until a query needs them.

    The score is Lucene's (https://doi.org/10.1007/978-3-030-45442-5_4, "accurate" variant): its idf
    log(1 + (N - n + 0.5) / (n + 0.5)) is above 0 for every term, so a document's score is above 0 exactly
    where it shares a term with the query.

    Args:
        folder: as written by ``write_index``.
    """

    def __init__(self, folder: Path) -> None:
        self.tokeniser = Tokeniser.from_dict(read_json(folder / "index.json")["tokeniser"])
        self._bm25 = bm25s.BM25.load(folder, mmap=True, show_progress=False)
        self._ids = np.load(folder / "doc_ids.npy", mmap_mode="r")
        self._ends = np.load(folder / "doc_id_ends.npy", mmap_mode="r")

    def search(self, text: str, depth: int) -> list[ScoredDocument]:
        """Return at most ``depth`` documents that share a term with the text, best first."""
        terms = self._bm25.get_tokens_ids(self.tokeniser(text))
        if not terms:
            return []
        scores = self._bm25.get_scores_from_ids(terms)
        matches = np.flatnonzero(scores > 0)
        scores = scores[matches]
        order = best(scores, depth)
        return [
            ScoredDocument(self._doc_id(place), score)
            for place, score in zip(matches[order].tolist(), scores[order].tolist(), strict=True)
        ]

    def _doc_id(self, place: int) -> str:
        start = int(self._ends[place - 1]) if place else 0
        encoded: bytes = self._ids[start : int(self._ends[place])].tobytes()
        return encoded.decode("utf-8", "surrogatepass")


def open_engine(collection: Collection, tokeniser: Tokeniser, k1: float, b: float) -> Bm25sEngine:
    """Open the collection's index; build it first where the cache does not have it.

    Args:
        collection: what is searched; its fingerprint names the index.
        tokeniser: for documents and queries.
        k1: saturation of the term frequency.
        b: strength of the length normalisation.

    Raises:
        InputError: the collection is empty or has two documents of the same id.
    """
    made_from = {
        "collection": collection.fingerprint(),
        "tokeniser": tokeniser.as_dict(),
        "rules": rules(),
        "k1": k1,
        "b": b,
        "engine": f"bm25s {bm25s.__version__}",
        "format": FORMAT_VERSION,
    }
    digest = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]
    folder = cache_folder() / "bm25" / digest
    if not folder.exists():
        temporary = folder.with_name(f".{digest}.{uuid.uuid4().hex}.tmp")
        temporary.mkdir(parents=True)
        try:
            write_index(texts_to_index(collection), temporary, tokeniser, k1, b)
            try:
                os.rename(temporary, folder)
            except OSError:
                # Another process has built the same index meanwhile; either is as good.
                if not folder.exists():
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return Bm25sEngine(folder)


def write_index(
    texts: Iterable[tuple[str, str]], folder: Path, tokeniser: Tokeniser, k1: float, b: float
) -> None:
    """Write the index of (document id, text) pairs into a folder.

    Peak memory is about 4 bytes a token of the corpus for the token ids, and 40 bytes for each pair of a
    document and one of its terms while bm25s sorts them.
    """
    # The empty string is no term; it keeps the vocabulary of a corpus of empty texts from being empty, which
    # bm25s cannot index.
    vocabulary = {"": 0}
    documents = _TermIds()
    ids, ends = bytearray(), array("q")
    for doc_id, text in texts:
        documents.append([vocabulary.setdefault(term, len(vocabulary)) for term in tokeniser(text)])
        ids += doc_id.encode("utf-8", "surrogatepass")
        ends.append(len(ids))

    bm25 = bm25s.BM25(k1=k1, b=b, method="lucene")
    with np.errstate(invalid="ignore"):  # 0 / 0 in the relative length, where every text is empty
        # bm25s would add an empty term without postings, whose id lies outside its own arrays.
        bm25.index(_Corpus(documents, vocabulary), create_empty_token=False, show_progress=False)
    bm25.save(folder, show_progress=False)
    np.save(folder / "doc_ids.npy", np.frombuffer(ids, dtype=np.uint8))
    np.save(folder / "doc_id_ends.npy", np.frombuffer(ends, dtype=np.int64))
    write_json(folder / "index.json", {"tokeniser": tokeniser.as_dict(), "documents": len(documents)})


class _Corpus(NamedTuple):
    """What bm25s takes as a tokenised corpus."""

    ids: _TermIds
    vocab: dict[str, int]


class _TermIds:
    """The term ids of every document, in one flat array: what bm25s takes as a list of lists."""

    def __init__(self) -> None:
        self.flat = array("i")
        self.ends = array("q", [0])

    def append(self, terms: list[int]) -> None:
        self.flat.extend(terms)
        self.ends.append(len(self.flat))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __iter__(self) -> Iterator[array[int]]:
        for start, end in itertools.pairwise(self.ends):
            yield self.flat[start:end]
