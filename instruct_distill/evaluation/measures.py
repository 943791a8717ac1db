"""Metric names, and their values for each query, computed by trec_eval (``pytrec_eval``) alone."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pytrec_eval

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.records import Qrels, Run, ScoredDocument
from instruct_distill.registry import nearest

_DOC_ID = operator.itemgetter(0)


class Family(NamedTuple):
    """A family of metrics that differ in their cutoff.

    Args:
        title: what it measures, in a few words.
        full: trec_eval's measure over the whole list, or None where a cutoff is needed.
        cut: trec_eval's measure with a cutoff, or None where the list is cut before ``full`` is taken.
        also: other names of it, in lower case, that an error message translates.
    """

    title: str
    full: str | None
    cut: str | None
    also: tuple[str, ...] = ()


FAMILIES = {
    "nDCG": Family("normalised discounted cumulative gain, linear gain", "ndcg", "ndcg_cut"),
    "RR": Family("reciprocal rank of the first relevant document", "recip_rank", None, ("mrr",)),
    "AP": Family("average precision", "map", "map_cut", ("map",)),
    "P": Family("share of the first k that is relevant", None, "P", ("precision", "prec")),
    "R": Family("share of the relevant documents that is in the first k", None, "recall", ("recall",)),
    "Success": Family("1 if a relevant document is in the first k", None, "success", ("acc", "hit", "hits")),
}
"""The families by the name that ir_measures gives them; ``Success@1`` is what ReDial papers call Acc@1."""


class Metric(NamedTuple):
    """One metric.

    Args:
        name: as people type and print it, such as ``nDCG@10``.
        measure: trec_eval's measure, in the form that pytrec_eval is asked with.
        key: the name under which pytrec_eval returns it.
        cut_list_to: number of documents to leave in each list first, or None to leave all.
    """

    name: str
    measure: str
    key: str
    cut_list_to: int | None


def parse_metrics(names: Iterable[str]) -> list[Metric]:
    """Return the metrics of these names, in the given order, each once.

    Raises:
        InputError: one or more names are not metrics; the message lists all of them.
    """
    metrics: dict[str, Metric] = {}
    problems = []
    for name in names:
        metric = _parse(name)
        if metric is None:
            problems.append(_problem(name))
        else:
            metrics[name] = metric
    if problems:
        raise InputError("; ".join(problems) + f" (known: {', '.join(known_forms())}; k from 1)")
    if not metrics:
        raise InputError("no metric was given; expected at least one, such as nDCG@10")
    return list(metrics.values())


def known_forms() -> list[str]:
    """Return the forms of names that are metrics, such as ``nDCG``, ``nDCG@k``, ``P@k``."""
    return [
        form for name, family in FAMILIES.items() for form in ([name] if family.full else []) + [f"{name}@k"]
    ]


def per_query(
    qrels: Qrels, run: Run, metrics: Iterable[str], relevance_level: int = 1
) -> dict[str, dict[str, float]]:
    """Return trec_eval's value of each metric for every query that both the qrels and the run have.

    The order that counts is the order of the run's lists. trec_eval would sort again, by score in single
    precision and by document id (descending, as strings) where scores are equal, so it is given the
    positions instead of the scores.

    Args:
        qrels: the judgements; the ideal order of nDCG is made from all of them; grades below 0 gain 0.
        run: the lists, best first.
        metrics: names such as ``nDCG@10``.
        relevance_level: the lowest grade that is relevant, for every metric but nDCG (trec_eval's ``-l``).

    Returns:
        query id → metric name → value.

    Raises:
        InputError: a metric name, an id, a grade or a list is not usable.
        NonFiniteScoreError: a score is NaN or infinite.
    """
    parsed = parse_metrics(metrics)
    if relevance_level < 1:
        raise InputError(f"relevance_level {relevance_level} was given; expected 1 or more")
    check_qrels(qrels)
    check_run(run)
    # Queries without a judgement are no part of an evaluation: trec_eval leaves them out, too.
    judged = [query_id for query_id in run if qrels.get(query_id)]
    values: dict[str, dict[str, float]] = {query_id: {} for query_id in judged}
    grades = {query_id: _without_negative(qrels[query_id]) for query_id in judged}
    for cut in dict.fromkeys(metric.cut_list_to for metric in parsed):
        wanted = [metric for metric in parsed if metric.cut_list_to == cut]
        lists = {query_id: _positions(run[query_id][:cut]) for query_id in judged}
        # A fresh evaluator for each call: some releases keep state between two calls.
        evaluator = pytrec_eval.RelevanceEvaluator(
            grades, {metric.measure for metric in wanted}, relevance_level=relevance_level
        )
        found = evaluator.evaluate(lists)
        for query_id in judged:
            for metric in wanted:
                value = float(found[query_id][metric.key])
                if not math.isfinite(value):
                    raise NonFiniteScoreError(f"query {query_id}: {metric.name} is {value}")
                values[query_id][metric.name] = value
    return {
        query_id: {metric.name: values[query_id][metric.name] for metric in parsed} for query_id in judged
    }


def check_qrels(qrels: Qrels) -> None:
    """Check that ids are strings and grades whole numbers.

    Raises:
        InputError: they are not; the message names query and document.
    """
    for query_id, judgements in qrels.items():
        _check_id(query_id, "qrels: query id")
        if {*map(type, judgements)} <= {str} and {*map(type, judgements.values())} <= {int}:
            continue
        for doc_id, grade in judgements.items():
            _check_id(doc_id, f"qrels, query {query_id}: document id")
            if not isinstance(grade, int) or isinstance(grade, bool):
                raise InputError(
                    f"qrels, query {query_id}, document {doc_id}: grade {grade!r} is not a whole number"
                )


def check_run(run: Run) -> None:
    """Check that a run can be evaluated as it stands.

    Raises:
        InputError: an id is not a string, a document stands twice in a list, or scores rise within a list.
        NonFiniteScoreError: a score is NaN or infinite; the message names query and document.
    """
    for query_id, documents in run.items():
        _check_id(query_id, "run: query id")
        if _is_sound(documents):
            continue
        seen: set[str] = set()
        previous = math.inf
        for position, (doc_id, score) in enumerate(documents, start=1):
            _check_id(doc_id, f"run, query {query_id}: document id")
            if not math.isfinite(score):
                raise NonFiniteScoreError(
                    f"run, query {query_id}, document {doc_id}: score {score} is not finite"
                )
            if doc_id in seen:
                raise InputError(
                    f"run, query {query_id}: document {doc_id} stands twice; leave one of its lines"
                )
            if score > previous:
                raise InputError(
                    f"run, query {query_id}: document {doc_id} at position {position} has score {score}, "
                    f"above the {previous} before it; expected the best document first"
                )
            seen.add(doc_id)
            previous = score


def _is_sound(documents: Sequence[ScoredDocument]) -> bool:
    """Whether a list is as it should be; what is wrong with another, a look at each document finds."""
    if not documents:
        return True
    doc_ids, scores = zip(*documents, strict=True)
    return (
        {*map(type, doc_ids)} == {str}
        and len({*doc_ids}) == len(doc_ids)
        and all(map(math.isfinite, scores))
        and all(map(operator.ge, scores, scores[1:]))
    )


def tied_scores(run: Run) -> int:
    """Return how many documents share their score with another document of the same query.

    Scores are compared in single precision, as trec_eval reads them.
    """
    tied = 0
    for documents in run.values():
        scores = np.array([document.score for document in documents], dtype=np.float32)
        _, counts = np.unique(scores, return_counts=True)
        tied += int(counts[counts > 1].sum())
    return tied


def _parse(name: str) -> Metric | None:
    match = re.fullmatch(r"([A-Za-z]+)(?:@([1-9][0-9]{0,6}))?", name, flags=re.ASCII)
    family = FAMILIES.get(match[1]) if match else None
    if match is None or family is None:
        return None
    cutoff = match[2]
    if cutoff and family.cut:
        return Metric(name, f"{family.cut}.{cutoff}", f"{family.cut}_{cutoff}", None)
    if family.full:
        return Metric(name, family.full, family.full, int(cutoff) if cutoff else None)
    return None


def _problem(name: str) -> str:
    base, at, cutoff = str(name).partition("@")
    for family_name, family in FAMILIES.items():
        if base == family_name:
            return f"metric {name!r}: expected a cutoff, a whole number from 1, such as {base}@10"
        if base.lower() == family_name.lower() or base.lower() in family.also:
            form = family_name + at + cutoff
            meant = form if _parse(form) else f"{family_name}@10"
            return f"unknown metric {name!r}; did you mean {meant!r}?"
    return f"unknown metric {name!r}" + nearest(
        str(name), [family_name + at + cutoff for family_name in FAMILIES]
    )


def _without_negative(judgements: dict[str, int]) -> dict[str, int]:
    """Grades below 0 as 0."""
    if min(judgements.values()) >= 0:
        return judgements
    return {doc_id: max(0, grade) for doc_id, grade in judgements.items()}


def _positions(documents: Sequence[ScoredDocument]) -> dict[str, float]:
    """Scores that fall by 1 with each position: exact in single precision up to 2**24 documents."""
    return dict(zip(map(_DOC_ID, documents), map(float, range(len(documents), 0, -1)), strict=True))


def _check_id(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise InputError(
            f"{what} {value!r} is of type {type(value).__name__}; ids are strings, expected '{value}'"
        )
