from __future__ import annotations

import pytest

from instruct_distill.teachers.budgets import FLIPS, _agreement, budgets, usual_length
from instruct_distill.teachers.labelling import strategy_of
from instruct_distill.teachers.sampled_pairs import SampledPairs
from tests.teachers.stub_engine import context, parameters


def test_a_quarter_of_the_pairs_is_worth_little_in_a_short_list() -> None:
    rows = budgets([10, 10, 3], parameters())
    assert [row.share for row in rows] == [0.1, 0.25, 0.5, 0.75, 1.0]
    assert [row.prompts for row in rows] == [40, 52, 96, 142, 186]  # 9 pairs connect 10
    assert rows[-1].agreement == (1.0, 1.0, 1.0, 1.0)
    for taus in zip(*(row.agreement for row in rows), strict=True):
        assert list(taus) == sorted(taus)  # more pairs, more agreement
    for row in rows[:-1]:
        assert list(row.agreement) == sorted(row.agreement, reverse=True)  # more wrong answers, less
    assert FLIPS[0] == 0.0
    assert 0.6 < rows[1].agreement[0] < 0.78


def test_in_a_long_list_it_is_worth_much() -> None:
    (row,) = budgets([60], parameters(), shares=[0.25])
    assert row.prompts == 2 * 443
    assert row.agreement[0] > 0.85


def test_it_is_a_function_of_the_seed() -> None:
    one, again, other = (budgets([6], parameters(), shares=[0.5], seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_the_recipes_way_to_score_is_taken_over() -> None:
    win_rate = parameters(strategy={"name": "sampled_pairs", "share": 0.3, "scores": "win_rate"})
    bradley_terry = parameters(strategy={"name": "sampled_pairs", "share": 0.3})
    (one,), (other,) = (budgets([10], each, shares=[0.5]) for each in (win_rate, bradley_terry))
    assert one.agreement[0] < other.agreement[0]


def test_all_pairs_have_the_order_of_all_pairs() -> None:
    """Which is why the simulation leaves them out."""
    strategy = strategy_of(parameters(strategy={"name": "sampled_pairs", "share": 1.0}), context())
    assert isinstance(strategy, SampledPairs)
    assert _agreement(strategy, 12, 0.2, 20, 5) == pytest.approx(1.0)


def test_lists_without_pairs_have_no_budget() -> None:
    assert budgets([], parameters()) == budgets([1, 1, 5], parameters()) == []
    assert usual_length([3, 5, 5, 3]) == 5
