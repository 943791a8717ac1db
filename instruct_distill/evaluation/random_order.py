"""What a random order is worth, without drawing one: the mean of a metric over all orders of a list."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from instruct_distill.evaluation.measures import Metric, parse_metrics
from instruct_distill.records import Qrels


def random_order_means(
    qrels: Qrels,
    lists: Iterable[tuple[str, Sequence[str]]],
    metrics: Iterable[str],
    *,
    relevance_level: int = 1,
    all_judged: bool = False,
) -> dict[str, float]:
    """Return metric → its expectation when every list is put into a random order, in closed form.

    A pool of ten with one relevant document has Success@1 of 1/10. Queries count as in
    :func:`~instruct_distill.evaluation.results.evaluate_run`; those without a list count 0.

    Args:
        qrels: the judgements.
        lists: query ids, each with the ids of the documents that are ordered.
        metrics: names such as ``nDCG@10``.
        relevance_level: the lowest grade that is relevant, for every metric but nDCG.
        all_judged: count queries without a grade above 0 as 0.
    """
    parsed = parse_metrics(metrics)
    sums = {metric.name: 0.0 for metric in parsed}
    positive = {query_id for query_id, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
    counted = sum(bool(grades) for grades in qrels.values()) if all_judged else len(positive)
    for query_id, listed in lists:
        if query_id not in positive or not listed:
            continue
        judgements = qrels[query_id]
        found = [grade for doc_id in listed if (grade := judgements.get(doc_id, 0)) > 0]
        ideal = sorted((grade for grade in judgements.values() if grade > 0), reverse=True)
        for metric in parsed:
            sums[metric.name] += _expected(metric, len(listed), found, ideal, relevance_level)
    return {name: value / counted for name, value in sums.items()} if counted else sums


def _expected(metric: Metric, size: int, found: Sequence[int], ideal: Sequence[int], level: int) -> float:
    """The expectation for one list of ``size`` documents, of which ``found`` have a grade above 0.

    Each place holds each document with probability 1/size. With r relevant ones, the first of them is at
    place i with probability C(size-i, r-1) / C(size, r); a place above a relevant one is relevant with
    probability (r-1) / (size-1).
    """
    family, _, cutoff = metric.name.partition("@")
    last = min(int(cutoff), size) if cutoff else size
    if family == "nDCG":
        best = _discounted(ideal[: int(cutoff)] if cutoff else ideal)
        return sum(found) / size * _discounted([1] * last) / best
    relevant = sum(grade >= level for grade in found)
    wanted = sum(grade >= level for grade in ideal)
    if not relevant:
        return 0.0
    if family == "P":
        return relevant / size * last / int(cutoff)
    if family == "R":
        return relevant / size * last / wanted
    if family == "Success":
        return 1.0 - math.comb(size - relevant, last) / math.comb(size, last)
    if family == "RR":
        orders = math.comb(size, relevant)
        return sum(math.comb(size - i, relevant - 1) / orders / i for i in range(1, last + 1))
    above = (relevant - 1) / (size - 1) if size > 1 else 0.0
    return relevant / size / wanted * sum((1 + (i - 1) * above) / i for i in range(1, last + 1))


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))
