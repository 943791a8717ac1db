from __future__ import annotations

import copy
import math

import ir_measures
import pytest
import pytrec_eval

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.evaluation.measures import parse_metrics, per_query, tied_scores
from instruct_distill.records import Qrels, Run, ScoredDocument


def ranked(doc_ids: str) -> list[ScoredDocument]:
    """A list in this order, with falling scores."""
    return [ScoredDocument(doc_id, -float(i)) for i, doc_id in enumerate(doc_ids.split())]


def scored(**scores: float) -> list[ScoredDocument]:
    return [ScoredDocument(doc_id, score) for doc_id, score in scores.items()]


def value(judgements: dict[str, int], doc_ids: str, metric: str, relevance_level: int = 1) -> float:
    return per_query({"q": judgements}, {"q": ranked(doc_ids)}, [metric], relevance_level)["q"][metric]


def test_names_are_kept_in_order_each_once() -> None:
    names = ["RR@10", "nDCG", "nDCG@10", "AP", "P@5", "R@100", "Success@1", "RR", "AP@5"]
    assert [metric.name for metric in parse_metrics([*names, "AP"])] == names


def test_names_are_those_of_ir_measures() -> None:
    for metric in parse_metrics(["nDCG", "nDCG@10", "RR", "RR@10", "AP", "P@10", "R@100", "Success@1"]):
        assert str(ir_measures.parse_measure(metric.name)) == metric.name


def test_every_bad_name_is_in_one_error_with_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown metric") as error:
        parse_metrics(["nDGC@10", "AP", "ndcg@5", "MRR@10", "recall@100", "P", "nDCG@0"])
    message = str(error.value)
    for part in (
        "unknown metric 'nDGC@10'; did you mean 'nDCG@10'?",
        "unknown metric 'ndcg@5'; did you mean 'nDCG@5'?",
        "unknown metric 'MRR@10'; did you mean 'RR@10'?",
        "unknown metric 'recall@100'; did you mean 'R@100'?",
        "metric 'P': expected a cutoff",
        "metric 'nDCG@0': expected a cutoff",
        "known: nDCG, nDCG@k",
    ):
        assert part in message
    assert "'AP'" not in message


@pytest.mark.parametrize("name", ["", "nDCG@", "nDCG@1.5", "nDCG@-1", "nDCG @10", "R@٣", "nDCG@99999999999"])
def test_malformed_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="metric"):
        parse_metrics([name])


def test_no_metric_is_an_error() -> None:
    with pytest.raises(InputError, match="no metric"):
        parse_metrics([])


def test_b40_trec_eval_alone_would_order_ties_by_id() -> None:
    """What would happen if scores were handed over as they are; the reason for positions."""
    evaluator = pytrec_eval.RelevanceEvaluator({"q": {"p1": 1}}, {"ndcg"})
    assert evaluator.evaluate({"q": {"p1": 1.0, "p2": 1.0, "p3": 1.0}})["q"]["ndcg"] == pytest.approx(0.5)
    evaluator = pytrec_eval.RelevanceEvaluator({"q": {"d10": 1}}, {"ndcg"})
    assert evaluator.evaluate({"q": {"d2": 1.0, "d9": 1.0, "d10": 1.0}})["q"]["ndcg"] == pytest.approx(0.5)
    evaluator = pytrec_eval.RelevanceEvaluator({"q": {"a": 1}}, {"ndcg"})
    assert evaluator.evaluate({"q": {"a": 1.000000001, "b": 1.0}})["q"]["ndcg"] == pytest.approx(
        0.6309, abs=1e-4
    )


def test_b40_the_order_of_the_list_counts_not_the_ids() -> None:
    for names in (("p1", "p2", "p3"), ("p3", "p2", "p1"), ("d10", "d9", "d2"), ("d2", "d9", "d10")):
        run: Run = {"q": [ScoredDocument(name, 1.0) for name in names]}
        for position, name in enumerate(names):
            found = per_query({"q": {name: 1}}, run, ["nDCG@10", "RR@10"])["q"]
            assert found["nDCG@10"] == pytest.approx(1 / math.log2(position + 2))
            assert found["RR@10"] == pytest.approx(1 / (position + 1))


def test_b40_scores_that_are_equal_in_single_precision() -> None:
    run = {"q": scored(a=1.000000001, b=1.0)}
    assert per_query({"q": {"a": 1}}, run, ["nDCG@10"])["q"]["nDCG@10"] == 1.0
    assert per_query({"q": {"b": 1}}, run, ["nDCG@10"])["q"]["nDCG@10"] == pytest.approx(0.6309, abs=1e-4)
    assert tied_scores(run) == 2


def test_b40_long_lists_keep_their_order() -> None:
    run: Run = {"q": [ScoredDocument(f"d{i}", 1e-9 * (5000 - i)) for i in range(5000)]}
    assert per_query({"q": {"d4999": 1}}, run, ["RR"])["q"]["RR"] == pytest.approx(1 / 5000)


def test_tied_scores_count_documents_within_a_query() -> None:
    assert tied_scores({}) == 0
    assert tied_scores({"q1": scored(a=3, b=2, c=2, d=1, e=1, f=1), "q2": scored(a=3, b=2), "q3": []}) == 5


def test_b43_the_same_numbers_at_every_call_and_with_any_other_cutoffs() -> None:
    qrels: Qrels = {"q1": {"a": 1, "b": 2, "z": 1}, "q2": {"c": 1, "d": 3}}
    run = {"q1": ranked("x a y w v u b"), "q2": ranked("d x c")}
    metrics = ["nDCG@5", "nDCG@10", "nDCG@100", "R@100"]
    first = per_query(qrels, run, metrics)
    assert per_query(qrels, run, metrics) == first
    assert per_query(qrels, run, metrics) == first
    assert 0 < first["q1"]["nDCG@5"] < first["q1"]["nDCG@10"] < 1
    for metric in metrics:
        alone = per_query(qrels, run, [metric])
        assert {q: alone[q][metric] for q in alone} == {q: first[q][metric] for q in first}


def test_b44_gain_is_linear() -> None:
    assert value({"a": 3, "b": 2, "c": 1}, "b a c", "nDCG@10") == pytest.approx(0.92249, abs=1e-5)


def test_b44_ideal_is_made_from_all_judged_documents() -> None:
    assert value({"a": 1, "b": 1, "c": 1}, "a x", "nDCG@10") == pytest.approx(0.46928, abs=1e-5)


def test_b44_lists_shorter_than_the_cutoff() -> None:
    dcg = 2 / math.log2(2) + 1 / math.log2(4)
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert value({"a": 2, "b": 1, "c": 1}, "a x b", "nDCG@10") == pytest.approx(dcg / ideal)


@pytest.mark.parametrize("metric", ["nDCG", "nDCG@10"])
def test_b46_negative_grades_gain_nothing(metric: str) -> None:
    assert value({"a": -2, "b": 2, "c": 1}, "a b c", metric) == pytest.approx(0.66967, abs=1e-5)
    assert value({"a": 0, "b": 2, "c": 1}, "a b c", metric) == pytest.approx(0.66967, abs=1e-5)


@pytest.mark.parametrize(("level", "average_precision", "recall"), [(1, 0.6667, 0.6667), (2, 0.25, 0.5)])
def test_b46_relevance_level(level: int, average_precision: float, recall: float) -> None:
    judgements = {"a": 1, "b": 2, "c": 3}
    assert value(judgements, "a b", "AP", level) == pytest.approx(average_precision, abs=1e-4)
    assert value(judgements, "a b", "R@100", level) == pytest.approx(recall, abs=1e-4)
    assert value(judgements, "a b", "nDCG@10", level) == pytest.approx(0.47500, abs=1e-5)
    assert value(judgements, "a b", "RR@10", level) == 1 / level


def test_b46_relevance_level_below_1_is_refused() -> None:
    with pytest.raises(InputError, match="relevance_level 0"):
        value({"a": 1}, "a", "AP", 0)


@pytest.mark.parametrize("grade", [1.0, "1", None, True])
def test_b46_grades_that_are_not_whole_numbers_are_refused_by_name(grade: object) -> None:
    with pytest.raises(InputError, match="query q, document a: grade"):
        per_query({"q": {"a": grade}}, {"q": ranked("a")}, ["AP"])  # type: ignore[dict-item]


def test_cutoffs_of_every_family() -> None:
    judgements = {"c": 1, "e": 2, "z": 1}
    assert value(judgements, "a b c d e", "RR@2") == 0.0
    assert value(judgements, "a b c d e", "RR@3") == pytest.approx(1 / 3)
    assert value(judgements, "a b c d e", "RR") == pytest.approx(1 / 3)
    assert value(judgements, "a b c d e", "P@5") == pytest.approx(2 / 5)
    assert value(judgements, "a b c d e", "P@10") == pytest.approx(2 / 10)
    assert value(judgements, "a b c d e", "R@3") == pytest.approx(1 / 3)
    assert value(judgements, "a b c d e", "Success@2") == 0.0
    assert value(judgements, "a b c d e", "Success@3") == 1.0
    assert value(judgements, "a b c d e", "AP") == pytest.approx((1 / 3 + 2 / 5) / 3)
    assert value(judgements, "a b c d e", "AP@3") == pytest.approx((1 / 3) / 3)


def test_equal_to_ir_measures() -> None:
    qrels: Qrels = {"q1": {"a": 3, "b": 0, "c": 1}, "q2": {"a": 1, "y": 2, "x": 0}}
    run = {"q1": ranked("b c x a"), "q2": ranked("x y w v a")}
    names = ["nDCG@3", "nDCG", "RR@2", "AP", "P@3", "R@4", "Success@1"]
    oracle_run = {q: {d.doc_id: d.score for d in documents} for q, documents in run.items()}
    found = per_query(qrels, run, names)
    count = 0
    for metric in ir_measures.iter_calc([ir_measures.parse_measure(n) for n in names], qrels, oracle_run):
        assert found[metric.query_id][str(metric.measure)] == pytest.approx(metric.value, abs=1e-6)
        count += 1
    assert count == 2 * len(names)


def test_queries_of_one_side_only_and_empty_lists() -> None:
    qrels: Qrels = {"q1": {"a": 1}, "q2": {"b": 1}, "q3": {}, "q4": {"c": 1}}
    run = {"q9": ranked("a"), "q1": ranked("a"), "q3": ranked("a"), "q4": []}
    metrics = ["nDCG@10", "RR@10", "AP", "P@1", "R@1", "Success@1"]
    assert per_query(qrels, run, metrics) == {
        "q1": dict.fromkeys(metrics, 1.0),
        "q4": dict.fromkeys(metrics, 0.0),
    }
    assert per_query(qrels, {"q4": []}, metrics) == {"q4": dict.fromkeys(metrics, 0.0)}


def test_arguments_are_left_as_they_are() -> None:
    qrels: Qrels = {"q": {"a": -1, "b": 2}, "e": {}}
    run = {"q": ranked("a b c"), "e": ranked("a")}
    before = copy.deepcopy((qrels, run))
    per_query(qrels, run, ["nDCG@10", "RR@1"])
    assert (qrels, run) == before


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_b48_scores_that_are_not_finite_name_query_and_document(bad: float, position: int) -> None:
    scores = [3.0, 2.0, 1.0]
    scores[position] = bad
    run: Run = {"q7": [ScoredDocument(f"d{i}", score) for i, score in enumerate(scores)]}
    with pytest.raises(NonFiniteScoreError, match=f"query q7, document d{position}: score"):
        per_query({"q7": {"d0": 1}}, run, ["nDCG@10"])


def test_b48_also_in_queries_without_judgements() -> None:
    with pytest.raises(NonFiniteScoreError, match="query q9"):
        per_query({"q": {"a": 1}}, {"q": ranked("a"), "q9": scored(a=math.nan)}, ["AP"])


def test_a_document_twice_is_refused() -> None:
    with pytest.raises(InputError, match="query q: document a stands twice"):
        per_query({"q": {"a": 1}}, {"q": ranked("a b a")}, ["AP"])


def test_rising_scores_are_refused() -> None:
    with pytest.raises(InputError, match=r"query q: document b at position 2 has score 2.0, above the 1.0"):
        per_query({"q": {"a": 1}}, {"q": scored(a=1.0, b=2.0)}, ["AP"])


def test_b51_ids_that_are_no_strings_are_refused() -> None:
    with pytest.raises(InputError, match="run: query id 7 is of type int"):
        per_query({"7": {"a": 1}}, {7: ranked("a")}, ["AP"])  # type: ignore[dict-item]
    with pytest.raises(InputError, match="qrels: query id 7 is of type int"):
        per_query({7: {"a": 1}}, {"7": ranked("a")}, ["AP"])  # type: ignore[dict-item]
    with pytest.raises(InputError, match="qrels, query 7: document id 12 is of type int"):
        per_query({"7": {12: 1}}, {"7": ranked("a")}, ["AP"])  # type: ignore[dict-item]
    with pytest.raises(InputError, match="run, query 7: document id 12 is of type int"):
        per_query({"7": {"12": 1}}, {"7": [ScoredDocument(12, 1.0)]}, ["AP"])  # type: ignore[arg-type]


def test_b51_ids_that_look_like_something_else_stay_apart() -> None:
    ids = ["7", "007", "0071", "1E5", "100000", "true", "null", "NA", "nan", "None"]
    qrels: Qrels = {query_id: {query_id: 1} for query_id in ids}
    run: Run = {query_id: [ScoredDocument(d, -i) for i, d in enumerate(ids)] for query_id in ids}
    found = per_query(qrels, run, ["RR"])
    assert {query_id: found[query_id]["RR"] for query_id in ids} == pytest.approx(
        {query_id: 1 / (i + 1) for i, query_id in enumerate(ids)}
    )
