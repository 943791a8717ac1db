"""BM25Okapi through rank_bm25, in memory: the first stage of the paper."""

from __future__ import annotations

import logging

import numpy as np
from rank_bm25 import BM25Okapi

from instruct_distill.candidates.engine import best, texts_to_index
from instruct_distill.candidates.tokenise import Tokeniser
from instruct_distill.records import ScoredDocument
from instruct_distill.sources.collection import Collection

logger = logging.getLogger(__name__)

LARGE = 200_000
"""Number of documents above which bm25s is the better choice."""


class RankBm25Engine:
    """BM25Okapi over a small collection; nothing is kept on disk.

    Its idf, log((N - n + 0.5) / (n + 0.5)), is 0 for a term in half of the documents, and a part of the mean
    idf for terms in more. So scores may be 0 or below for documents that hold a query's words: what is listed
    is decided by shared terms, not by the score.

    Args:
        collection: what is searched; empty documents are kept and never found.
        tokeniser: for documents and queries.
        k1: saturation of the term frequency.
        b: strength of the length normalisation.

    Raises:
        InputError: the collection is empty or has two documents of the same id.
    """

    def __init__(self, collection: Collection, tokeniser: Tokeniser, k1: float, b: float) -> None:
        self.tokeniser = tokeniser
        self._doc_ids: list[str] = []
        self._places: dict[str, list[int]] = {}
        documents = []
        for place, (doc_id, text) in enumerate(texts_to_index(collection)):
            terms = tokeniser(text)
            documents.append(terms)
            self._doc_ids.append(doc_id)
            for term in set(terms):
                self._places.setdefault(term, []).append(place)
        if len(documents) > LARGE:
            logger.warning(
                "%s: %s documents in memory for engine rank_bm25; engine bm25s is faster and reads its index "
                "from disk",
                collection.name,
                f"{len(documents):,}",
            )
        # BM25Okapi divides by the number of terms; without any term nothing can be found anyway.
        self._okapi = BM25Okapi(documents, k1=k1, b=b) if self._places else None
        weightless = [term for term in self._places if self._okapi and self._okapi.idf[term] <= 0]
        if weightless:
            logger.warning(
                "%s: BM25Okapi gives %d terms a weight of 0 or below (first: %s), so the order of their "
                "documents means little; the collection is too small for engine rank_bm25, use bm25s",
                collection.name,
                len(weightless),
                ", ".join(map(repr, weightless[:3])),
            )

    def search(self, text: str, depth: int) -> list[ScoredDocument]:
        """Return at most ``depth`` documents that share a term with the text, best first."""
        terms = [term for term in self.tokeniser(text) if term in self._places]
        if self._okapi is None or not terms:
            return []
        matches = sorted({place for term in terms for place in self._places[term]})
        scores = self._okapi.get_batch_scores(terms, matches)
        order = best(np.array(scores), depth)
        return [ScoredDocument(self._doc_ids[matches[i]], scores[i]) for i in order.tolist()]


def open_engine(collection: Collection, tokeniser: Tokeniser, k1: float, b: float) -> RankBm25Engine:
    """Index the collection in memory."""
    return RankBm25Engine(collection, tokeniser, k1, b)
