from __future__ import annotations

import pytest

from tests.teachers.ordered_engine import OrderedEngine, label, shuffled, strategy


@pytest.mark.parametrize(
    ("n", "k", "prompts"),
    [
        (0, 10, 0),
        (1, 10, 0),
        (2, 10, 2),
        (3, 10, 6),
        (5, 1, 12),  # 2 comparisons at the second node, 4 at the first
        (10, 10, 88),  # 15 comparisons to build the heap, 29 to take from it; all pairs are 90
        (100, 10, 600),  # of 9,900: n log n, not n²
    ],
)
def test_prompts(n: int, k: int, prompts: int) -> None:
    assert strategy("heapsort", k=k).prompts(n) == prompts


def test_prompts_of_a_hundred_candidates() -> None:
    asked = []
    for seed in range(10):
        engine = OrderedEngine(shuffled(100, seed))
        label(strategy("heapsort"), engine, 100)
        asked.append(len(engine.asked))
    assert 450 < min(asked) <= max(asked) <= 600
