"""The small frozen types that travel between the parts of the library.

Ids are strings from the first byte to the last. Every other shape (a dict, a TREC file, an ir_datasets
record) is turned into these once, at the border.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

Qrels = dict[str, dict[str, int]]
"""Query id → document id → grade; grades below 0 are kept as they are."""


class Query(NamedTuple):
    """A question, claim or dialogue.

    Args:
        query_id: the id in qrels, runs and label files.
        text: what is asked.
    """

    query_id: str
    text: str


class Document(NamedTuple):
    """A passage, abstract or item description.

    Args:
        doc_id: the id in qrels, runs and label files.
        text: the body; may be empty.
        title: the title, or an empty string.
    """

    doc_id: str
    text: str
    title: str = ""

    @property
    def full_text(self) -> str:
        """Title and body joined by a blank, white space collapsed: what BM25 indexes and prompts show."""
        return re.sub(r"\s+", " ", f"{self.title} {self.text}").strip()


class ScoredDocument(NamedTuple):
    """A document's place in a run.

    Args:
        doc_id: the document.
        score: higher is better; comparable within one query only.
    """

    doc_id: str
    score: float


Run = dict[str, list[ScoredDocument]]
"""Query id → documents, best first. A query that was searched and found nothing has an empty list."""


class Comparison(NamedTuple):
    """One ordered pairwise question and its answer.

    Args:
        first: index (in the candidate list) of the document shown first.
        second: index of the document shown second.
        margin: logit of "the first" minus logit of "the second", as shown; 0 is a tie.
    """

    first: int
    second: int
    margin: float


class ListLabel(NamedTuple):
    """What the teacher says of one query's candidates.

    Args:
        query_id: the query.
        doc_ids: the candidates in first-stage order.
        scores: the teacher's raw score for each candidate, higher is better.
        comparisons: the pairwise questions asked; empty for teachers that compare nothing.
    """

    query_id: str
    doc_ids: tuple[str, ...]
    scores: tuple[float, ...]
    comparisons: tuple[Comparison, ...] = ()


@dataclass(frozen=True)
class RankedDocument:
    """A document as a reranker returns it.

    Args:
        index: position in the list that was given to the reranker, from 0.
        doc_id: the id, or None where plain texts were given.
        score: a float32 logit, higher is better.
        rank: 1 is best.
        text: the document's text.
        probability: from 0 to 1, where it was asked for: the chance to beat a random candidate of the query.
        probability_kind: ``fitted`` to the teacher's choices, or ``sigmoid`` of the score, which only keeps
            the order.
    """

    index: int
    doc_id: str | None
    score: float
    rank: int
    text: str
    probability: float | None = None
    probability_kind: Literal["fitted", "sigmoid"] | None = None
