"""Whether a student was trained on what it is tested on: queries, and the passages that it ranks.

After Zhou et al., "Don't make your LLM an evaluation benchmark cheater" (arXiv 2311.01964), which proposes to
report the overlap of training and test data with every result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from instruct_distill.evaluation.normal_form import normalise, words_of
from instruct_distill.evaluation.query_leaks import KINDS, LEAST_CONTAINED_WORDS, QueryLeak, QueryLeaks
from instruct_distill.evaluation.results import Evaluation
from instruct_distill.evaluation.spans import SPAN, Hashes, span_hashes, span_tables, text_hash
from instruct_distill.evaluation.table import ABSENT
from instruct_distill.records import Document, Qrels, Query

EXAMPLES = 5
"""Examples of each kind in ``summary.json``."""

TEXT_LENGTH = 200
"""Characters of an example's text."""


class DocumentOverlap(NamedTuple):
    """A passage of the task that training has, too, in whole or in part.

    Args:
        doc_ids: the task's documents of this text.
        text: its text.
        same_document: the training documents have it under the same id: both come from one corpus.
        equal: a training document that is equal after normalisation, or None.
        shared_span: a training document with ``SPAN`` words in common, or None.
        words: the first words in common; empty without ``shared_span``.
    """

    doc_ids: tuple[str, ...]
    text: str
    same_document: bool
    equal: str | None
    shared_span: str | None
    words: str


@dataclass(frozen=True)
class Contamination:
    """What training and a task have in common.

    Args:
        training_queries: number of training queries.
        training_documents: number of training documents.
        test_queries: number of test queries.
        test_documents: number of documents in the task's candidate lists.
        test_texts: number of different texts that these have.
        short_queries: test queries too short to be looked for inside documents.
        queries: the test queries that were found in training, each once.
        documents: the different texts of the task that were found in training.
    """

    training_queries: int
    training_documents: int
    test_queries: int
    test_documents: int
    test_texts: int
    short_queries: int
    queries: tuple[QueryLeak, ...]
    documents: tuple[DocumentOverlap, ...]

    @property
    def leaked(self) -> set[str]:
        """Ids of the test queries that were found in training."""
        return {leak.query.query_id for leak in self.queries}

    def queries_of_touched_documents(self, qrels: Qrels) -> set[str]:
        """Return the test queries for which a document found in training has a grade above 0."""
        touched = {doc_id for overlap in self.documents for doc_id in overlap.doc_ids}
        return {
            query_id
            for query_id, grades in qrels.items()
            if any(grade > 0 and doc_id in touched for doc_id, grade in grades.items())
        }

    def line(self, evaluations: Mapping[str, Evaluation]) -> str:
        """Return what a table says of it in one line: a clean result, too, says what was compared.

        Args:
            evaluations: system → evaluation on the task, for the figures without the queries that were found.
        """
        of_kind = {kind: sum(leak.kind == kind for leak in self.queries) for kind in KINDS}
        kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in of_kind.items() if count)
        equal = sum(overlap.equal is not None for overlap in self.documents)
        spans = sum(overlap.shared_span is not None for overlap in self.documents)
        same = sum(overlap.same_document for overlap in self.documents)
        line = (
            f"contamination: {len(self.queries):,} of {self.test_queries:,} test queries"
            + (f" ({kinds})" if kinds else "")
            + f" found among {self.training_queries:,} training queries and {self.training_documents:,} "
            f"training documents; of {self.test_texts:,} candidate texts {equal:,} equal, {spans:,} sharing "
            f"{SPAN} words" + (f" ({same:,} the same document of one corpus)" if same else "")
        )
        if not self.queries:
            return line
        without = _figures(evaluations, self.leaked)
        metric = list(next(iter(evaluations.values())).means)[-1]
        figures = [
            f"{system} {ABSENT if means[metric]['left'] is None else format(means[metric]['left'], '.4f')}"
            for system, means in without["systems"].items()
        ]
        left = f"{without['queries_left']:,} of {without['queries']:,} queries"
        return f"{line}; {metric} without those found ({left}): {', '.join(figures)}"

    def as_dict(self, evaluations: Mapping[str, Evaluation], qrels: Qrels) -> dict[str, Any]:
        """Return plain values for ``summary.json``.

        Args:
            evaluations: system → evaluation on the task, for the figures without the touched queries.
            qrels: the task's judgements.
        """
        same = [overlap for overlap in self.documents if overlap.same_document]
        equal = [overlap for overlap in self.documents if overlap.equal is not None]
        spans = [overlap for overlap in self.documents if overlap.shared_span is not None]
        return {
            "compared": {
                "training_queries": self.training_queries,
                "training_documents": self.training_documents,
                "test_queries": self.test_queries,
                "test_documents": self.test_documents,
                "test_texts": self.test_texts,
                "queries": "exact; NFKC, case folded, without punctuation and white space; words with a "
                "Jaccard index of 0.8 or more; word for word inside a training document, from "
                f"{LEAST_CONTAINED_WORDS} words ({self.short_queries} are shorter); {SPAN} consecutive words",
                "documents": f"candidates; equal as queries are; {SPAN} consecutive words",
            },
            "queries": {
                "found": len(self.queries),
                **{kind: _leaks([leak for leak in self.queries if leak.kind == kind]) for kind in KINDS},
            },
            "documents": {
                "same_document": _overlaps(same, "equal"),
                "equal": _overlaps(equal, "equal"),
                f"shared_{SPAN}_words": _overlaps(spans, "shared_span"),
                "found_without_same_document": len(self.documents) - len(same),
            },
            "without_found_queries": _figures(evaluations, self.leaked),
            "without_queries_of_found_documents": _figures(
                evaluations, self.queries_of_touched_documents(qrels)
            ),
        }


def contamination(
    training_queries: Iterable[Query],
    training_documents: Iterable[Document],
    test_queries: Sequence[Query],
    test_documents: Iterable[Document],
) -> Contamination:
    """Compare what a student was trained on with what it is tested on.

    Memory grows with the test documents and by a bounded amount for the training documents, which are read
    once.

    Args:
        training_queries: the queries that were labelled.
        training_documents: the documents that were labelled.
        test_queries: the task's queries.
        test_documents: the documents of the task's candidate lists.
    """
    queries = QueryLeaks(test_queries)
    training_queries = list(training_queries)
    queries.compare_queries(training_queries)
    documents = _TestDocuments(test_documents)
    read = 0

    def words_of_training() -> Iterator[tuple[str, list[str]]]:
        nonlocal read
        for document in training_documents:
            read += 1
            text = document.full_text
            words = words_of(text)
            documents.compare_text(document.doc_id, text)
            queries.compare_document(document.doc_id, words)
            yield document.doc_id, words

    for table in span_tables(words_of_training()):
        queries.compare_spans(table)
        for entry in documents.entries:
            if entry.shared_span is None and (shared := table.first_shared(entry.spans())) is not None:
                entry.shared_span, entry.place = shared
    return Contamination(
        training_queries=len(training_queries),
        training_documents=read,
        test_queries=len(test_queries),
        test_documents=sum(len(entry.doc_ids) for entry in documents.entries),
        test_texts=len(documents.entries),
        short_queries=queries.too_short_to_be_contained(),
        queries=tuple(queries.found()),
        documents=tuple(entry.overlap() for entry in documents.entries if entry.is_found()),
    )


class _Entry:
    """One text of the task's documents while it is compared."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.doc_ids = [document.doc_id]
        self.same_document = False
        self.equal: str | None = None
        self.shared_span: str | None = None
        self.place = 0

    def spans(self) -> Hashes:
        return span_hashes(words_of(self.document.full_text))

    def is_found(self) -> bool:
        return self.equal is not None or self.shared_span is not None

    def overlap(self) -> DocumentOverlap:
        text = self.document.full_text
        words = words_of(text)[self.place : self.place + SPAN] if self.shared_span is not None else []
        return DocumentOverlap(
            tuple(self.doc_ids), text, self.same_document, self.equal, self.shared_span, " ".join(words)
        )


class _TestDocuments:
    """The task's documents, one entry for each different text."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.entries: list[_Entry] = []
        by_text: dict[int, _Entry] = {}
        self._by_normal_form: dict[int, list[_Entry]] = {}
        for document in documents:
            text = document.full_text
            entry = by_text.get(text_hash(text))
            if entry is not None:
                entry.doc_ids.append(document.doc_id)
                continue
            entry = by_text[text_hash(text)] = _Entry(document)
            self.entries.append(entry)
            form = normalise(text)
            if form:
                self._by_normal_form.setdefault(text_hash(form), []).append(entry)

    def compare_text(self, doc_id: str, text: str) -> None:
        """Look for a training document among them."""
        for entry in self._by_normal_form.get(text_hash(normalise(text)), ()):
            if doc_id in entry.doc_ids:
                entry.same_document = True
                entry.equal = doc_id
            elif entry.equal is None:
                entry.equal = doc_id


def _leaks(leaks: Sequence[QueryLeak]) -> dict[str, Any]:
    return {
        "count": len(leaks),
        "examples": [
            {
                "test": leak.query.query_id,
                "test_text": _cut(leak.query.text),
                "training": leak.training_id,
                "training_text": _cut(leak.training_text),
            }
            for leak in leaks[:EXAMPLES]
        ],
    }


def _overlaps(overlaps: Sequence[DocumentOverlap], source: str) -> dict[str, Any]:
    return {
        "count": len(overlaps),
        "examples": [
            {
                "test": overlap.doc_ids[0],
                "training": getattr(overlap, source),
                "text": overlap.words if source == "shared_span" else _cut(overlap.text),
            }
            for overlap in overlaps[:EXAMPLES]
        ],
    }


def _figures(evaluations: Mapping[str, Evaluation], touched: set[str]) -> dict[str, Any]:
    """Return each mean with all queries and without some; None where no query is left."""
    counted = next(iter(evaluations.values())).per_query.keys()
    left = [query_id for query_id in counted if query_id not in touched]
    return {
        "queries": len(counted),
        "queries_left": len(left),
        "systems": {
            system: {
                metric: {
                    "all": mean,
                    "left": math.fsum(found.per_query[q][metric] for q in left) / len(left) if left else None,
                }
                for metric, mean in found.means.items()
            }
            for system, found in evaluations.items()
        },
    }


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH else f"{text[: TEXT_LENGTH - 3]}..."
