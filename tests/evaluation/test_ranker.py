from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.evaluation.ranker import RerankedList, Timing, rerank, run_of, timing_of
from instruct_distill.evaluation.results import evaluate_run
from instruct_distill.records import Document, Query, RankedDocument, Run, ScoredDocument


class ByScore:
    """A ranker that scores each document with a function, and keeps what it was asked."""

    def __init__(self, score: Callable[[Query, Document], float]) -> None:
        self.score = score
        self.asked: list[tuple[str, list[str]]] = []

    def rank(self, query: Query, documents: Sequence[Document]) -> list[RankedDocument]:
        self.asked.append((query.query_id, [document.doc_id for document in documents]))
        scored = [(self.score(query, document), i) for i, document in enumerate(documents)]
        return [
            RankedDocument(i, documents[i].doc_id, score, rank, documents[i].text)
            for rank, (score, i) in enumerate(sorted(scored, reverse=True), start=1)
        ]


def number(query: Query, document: Document) -> float:
    return float(document.text)


def collection(count: int) -> dict[str, Document]:
    return {f"d{i}": Document(f"d{i}", str(i)) for i in range(1, count + 1)}


def falling(count: int) -> list[ScoredDocument]:
    """First-stage list d1, d2, ... with scores count, count - 1, ..., 1."""
    return [ScoredDocument(f"d{i}", float(count + 1 - i)) for i in range(1, count + 1)]


QUERY = Query("q", "text")


def test_lists_are_ordered_by_the_ranker() -> None:
    run = run_of(rerank(ByScore(number), [QUERY], {"q": falling(3)}, collection(3)))
    assert run == {"q": [ScoredDocument("d3", 3.0), ScoredDocument("d2", 2.0), ScoredDocument("d1", 1.0)]}


def test_b08_candidates_below_the_depth_follow_in_their_order() -> None:
    ranker = ByScore(lambda query, document: float(document.text) / 1000)
    candidates: Run = {"q": falling(150)}
    documents = {doc_id: d for doc_id, d in collection(150).items() if int(d.text) <= 100}
    run = run_of(rerank(ranker, [QUERY], candidates, documents, depth=100))
    assert ranker.asked == [("q", [f"d{i}" for i in range(1, 101)])]
    names = [document.doc_id for document in run["q"]]
    assert names == [f"d{i}" for i in range(100, 0, -1)] + [f"d{i}" for i in range(101, 151)]
    scores = np.array([document.score for document in run["q"]], dtype=np.float32)
    assert len(scores) == 150
    assert (np.diff(scores) < 0).all()
    qrels = {"q": {"d3": 1, "d140": 1, "d150": 1, "other": 1}}
    before = evaluate_run(qrels, candidates, ["R@150"]).means
    assert evaluate_run(qrels, run, ["R@150"]).means == before == {"R@150": 0.75}


@pytest.mark.parametrize("lowest", [-1e30, -16777216.0, -1.0, 0.0, 1e-30, 1e30])
def test_b08_lower_in_single_precision_whatever_the_scale(lowest: float) -> None:
    run = run_of(rerank(ByScore(lambda q, d: lowest), [QUERY], {"q": falling(9)}, collection(9), depth=2))
    scores = np.array([document.score for document in run["q"]], dtype=np.float32)
    assert (np.diff(scores[1:]) < 0).all()
    assert [document.score for document in run["q"]] == scores.tolist()


@pytest.mark.parametrize("depth", [None, 3, 1000])
def test_b08_no_depth_drops_the_last_candidate(depth: int | None) -> None:
    run = run_of(rerank(ByScore(number), [QUERY], {"q": falling(3)}, collection(3), depth=depth))
    assert [document.doc_id for document in run["q"]] == ["d3", "d2", "d1"]


def test_b08_depth_0_is_refused() -> None:
    with pytest.raises(InputError, match="depth 0"):
        rerank(ByScore(number), [QUERY], {"q": falling(3)}, collection(3), depth=0)


def test_b40_a_constant_ranker_has_the_first_stage_order_and_value() -> None:
    candidates: Run = {"q": falling(5)}
    qrels = {"q": {"d4": 1}}
    run = run_of(rerank(ByScore(lambda q, d: 1.0), [QUERY], candidates, collection(5)))
    assert [document.doc_id for document in run["q"]] == ["d1", "d2", "d3", "d4", "d5"]
    found = evaluate_run(qrels, run, ["RR@10"])
    assert found.means == evaluate_run(qrels, candidates, ["RR@10"]).means == {"RR@10": 0.25}
    assert found.ties == 5


def test_b40_scores_that_differ_in_double_precision_only_are_ties() -> None:
    scores = {"d1": 1.0, "d2": 1.000000001}
    run = run_of(rerank(ByScore(lambda q, d: scores[d.doc_id]), [QUERY], {"q": falling(2)}, collection(2)))
    assert run == {"q": [ScoredDocument("d1", 1.0), ScoredDocument("d2", 1.0)]}


def test_scores_belong_to_query_and_document_whatever_order_is_returned() -> None:
    class Shuffled(ByScore):
        def rank(self, query: Query, documents: Sequence[Document]) -> list[RankedDocument]:
            return super().rank(query, documents)[::-1]

    run = run_of(rerank(Shuffled(number), [QUERY], {"q": falling(4)}, collection(4)))
    assert run["q"] == [ScoredDocument(f"d{i}", float(i)) for i in (4, 3, 2, 1)]


def test_queries_without_candidates_are_left_out_and_empty_lists_stay_empty() -> None:
    ranker = ByScore(number)
    queries = [Query("q1", "a"), Query("q2", "b"), Query("q3", "c")]
    run = run_of(rerank(ranker, queries, {"q3": falling(1), "q1": [], "q9": falling(2)}, collection(1)))
    assert run == {"q1": [], "q3": [ScoredDocument("d1", 1.0)]}
    assert ranker.asked == [("q3", ["d1"])]


def test_lists_come_one_by_one() -> None:
    ranker = ByScore(number)
    queries = [Query("q1", "a"), Query("q2", "b")]
    lists = rerank(ranker, queries, {"q1": falling(2), "q2": falling(2)}, collection(2), depth=1)
    first = next(lists)
    assert (first.query_id, first.reranked, len(first.documents)) == ("q1", 1, 2)
    assert [query_id for query_id, _ in ranker.asked] == ["q1"]
    assert [item.query_id for item in lists] == ["q2"]


def test_a_candidate_that_the_collection_lacks_is_named_before_the_work_starts() -> None:
    ranker = ByScore(number)
    with pytest.raises(InputError, match="query q2: candidate d3 is not in the collection"):
        rerank(
            ranker, [Query("q1", ""), Query("q2", "")], {"q1": falling(1), "q2": falling(3)}, collection(2)
        )
    assert ranker.asked == []


def test_a_ranker_that_loses_or_repeats_a_document_is_an_error() -> None:
    class Cut(ByScore):
        def rank(self, query: Query, documents: Sequence[Document]) -> list[RankedDocument]:
            return super().rank(query, documents)[:2]

    with pytest.raises(InputError, match="query q: the ranker was given 3 documents and returned 2"):
        list(rerank(Cut(number), [QUERY], {"q": falling(3)}, collection(3)))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_b48_a_ranker_that_is_not_finite_names_query_and_document(bad: float) -> None:
    ranker = ByScore(lambda query, document: bad if document.doc_id == "d2" else 1.0)
    with pytest.raises(NonFiniteScoreError, match="query q, document d2: score"):
        list(rerank(ranker, [QUERY], {"q": falling(3)}, collection(3)))


def test_timing() -> None:
    lists = [
        RerankedList("q1", [], 100, 8.0),
        RerankedList("q2", [], 100, 1.0),
        RerankedList("q3", [], 0, 0.0),
        RerankedList("q4", [], 40, 1.0),
    ]
    timing = timing_of(lists)
    assert timing is not None
    assert timing[:4] == Timing(queries=3, median=1.0, mean=10 / 3, documents_per_second=24.0)[:4]
    assert timing.process_peak_bytes > 2**20
    assert timing_of([]) is None
    assert timing_of(lists[2:3]) is None


def test_time_is_measured() -> None:
    [item] = rerank(ByScore(number), [QUERY], {"q": falling(3)}, collection(3))
    assert item.seconds > 0
