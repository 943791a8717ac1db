"""Runs on one set of judgements: paired tests, intervals, and the queries that make the difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.evaluation.paired_tests import RESAMPLES, holm, randomisation_test, t_test
from instruct_distill.evaluation.results import Evaluation, evaluate_run
from instruct_distill.evaluation.significance import Interval, paired_interval
from instruct_distill.records import Qrels, Run
from instruct_distill.sources import open_collection, prefixes
from instruct_distill.sources.collection import Collection
from instruct_distill.trec import read_run

SHOWN_QUERIES = 10
"""Queries that gained most, and lost most, of each pair."""

SHOWN_DOCUMENTS = 3
"""Documents that are shown of each of their lists."""

TIE = 1e-9
"""Values that differ by no more are a tie; trec_eval's metrics differ by more or not at all."""


class PairedTest(NamedTuple):
    """What one metric says of a pair of runs.

    Args:
        difference: mean of the system minus the baseline over the queries, with its 95% bootstrap interval.
        wins: queries on which the system is better.
        ties: queries on which both have the same value.
        losses: queries on which the baseline is better.
        p_randomisation: two-sided p of the paired randomisation test.
        p_t: two-sided p of the paired t test, or None for a single query.
        holm_randomisation: corrected for the number of pairs, within this metric.
        holm_t: likewise.
    """

    difference: Interval
    wins: int
    ties: int
    losses: int
    p_randomisation: float
    p_t: float | None
    holm_randomisation: float | None
    holm_t: float | None


class ShownDocument(NamedTuple):
    """A document at the top of a list.

    Args:
        doc_id: the document.
        grade: its judgement for the query, or None.
        text: its text, or None where no collection was given or the collection lacks it.
    """

    doc_id: str
    grade: int | None
    text: str | None


class ChangedQuery(NamedTuple):
    """A query whose value changed much.

    Args:
        query_id: the query.
        text: its text, or None where no collection was given or the collection lacks it.
        baseline: the baseline's value.
        system: the system's value.
        baseline_top: the baseline's first documents.
        system_top: the system's first documents.
    """

    query_id: str
    text: str | None
    baseline: float
    system: float
    baseline_top: tuple[ShownDocument, ...]
    system_top: tuple[ShownDocument, ...]


@dataclass(frozen=True)
class Pair:
    """Two runs.

    Args:
        baseline: name of the one that comes first.
        system: name of the other.
        tests: metric → what it says.
        gained: the queries whose first metric rose most, most first.
        lost: the queries whose first metric fell most, most first.
    """

    baseline: str
    system: str
    tests: dict[str, PairedTest]
    gained: tuple[ChangedQuery, ...]
    lost: tuple[ChangedQuery, ...]


@dataclass(frozen=True)
class Comparison:
    """Runs compared on the same queries.

    Args:
        evaluations: run → its evaluation, in the order given.
        pairs: each run against the first, or every run against each one before it.
        with_texts: whether a collection was given.
    """

    evaluations: dict[str, Evaluation]
    pairs: tuple[Pair, ...]
    with_texts: bool

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        first = next(iter(self.evaluations.values()))
        return {
            "queries": len(first.per_query),
            "relevance_level": first.relevance_level,
            "all_judged": first.all_judged,
            "runs": {
                name: {
                    "means": found.means,
                    "queries_without_documents": list(found.without_documents),
                    "queries_without_judgements": list(found.without_qrels),
                }
                for name, found in self.evaluations.items()
            },
            "pairs": [
                {
                    "baseline": pair.baseline,
                    "system": pair.system,
                    "tests": {
                        metric: {**test._asdict(), "difference": test.difference._asdict()}
                        for metric, test in pair.tests.items()
                    },
                    "gained": [_plain(change) for change in pair.gained],
                    "lost": [_plain(change) for change in pair.lost],
                }
                for pair in self.pairs
            ],
        }


def compare(
    runs: Mapping[str, Run],
    qrels: Qrels,
    *,
    metrics: Sequence[str] = ("nDCG@10",),
    collection: Collection | None = None,
    all_pairs: bool = False,
    relevance_level: int = 1,
    all_judged: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 13,
) -> Comparison:
    """Compare runs on the queries that count: as everywhere, a judged query that a run lacks counts 0.

    Args:
        runs: name → run, two or more; the first is the baseline.
        qrels: the judgements.
        metrics: names as in ir_measures; the first chooses the queries that are shown.
        collection: where the texts of queries and documents come from.
        all_pairs: compare every two runs instead of each with the first.
        relevance_level: the lowest grade that is relevant, for every metric but nDCG.
        all_judged: count judged queries without a grade above 0 as 0.
        resamples: random exchanges of the randomisation test.
        seed: for randomisation and intervals.

    Raises:
        InputError: fewer than two runs, a metric, run or judgement is not usable, or the collection has none
            of the queries.
    """
    if len(runs) < 2:
        raise InputError(f"{len(runs)} run was given; expected two or more, the baseline first")
    evaluations = {
        name: evaluate_run(qrels, run, metrics, relevance_level=relevance_level, all_judged=all_judged)
        for name, run in runs.items()
    }
    names = list(runs)
    chosen = list(combinations(names, 2)) if all_pairs else [(names[0], name) for name in names[1:]]
    tests: dict[str, list[PairedTest]] = {
        metric: _tests(
            [(evaluations[a].values(metric), evaluations[b].values(metric)) for a, b in chosen],
            resamples,
            seed,
        )
        for metric in evaluations[names[0]].means
    }
    main = next(iter(tests))
    pairs = []
    for place, (baseline, system) in enumerate(chosen):
        before, after = evaluations[baseline].values(main), evaluations[system].values(main)
        changed = [
            ChangedQuery(
                query_id,
                None,
                before[query_id],
                after[query_id],
                _top(runs[baseline], query_id, qrels),
                _top(runs[system], query_id, qrels),
            )
            # Stable: of equal changes the one comes first that does so in the qrels.
            for query_id in sorted(before, key=lambda query_id: -abs(after[query_id] - before[query_id]))
        ]
        gained = tuple(q for q in changed if q.system - q.baseline > TIE)[:SHOWN_QUERIES]
        lost = tuple(q for q in changed if q.baseline - q.system > TIE)[:SHOWN_QUERIES]
        of_pair = {metric: of_metric[place] for metric, of_metric in tests.items()}
        pairs.append(Pair(baseline, system, of_pair, gained, lost))
    if collection is not None:
        pairs = _with_texts(pairs, collection, next(iter(evaluations.values())).per_query)
    return Comparison(evaluations, tuple(pairs), collection is not None)


def read_runs(places: Iterable[str]) -> dict[str, Run]:
    """Return name → run of TREC run files, or of collections that bring lists (``rankgpt:FILE``).

    The name is that of the file without its ending; where two files would have one name, it is the place as
    given.

    Raises:
        InputError: a place is given twice, a file cannot be read, or a collection brings no lists.
    """
    given = list(places)
    for place in given:
        if given.count(place) > 1:
            raise InputError(f"the run {place} was given twice")
    names = [Path(place).stem for place in given]
    runs = {}
    for name, place in zip(names, given, strict=True):
        if place.partition(":")[0] in prefixes() and not Path(place).exists():
            run = open_collection(place).given()
            if run is None:
                raise InputError(f"{place} brings no lists; give a TREC run file")
        else:
            run = read_run(place)
        runs[name if names.count(name) == 1 else place] = run
    return runs


def _tests(
    values: Sequence[tuple[dict[str, float], dict[str, float]]], resamples: int, seed: int
) -> list[PairedTest]:
    """Test each pair (baseline, system) of one metric, and correct for their number."""
    differences = [
        [system[query_id] - baseline[query_id] for query_id in sorted(baseline)]
        for baseline, system in values
    ]
    by_randomisation = [randomisation_test(each, resamples=resamples, seed=seed) for each in differences]
    by_t = [t_test(each) for each in differences]
    return [
        PairedTest(
            paired_interval(system, baseline, seed=seed),
            sum(value > TIE for value in each),
            sum(abs(value) <= TIE for value in each),
            sum(value < -TIE for value in each),
            *p_values,
        )
        for (baseline, system), each, *p_values in zip(
            values, differences, by_randomisation, by_t, holm(by_randomisation), holm(by_t), strict=True
        )
    ]


def _top(run: Run, query_id: str, qrels: Qrels) -> tuple[ShownDocument, ...]:
    return tuple(
        ShownDocument(document.doc_id, qrels[query_id].get(document.doc_id), None)
        for document in run.get(query_id, [])[:SHOWN_DOCUMENTS]
    )


def _with_texts(pairs: Sequence[Pair], collection: Collection, counted: Mapping[str, object]) -> list[Pair]:
    """Return the pairs with the texts of their shown queries and documents, read in one pass."""
    queries = {query.query_id: query.text for query in collection.queries() if query.query_id in counted}
    if not queries:
        raise InputError(
            f"{collection.name} has none of the {len(counted)} judged queries (such as "
            f"{next(iter(counted))!r}); give the collection that the runs were made from"
        )
    shown = [query for pair in pairs for query in (*pair.gained, *pair.lost)]
    found = collection.fetch(
        document.doc_id for query in shown for document in (*query.baseline_top, *query.system_top)
    )

    def texts(documents: tuple[ShownDocument, ...]) -> tuple[ShownDocument, ...]:
        return tuple(
            document._replace(text=found[document.doc_id].full_text if document.doc_id in found else None)
            for document in documents
        )

    def filled(changes: tuple[ChangedQuery, ...]) -> tuple[ChangedQuery, ...]:
        return tuple(
            change._replace(
                text=queries.get(change.query_id),
                baseline_top=texts(change.baseline_top),
                system_top=texts(change.system_top),
            )
            for change in changes
        )

    return [dataclasses.replace(pair, gained=filled(pair.gained), lost=filled(pair.lost)) for pair in pairs]


def _plain(change: ChangedQuery) -> dict[str, Any]:
    return {
        **change._asdict(),
        "baseline_top": [document._asdict() for document in change.baseline_top],
        "system_top": [document._asdict() for document in change.system_top],
    }
