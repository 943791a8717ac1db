"""The value of a run on a task: which queries count, their mean, and what could have been reached."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from instruct_distill.errors import InputError
from instruct_distill.evaluation.measures import parse_metrics, per_query, tied_scores
from instruct_distill.records import Qrels, Run


@dataclass(frozen=True)
class Evaluation:
    """What trec_eval says of one run, and of how many queries it says so.

    Args:
        means: metric → mean over the queries that count.
        per_query: query id → metric → value, for each query that counts, in the order of the qrels.
        without_positive: queries that have judgements, none of them above 0; they count, with value 0, only
            where ``all_judged`` is set.
        without_documents: queries that count and for which the run has no document; their values are 0.
        without_qrels: queries of the run that have no judgement; they are left out.
        judged_documents: documents of the run that are judged for their query, over the queries that count.
        judged_at_10: share of the documents at the first 10 places that are judged, over these queries; 0
            where there is no document.
        ties: documents that share their score with another of the same query, in single precision.
        relevance_level: the lowest grade that is relevant, for every metric but nDCG.
        all_judged: whether queries without a positive judgement count.
    """

    means: dict[str, float]
    per_query: dict[str, dict[str, float]]
    without_positive: tuple[str, ...]
    without_documents: tuple[str, ...]
    without_qrels: tuple[str, ...]
    judged_documents: int
    judged_at_10: float
    ties: int
    relevance_level: int
    all_judged: bool

    def values(self, metric: str) -> dict[str, float]:
        """Return query id → value of one metric."""
        return {query_id: values[metric] for query_id, values in self.per_query.items()}


def evaluate_run(
    qrels: Qrels,
    run: Run,
    metrics: Iterable[str],
    *,
    relevance_level: int = 1,
    all_judged: bool = False,
) -> Evaluation:
    """Evaluate a run in the order of its lists.

    The mean is over the queries that have at least one judgement above 0, whatever ``relevance_level`` is;
    those that the run lacks count 0, as with trec_eval's ``-c``.

    Args:
        qrels: the judgements.
        run: the lists, best first.
        metrics: names such as ``nDCG@10``.
        relevance_level: the lowest grade that is relevant, for every metric but nDCG (trec_eval's ``-l``).
        all_judged: count queries that were judged and have no judgement above 0, as trec_eval does.

    Raises:
        InputError: something is not usable, no query counts, or run and qrels share no query id.
        NonFiniteScoreError: a score is NaN or infinite.
    """
    names = [metric.name for metric in parse_metrics(metrics)]
    found = per_query(qrels, run, names, relevance_level)
    judged = [query_id for query_id, judgements in qrels.items() if judgements]
    positive = [query_id for query_id in judged if any(grade > 0 for grade in qrels[query_id].values())]
    with_positive = set(positive)
    counted = judged if all_judged else positive
    _check_overlap(run, judged)
    if not counted:
        raise InputError(
            f"none of the {len(judged)} judged queries has a grade above 0, so there is nothing to average"
        )
    zeros = dict.fromkeys(names, 0.0)
    values = {query_id: dict(found.get(query_id, zeros)) for query_id in counted}
    return Evaluation(
        means={name: math.fsum(value[name] for value in values.values()) / len(values) for name in names},
        per_query=values,
        without_positive=tuple(query_id for query_id in judged if query_id not in with_positive),
        without_documents=tuple(query_id for query_id in counted if not run.get(query_id)),
        without_qrels=tuple(query_id for query_id in run if not qrels.get(query_id)),
        judged_documents=sum(
            document.doc_id in qrels[query_id] for query_id in counted for document in run.get(query_id, [])
        ),
        judged_at_10=_judged_share({query_id: run.get(query_id, [])[:10] for query_id in counted}, qrels),
        ties=tied_scores(run),
        relevance_level=relevance_level,
        all_judged=all_judged,
    )


def recall_ceiling(
    qrels: Qrels,
    candidates: Run,
    metrics: Iterable[str],
    *,
    relevance_level: int = 1,
    all_judged: bool = False,
) -> dict[str, float]:
    """Return the best mean of each metric that any order of these candidate lists can have.

    It is the value of the lists sorted by grade, so what the first stage did not find is lost: the ideal of
    nDCG is still made from all judged documents.

    Raises:
        InputError: as `evaluate_run`.
    """
    best: Run = {}
    for query_id, documents in candidates.items():
        judgements: Mapping[str, int] = qrels.get(query_id, {})
        ordered = sorted(documents, key=lambda document: -max(0, judgements.get(document.doc_id, 0)))
        best[query_id] = [
            document._replace(score=float(len(ordered) - position))
            for position, document in enumerate(ordered)
        ]
    return evaluate_run(qrels, best, metrics, relevance_level=relevance_level, all_judged=all_judged).means


def _judged_share(run: Run, qrels: Qrels) -> float:
    judged = [document.doc_id in qrels[query_id] for query_id, found in run.items() for document in found]
    return sum(judged) / len(judged) if judged else 0.0


def _check_overlap(run: Run, judged: list[str]) -> None:
    if not run:
        raise InputError("the run has no query; expected a list, perhaps an empty one, for each query")
    if not judged:
        raise InputError("the qrels have no judgement, so there is nothing to evaluate with")
    if run.keys().isdisjoint(judged):
        raise InputError(
            f"run and qrels have no query id in common: the run has {next(iter(run))!r} and "
            f"{len(run) - 1} more, the qrels have {judged[0]!r} and {len(judged) - 1} more; "
            "give the qrels that belong to these queries"
        )
