from __future__ import annotations

from collections.abc import Sequence

import pytest

from instruct_distill.evaluation.results import evaluate_run, recall_ceiling
from instruct_distill.evaluation.several import judged_queries, with_means
from instruct_distill.evaluation.task import TaskResult
from instruct_distill.evaluation.tasks import SUITES, TASKS
from instruct_distill.records import Qrels, Run, ScoredDocument


def result(
    name: str,
    ranks: Sequence[int],
    metrics: Sequence[str] = ("RR",),
    systems: Sequence[str] = ("first_stage",),
) -> TaskResult:
    """A task in which query i has its one relevant document at rank ranks[i]."""
    qrels: Qrels = {f"q{i}": {"yes": 1} for i in range(len(ranks))}
    run: Run = {
        f"q{i}": [
            ScoredDocument("yes" if place == rank else f"d{place}", -place) for place in range(1, rank + 1)
        ]
        for i, rank in enumerate(ranks)
    }
    evaluations = {system: evaluate_run(qrels, run, metrics) for system in systems}
    return TaskResult(name, evaluations, recall_ceiling(qrels, run, metrics))


def known(name: str, rank: int) -> TaskResult:
    """A known task with the right number of queries."""
    return result(name, [rank] * TASKS[name].queries)


def test_the_mean_of_table_3_needs_all_eight() -> None:
    names = SUITES["beir-paper"].tasks
    results = [known(name, 1 if i < 2 else 2) for i, name in enumerate(names)]
    found = with_means(results)
    [mean] = found.means
    assert (mean.title, mean.tasks) == (SUITES["beir-paper"].mean, names)
    assert mean.means == {"first_stage": {"RR": pytest.approx((2 * 1 + 6 * 0.5) / 8)}}
    assert found.notes == ()
    assert found.table() == (
        "mean of the eight tasks of table 3 (arXiv 2311.01555)\n"
        "system           RR\n-------------------\nfirst_stage  0.6250"
    )
    fewer = with_means(results[:5])
    assert fewer.means == ()
    assert fewer.table() == (
        "no mean of the eight tasks of table 3 (arXiv 2311.01555): "
        "without beir-signal1m, beir-trec-news, beir-robust04"
    )


def test_a_part_of_the_queries_is_not_the_task() -> None:
    found = with_means([known("dl19", 1), result("dl20", [1, 1])])
    assert found.means == ()
    assert found.notes == ("no mean of DL19 and DL20: dl20 was evaluated on 2 of 54 queries",)


def test_one_task_or_tasks_that_do_not_belong_together_have_no_mean() -> None:
    for results in (
        [known("dl19", 1)],
        [result("mine", [1])],
        [known("dl19", 1), result("mine", [1])],
        [known("dl19", 1), known("noveleval", 1)],
    ):
        found = with_means(results)
        assert (found.means, found.notes, found.table()) == ((), (), "")


def test_a_mean_is_of_what_all_tasks_have() -> None:
    mixed = [
        result("a", [1], ["RR", "AP"], ["first_stage", "bm25", "reranker"]),
        result("b", [2, 4], ["P@1", "RR"], ["first_stage", "reranker"]),
    ]
    [mean] = with_means(mixed).means
    assert mean.title == "mean of these 2 tasks"
    half = pytest.approx((1 + (0.5 + 0.25) / 2) / 2)
    assert mean.means == {"first_stage": {"RR": half}, "reranker": {"RR": half}}
    assert with_means([result("a", [1], ["RR"]), result("b", [1], ["AP"])]).means == ()


def test_queries_with_only_zero_grades_are_judged_all_the_same() -> None:
    qrels: Qrels = {"q1": {"a": 1}, "q2": {"a": 0}}
    run: Run = {"q1": [ScoredDocument("a", 1.0)]}
    assert judged_queries(evaluate_run(qrels, run, ["RR"])) == 2
    assert judged_queries(evaluate_run(qrels, run, ["RR"], all_judged=True)) == 2
