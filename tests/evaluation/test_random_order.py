from __future__ import annotations

from itertools import permutations

import pytest

from instruct_distill.evaluation.measures import per_query
from instruct_distill.evaluation.random_order import random_order_means
from instruct_distill.evaluation.results import evaluate_run
from instruct_distill.records import Run, ScoredDocument

METRICS = ("nDCG", "nDCG@1", "nDCG@3", "RR", "RR@2", "AP", "AP@3", "P@2", "P@9", "R@2", "R@9", "Success@2")


def run_of(order: tuple[str, ...]) -> Run:
    return {"q": [ScoredDocument(doc_id, float(-place)) for place, doc_id in enumerate(order)]}


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(
    ("judged", "listed"),
    [
        ({"a": 1}, "abcde"),
        ({"a": 3, "b": 1, "c": 0, "d": 2, "x": 1, "y": 3}, "abcde"),  # x and y were not found
        ({"a": 2, "b": 2}, "ab"),
        ({"a": 1}, "a"),
        ({"a": 1}, "bcd"),
    ],
)
def test_it_is_the_mean_over_all_orders(judged: dict[str, int], listed: str, level: int) -> None:
    qrels = {"q": judged}
    found = random_order_means(qrels, [("q", listed)], METRICS, relevance_level=level)
    values = [per_query(qrels, run_of(order), METRICS, level)["q"] for order in permutations(listed)]
    means = {metric: sum(value[metric] for value in values) / len(values) for metric in METRICS}
    assert found == pytest.approx(means, abs=1e-6)


def test_a_pool_of_ten_with_one_target() -> None:
    found = random_order_means({"q": {"a": 1}}, [("q", "abcdefghij")], ["Success@1", "RR@10", "nDCG@10"])
    assert found["Success@1"] == pytest.approx(0.1)
    assert found["RR@10"] == pytest.approx(sum(1 / place for place in range(1, 11)) / 10)
    assert found["nDCG@10"] == pytest.approx(0.4544, abs=5e-5)


@pytest.mark.parametrize("all_judged", [False, True])
def test_the_same_queries_count_as_for_a_run(all_judged: bool) -> None:
    qrels = {"q": {"a": 1}, "zero": {"b": 0}, "absent": {"a": 1}, "unjudged": {}}
    run = {"q": [ScoredDocument("a", 1.0)], "other": [ScoredDocument("a", 1.0)]}
    evaluation = evaluate_run(qrels, run, ["P@1"], all_judged=all_judged)
    found = random_order_means(qrels, [("q", ["a"]), ("other", ["a"])], ["P@1"], all_judged=all_judged)
    assert found == evaluation.means == {"P@1": pytest.approx(1 / 3 if all_judged else 1 / 2)}
