from __future__ import annotations

import math

import pytest

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.evaluation.results import evaluate_run, recall_ceiling
from instruct_distill.records import Qrels, Run, ScoredDocument


def ranked(doc_ids: str) -> list[ScoredDocument]:
    return [ScoredDocument(doc_id, -float(i)) for i, doc_id in enumerate(doc_ids.split())]


QRELS: Qrels = {"q1": {"a": 1}, "q2": {"b": 1}, "q3": {"c": 1}}


def test_b42_queries_that_the_run_lacks_count_0() -> None:
    found = evaluate_run(QRELS, {"q1": ranked("a"), "q2": ranked("x")}, ["nDCG@10"])
    assert found.means["nDCG@10"] == pytest.approx(1 / 3)
    assert found.values("nDCG@10") == {"q1": 1.0, "q2": 0.0, "q3": 0.0}
    assert found.without_documents == ("q3",)
    assert found.judged_documents == 1


def test_b42_queries_with_only_zero_grades_are_counted_apart() -> None:
    qrels = {**QRELS, "q4": {"d": 0}, "q5": {}, "q6": {"e": -1}}
    run = {"q1": ranked("a"), "q2": ranked("x"), "q4": ranked("d"), "q5": ranked("d")}
    found = evaluate_run(qrels, run, ["nDCG@10"])
    assert found.means["nDCG@10"] == pytest.approx(1 / 3)
    assert list(found.per_query) == ["q1", "q2", "q3"]
    assert found.without_positive == ("q4", "q6")
    assert found.without_qrels == ("q5",)


def test_b42_all_judged_counts_them_as_0() -> None:
    qrels = {**QRELS, "q4": {"d": 0}, "q5": {}}
    run = {"q1": ranked("a"), "q2": ranked("x"), "q4": ranked("d")}
    found = evaluate_run(qrels, run, ["nDCG@10"], all_judged=True)
    assert found.means["nDCG@10"] == pytest.approx(1 / 4)
    assert list(found.per_query) == ["q1", "q2", "q3", "q4"]
    assert found.without_positive == ("q4",)
    assert found.all_judged


def test_b42_queries_without_qrels_change_nothing_and_are_counted() -> None:
    run = {"q1": ranked("a"), "q2": ranked("x")}
    more = evaluate_run(QRELS, {"q9": ranked("a b"), **run}, ["nDCG@10", "RR@10"])
    assert more.means == evaluate_run(QRELS, run, ["nDCG@10", "RR@10"]).means
    assert more.without_qrels == ("q9",)


def test_b42_an_empty_list_does_not_shift_the_queries_after_it() -> None:
    found = evaluate_run(QRELS, {"q1": [], "q2": ranked("b"), "q3": ranked("x c")}, ["RR@10"])
    assert found.values("RR@10") == {"q1": 0.0, "q2": 1.0, "q3": 0.5}
    assert found.without_documents == ("q1",)


def test_b46_grades_below_the_relevance_level_still_make_a_query_count() -> None:
    qrels: Qrels = {"q1": {"a": 2}, "q2": {"b": 1}}
    found = evaluate_run(qrels, {"q1": ranked("a"), "q2": ranked("b")}, ["AP", "nDCG@10"], relevance_level=2)
    assert found.means == {"AP": 0.5, "nDCG@10": 1.0}
    assert found.relevance_level == 2


def test_b46_more_topics_than_judgements() -> None:
    qrels: Qrels = {"q1": {"a": 1}, "q2": {"b": 1}}
    found = evaluate_run(qrels, {f"q{i}": ranked("a b") for i in range(1, 6)}, ["RR@10"])
    assert found.means["RR@10"] == pytest.approx(0.75)
    assert found.without_qrels == ("q3", "q4", "q5")


def test_no_query_with_a_positive_grade_is_an_error() -> None:
    with pytest.raises(InputError, match="none of the 1 judged queries"):
        evaluate_run({"q": {"a": 0}}, {"q": ranked("a")}, ["AP"])
    assert evaluate_run({"q": {"a": 0}}, {"q": ranked("a")}, ["AP"], all_judged=True).means == {"AP": 0.0}


def test_b51_no_query_id_in_common_shows_one_of_each_side() -> None:
    with pytest.raises(InputError, match=r"the run has 'topic-1' and 1 more, the qrels have 'q1' and 2 more"):
        evaluate_run(QRELS, {"topic-1": ranked("a"), "topic-2": ranked("b")}, ["AP"])


def test_an_empty_run_and_empty_qrels_are_errors() -> None:
    with pytest.raises(InputError, match="the run has no query"):
        evaluate_run(QRELS, {}, ["AP"])
    with pytest.raises(InputError, match="the qrels have no judgement"):
        evaluate_run({"q1": {}}, {"q1": ranked("a")}, ["AP"])


def test_b48_a_score_that_is_not_finite_stops_the_evaluation() -> None:
    run: Run = {"q1": [ScoredDocument("a", math.nan)]}
    with pytest.raises(NonFiniteScoreError, match="query q1, document a"):
        evaluate_run(QRELS, run, ["AP"])
    with pytest.raises(NonFiniteScoreError, match="query q1, document a"):
        evaluate_run({"q2": {"b": 1}}, {**run, "q2": ranked("b")}, ["AP"])


def test_b40_ties_are_reported() -> None:
    run: Run = {"q1": [ScoredDocument(d, 1.0) for d in ("a", "b", "c")], "q2": ranked("b")}
    assert evaluate_run(QRELS, run, ["AP"]).ties == 3


def test_ceiling_is_the_best_order_of_these_documents() -> None:
    qrels: Qrels = {"q1": {"a": 1, "b": 3, "c": -1, "missed": 2}, "q2": {"d": 1}}
    candidates = {"q1": ranked("c x a b"), "q2": ranked("x y")}
    ideal = 3 + 2 / math.log2(3) + 1 / math.log2(4)
    found = recall_ceiling(qrels, candidates, ["nDCG@10", "R@10", "RR@10", "nDCG@1"])
    assert found["nDCG@10"] == pytest.approx((3 + 1 / math.log2(3)) / ideal / 2)
    assert found["R@10"] == pytest.approx(2 / 3 / 2)
    assert found["RR@10"] == 0.5
    assert found["nDCG@1"] == 0.5


def test_ceiling_is_reached_by_the_ideal_order_and_leaves_the_candidates_alone() -> None:
    qrels: Qrels = {"q1": {"a": 1, "b": 3}}
    candidates = {"q1": ranked("x a b")}
    assert recall_ceiling(qrels, candidates, ["nDCG@10"]) == {"nDCG@10": 1.0}
    assert candidates == {"q1": ranked("x a b")}
    assert evaluate_run(qrels, candidates, ["nDCG@10"]).means["nDCG@10"] < 1
