from __future__ import annotations

import pytest

from instruct_distill.errors import InputError
from instruct_distill.evaluation.results import evaluate_run
from instruct_distill.evaluation.significance import Interval
from instruct_distill.evaluation.task import compare_systems
from instruct_distill.records import Qrels, ScoredDocument

QRELS: Qrels = {"q1": {"a": 1}, "q2": {"a": 1}}


def evaluation(*lists: str, metric: str = "RR@10", qrels: Qrels = QRELS):  # type: ignore[no-untyped-def]
    run = {
        f"q{i}": [ScoredDocument(d, -j) for j, d in enumerate(doc_ids)] for i, doc_ids in enumerate(lists, 1)
    }
    return evaluate_run(qrels, run, [metric])


def test_each_system_is_compared_with_each_one_before_it() -> None:
    evaluations = {
        "first_stage": evaluation("xa", "xa"),
        "zero_shot": evaluation("xa", "ax"),
        "student": evaluation("ax", "ax"),
    }
    found = compare_systems(evaluations, seed=1)
    assert found == {
        "zero_shot": {"first_stage": {"RR@10": Interval(0.25, 0.0, 0.5)}},
        "student": {
            "first_stage": {"RR@10": Interval(0.5, 0.5, 0.5)},
            "zero_shot": {"RR@10": Interval(0.25, 0.0, 0.5)},
        },
    }


def test_one_system_is_compared_with_nothing() -> None:
    assert compare_systems({"first_stage": evaluation("a", "a")}, seed=1) == {}


def test_systems_on_other_queries_or_metrics_are_an_error() -> None:
    with pytest.raises(InputError, match="not the same queries"):
        compare_systems({"x": evaluation("a", "a"), "y": evaluation("a", qrels={"q1": {"a": 1}})}, seed=1)
    with pytest.raises(InputError, match="y and x were not evaluated with the same metrics"):
        compare_systems({"x": evaluation("a", "a"), "y": evaluation("a", "a", metric="AP")}, seed=1)
