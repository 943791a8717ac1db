"""How far a ranker's order is the teacher's, where nobody has judged anything.

Agreement says what distillation passed on, and nothing about relevance: a teacher may be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import kendalltau

from instruct_distill.errors import InputError
from instruct_distill.evaluation.measures import per_query
from instruct_distill.evaluation.ranker import Ranker, rerank, run_of
from instruct_distill.evaluation.table import ABSENT, aligned
from instruct_distill.records import Document, ListLabel, Qrels, Query, Run, ScoredDocument

GAIN = "nDCG@10"


@dataclass(frozen=True)
class Agreement:
    """Agreement of one order with the teacher's, over lists.

    Args:
        lists: lists in which the teacher prefers any document to another; the others say nothing.
        kendall: mean Kendall τ-b of the scores, over those lists in which the ranker has a preference, too.
        kendall_lists: number of these.
        top_1: share of the lists whose first document the teacher puts first, perhaps beside others.
        gain: mean nDCG@10 where a document's grade is the number of documents that the teacher puts below it.
    """

    lists: int
    kendall: float | None
    kendall_lists: int
    top_1: float
    gain: float


def agreement_with_teacher(
    ranker: Ranker,
    labels: Iterable[ListLabel],
    queries: Mapping[str, Query],
    documents: Mapping[str, Document],
) -> dict[str, Agreement]:
    """Rank labelled lists and compare with the labels.

    Args:
        ranker: what orders the documents.
        labels: the teacher's, of queries that the ranker was not trained on.
        queries: query id → query.
        documents: document id → document.

    Returns:
        ``first_stage`` (the order in which the teacher was given the candidates) and ``reranker``.

    Raises:
        InputError: a query or document is not there, or the teacher prefers nothing in any list.
    """
    informative = [label for label in labels if len(set(label.scores)) > 1]
    if not informative:
        raise InputError("the labels order no two documents of any list: there is nothing to agree with")
    for label in informative:
        if label.query_id not in queries:
            raise InputError(
                f"the labels have query {label.query_id!r}, which the collection lacks; give the collection "
                "that was labelled"
            )
    given: Run = {
        label.query_id: [
            ScoredDocument(doc_id, float(len(label.doc_ids) - place))
            for place, doc_id in enumerate(label.doc_ids)
        ]
        for label in informative
    }
    asked = [queries[label.query_id] for label in informative]
    ranked = run_of(rerank(ranker, asked, given, documents, name="agreement"))
    return {
        name: _agreement(informative, run) for name, run in (("first_stage", given), ("reranker", ranked))
    }


def agreement_table(found: Mapping[str, Agreement], notes: Sequence[str] = ()) -> str:
    """Return the figures as lines of text under their own title."""
    rows = [["order", "Kendall tau", "same first", "teacher gain@10", "lists"]]
    for name, values in found.items():
        kendall = ABSENT if values.kendall is None else f"{values.kendall:.4f}"
        rows.append([name, kendall, f"{values.top_1:.4f}", f"{values.gain:.4f}", str(values.lists)])
    return "\n".join(
        [
            "agreement with the teacher",
            "",
            *aligned(rows),
            "",
            "no judgement of relevance: the teacher's order is taken for the truth",
            "teacher gain@10: gain of a document is the number of those that the teacher puts below it",
            *notes,
        ]
    )


def _agreement(labels: Sequence[ListLabel], run: Run) -> Agreement:
    grades: Qrels = {
        label.query_id: {
            doc_id: sum(other < score for other in label.scores)
            for doc_id, score in zip(label.doc_ids, label.scores, strict=True)
        }
        for label in labels
    }
    gains = per_query(grades, run, [GAIN])
    taus, first = [], 0
    for label in labels:
        scores = {document.doc_id: document.score for document in run[label.query_id]}
        tau = float(kendalltau(label.scores, [scores[doc_id] for doc_id in label.doc_ids]).statistic)
        if math.isfinite(tau):  # it is not where all scores are equal
            taus.append(tau)
        best = run[label.query_id][0].doc_id
        first += grades[label.query_id][best] == max(grades[label.query_id].values())
    return Agreement(
        lists=len(labels),
        kendall=math.fsum(taus) / len(taus) if taus else None,
        kendall_lists=len(taus),
        top_1=first / len(labels),
        gain=math.fsum(gains[label.query_id][GAIN] for label in labels) / len(labels),
    )
