from __future__ import annotations

from collections.abc import Generator
from itertools import permutations
from typing import Any

import pytest

from instruct_distill.teachers.sorting import Best, bubble_cost, bubble_top, heap_cost, heap_top


def run(sort: Any, n: int, k: int, degree: int, order: tuple[int, ...]) -> tuple[list[int], int, int]:
    """Return the best k, and how many sets and comparisons that took; item i stands at place order[i]."""
    sets = comparisons = 0

    def best(items: list[int]) -> Generator[Any, Any, int]:
        nonlocal sets, comparisons
        assert len(set(items)) == len(items) >= 2
        sets += 1
        comparisons += len(items) - 1
        return min(items, key=order.__getitem__)
        yield

    chosen: Best = best
    steps = sort(n, k, degree, chosen)
    with pytest.raises(StopIteration) as done:
        next(steps)
    return done.value.value, sets, comparisons


@pytest.mark.parametrize("k", [1, 2, 4, 6, 9])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("degree", [2, 3, 5])
@pytest.mark.parametrize(("sort", "cost"), [(heap_top, heap_cost), (bubble_top, bubble_cost)])
def test_every_order_is_sorted_within_the_cost(sort: Any, cost: Any, degree: int, n: int, k: int) -> None:
    most_sets = most_comparisons = 0
    for order in permutations(range(n)):
        top, sets, comparisons = run(sort, n, k, degree, order)
        assert top == sorted(range(n), key=order.__getitem__)[: min(k, max(n, 0))]
        most_sets, most_comparisons = max(sets, most_sets), max(comparisons, most_comparisons)
    assert most_sets <= cost(n, k, degree, False) <= 1.25 * most_sets
    assert most_comparisons <= cost(n, k, degree, True) <= 1.25 * most_comparisons


@pytest.mark.parametrize(
    ("n", "k", "width", "pairwise", "cost"),
    [
        (10, 10, 2, True, 45),  # all pairs
        (100, 10, 2, True, 945),  # 99 + 98 + ... + 90
        (100, 10, 4, False, 33 + 33 + 33 + 32 + 32 + 32 + 31 + 31 + 31 + 30),
        (1, 10, 4, False, 0),
        (0, 10, 4, False, 0),
    ],
)
def test_bubble_cost(n: int, k: int, width: int, pairwise: bool, cost: int) -> None:
    assert bubble_cost(n, k, width, pairwise) == cost


def test_heap_cost_of_two_levels() -> None:
    # three items: one sift to build, then the last item against the second best
    assert heap_cost(3, 1, 2, True) == 2
    assert heap_cost(3, 3, 2, True) == 3
    assert heap_cost(3, 1, 2, False) == 1
    # a heap of 100 with three children is four levels deep
    assert heap_cost(100, 1, 3, False) == heap_cost(100, 2, 3, False) - 4
