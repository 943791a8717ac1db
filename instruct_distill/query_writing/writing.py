"""Writing queries from documents: what a model's text is worth as a query, and when another is needed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from instruct_distill.inference.engine import Engine, Question
from instruct_distill.query_writing.log import AnswerLog
from instruct_distill.records import Document, Query

QUERY_TOKENS = 40
"""Tokens that a model may write for a query."""

_CHUNK = 64
"""Documents whose queries are written together, and kept together where a run is stopped."""
_NAME = re.compile(r"^(?:\d+[.)]\s+|[-*•]\s+)?(?:(?:question|query)(?:\s*\d+)?\s*:)?\s*", re.IGNORECASE)
_MARKS = "\"'`*_“”„«» \t"


class WrittenQuery(NamedTuple):
    """A query with the document that it was written from.

    Args:
        query: the query; its id is made of the document's.
        document_id: the document. It is no label: it is ranked like any other candidate.
    """

    query: Query
    document_id: str


@dataclass
class Written:
    """What was written.

    Args:
        queries: as many as were asked for, or fewer where the documents ran out.
        asked: documents that the model was shown.
        empty: texts in which there was no query.
        repeated: queries that another document had led to already.
    """

    queries: list[WrittenQuery] = field(default_factory=list)
    asked: int = 0
    empty: int = 0
    repeated: int = 0


def write_queries(engine: Engine, documents: Iterable[Document], wanted: int, log: AnswerLog) -> Written:
    """Let a model write that many different queries, each from another document.

    A text without a query, and a query equal to an earlier one but for letter case and punctuation, are
    replaced: the next document has its turn.

    Args:
        engine: what writes.
        documents: what it is shown, in this order.
        wanted: the number of queries.
        log: the model's answers; those that are there already are not asked for again.

    Raises:
        InputError: the log belongs to other documents.
        NonFiniteScoreError: the model's logits are NaN.
    """
    found = Written()
    seen: set[str] = set()
    left = iter(documents)
    while part := list(islice(left, min(_CHUNK, wanted - len(found.queries)))):
        texts = log.take([document.doc_id for document in part])
        if texts is None:
            texts = engine.generate([Question(Query("", ""), (document,)) for document in part], QUERY_TOKENS)
            log.append([document.doc_id for document in part], texts)
        found.asked += len(part)
        for document, text in zip(part, texts, strict=True):
            query = tidy(text)
            key = " ".join(re.findall(r"\w+", query.casefold()))
            if not key:
                found.empty += 1
            elif key in seen:
                found.repeated += 1
            else:
                seen.add(key)
                found.queries.append(WrittenQuery(Query(f"g:{document.doc_id}", query), document.doc_id))
    return found


def tidy(text: str) -> str:
    """Return the query in what a model wrote: its first line, without "Question:", numbers and quotes.

    A line that ends in a colon ("Here is a question:") announces another one and is passed over.
    """
    for line in text.splitlines():
        line = " ".join(line.split())
        query = _NAME.sub("", line.strip(_MARKS)).strip(_MARKS)
        if query and not query.endswith(":"):
            return query
    return ""
