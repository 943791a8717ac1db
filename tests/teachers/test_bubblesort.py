from __future__ import annotations

import pytest

from tests.teachers.ordered_engine import OrderedEngine, label, strategy


@pytest.mark.parametrize(
    ("n", "k", "prompts"), [(0, 10, 0), (1, 10, 0), (2, 10, 2), (10, 10, 90), (10, 1, 18), (100, 10, 1890)]
)
def test_prompts(n: int, k: int, prompts: int) -> None:
    chosen = strategy("bubblesort", k=k)
    assert chosen.prompts(n) == prompts
    # the last candidate is the best one, the last but one the second, ...: nothing is asked in vain
    engine = OrderedEngine(range(n)[::-1])
    label(chosen, engine, n)
    assert len(engine.asked) == prompts


def test_a_sorted_list_costs_one_pass() -> None:
    engine = OrderedEngine(range(100))
    label(strategy("bubblesort"), engine, 100)
    assert len(engine.asked) == 2 * 99
