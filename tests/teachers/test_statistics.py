from __future__ import annotations

import pytest
from scipy.stats import kendalltau

from instruct_distill.records import Comparison, ListLabel
from instruct_distill.teachers.statistics import kendall, label_statistics


def test_statistics() -> None:
    labels = [
        ListLabel(
            "q1",
            ("a", "b", "c"),
            (3.0, 1.0, 2.0),
            (
                Comparison(0, 1, 2.0),
                Comparison(1, 0, -1.0),  # the same document: consistent, bias +0.5
                Comparison(0, 2, 3.0),
                Comparison(2, 0, 1.0),  # the first shown both times: inconsistent, bias +2
                Comparison(1, 2, 0.0),
                Comparison(2, 1, 0.5),  # a tie and an answer: not inconsistent, bias +0.25
            ),
        ),
        ListLabel("q2", ("a", "b"), (1.0, 1.0), (Comparison(0, 1, 4.0),)),  # one order only
        ListLabel("q3", ("a",), (0.0,)),
        ListLabel("q4", (), ()),
    ]
    found = label_statistics(iter(labels))
    assert found.as_dict() == {
        "lists": 4,
        "informative": 1,
        "documents": 6,
        "comparisons": 7,
        "undecided": 1,
        "inconsistent": pytest.approx(1 / 3),
        "position_bias": pytest.approx(2.75 / 3),
        "position_bias_spread": pytest.approx(0.7728, abs=1e-4),
        "first_stage_agreement": pytest.approx(1 / 3),  # of q1: two pairs as they were, one turned
    }


def test_nothing_was_compared() -> None:
    found = label_statistics([ListLabel("q1", ("a", "b"), (1.0, 0.0))])
    assert (found.lists, found.informative, found.comparisons) == (1, 1, 0)
    assert found.inconsistent is found.position_bias is found.position_bias_spread is None
    assert found.first_stage_agreement == 1.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([3.0, 1.0, 2.0, 2.0], [4.0, 3.0, 2.0, 1.0]),
        ([1.0, 1.0, 2.0, 5.0, 5.0, 0.0], [0.5, 0.5, 0.5, 9.0, -1.0, 3.0]),
        ([1.0, 2.0], [2.0, 1.0]),
    ],
)
def test_kendall_is_scipys(one: list[float], other: list[float]) -> None:
    assert kendall(one, other) == pytest.approx(float(kendalltau(one, other).statistic))


@pytest.mark.parametrize("scores", [[], [1.0], [2.0, 2.0, 2.0]])
def test_kendall_of_what_orders_nothing(scores: list[float]) -> None:
    assert kendall(scores, list(range(len(scores)))) is None
