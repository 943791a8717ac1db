from __future__ import annotations

import random
from collections.abc import Generator
from itertools import permutations
from typing import Any

import pytest

from instruct_distill.inference.engine import Question
from instruct_distill.teachers.sorting import (
    Best,
    bubble_cost,
    bubble_rounds,
    bubble_top,
    heap_cost,
    heap_rounds,
    heap_top,
)
from tests.teachers.ordered_engine import QUERY


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


# -- rounds -------------------------------------------------------------------------------------------------


def one_after_the_other(sort: Any, n: int, k: int, degree: int) -> Any:
    """The textbook's order of questions: a set at a time."""

    def heap(best: Any) -> list[int]:
        items = list(range(n))

        def sift(node: int) -> None:
            while (first := degree * node + 1) < len(items):
                places = [node, *range(first, min(first + degree, len(items)))]
                place = items.index(best([items[place] for place in places]))
                if place == node:
                    return
                items[node], items[place] = items[place], items[node]
                node = place

        for parent in reversed(range((n + degree - 2) // degree if n > 1 else 0)):
            sift(parent)
        top: list[int] = []
        while items and len(top) < k:
            top.append(items[0])
            last = items.pop()
            if items and len(top) < k:
                items[0] = last
                sift(0)
        return top

    def bubble(best: Any) -> list[int]:
        items = list(range(n))
        for place in range(min(k, n - 1)):
            end = n
            while end - place > 1:
                start = max(place, end - degree)
                items.insert(start, items.pop(items.index(best(items[start:end]), start, end)))
                end = start + 1
        return items[:k]

    return heap if sort is heap_top else bubble


def answered(steps: Generator[list[Question], Any, list[int]]) -> tuple[list[int], int]:
    """Answer every round; return the result and the number of rounds."""
    rounds = 0
    try:
        asked = next(steps)
        while True:
            rounds += 1
            asked = steps.send([0] * len(asked))
    except StopIteration as done:
        return done.value, rounds


@pytest.mark.parametrize("n", [2, 3, 7, 10, 33])
@pytest.mark.parametrize("k", [1, 3, 10, 40])
@pytest.mark.parametrize("degree", [2, 3, 5])
@pytest.mark.parametrize(
    ("sort", "rounds"), [(heap_top, heap_rounds), (bubble_top, bubble_rounds)], ids=["heap", "bubble"]
)
def test_the_same_sets_are_asked_in_fewer_rounds(sort: Any, rounds: Any, degree: int, k: int, n: int) -> None:
    for seed in range(6):
        numbers = random.Random(f"{seed} {n} {k} {degree}")
        order = numbers.sample(range(n), n)
        without_sense = seed % 2 == 1

        def choose(items: list[int], order: list[int] = order, odd: bool = without_sense) -> int:
            # a choice that depends on the set alone, and may go in circles
            return items[hash(tuple(items)) % len(items)] if odd else min(items, key=order.__getitem__)

        expected: list[tuple[int, ...]] = []

        def now(items: list[int], asked: list[tuple[int, ...]] = expected, choose: Any = choose) -> int:
            asked.append(tuple(items))
            return int(choose(items))

        top = one_after_the_other(sort, n, k, degree)(now)
        found: list[tuple[int, ...]] = []

        def later(
            items: list[int], asked: list[tuple[int, ...]] = found, choose: Any = choose
        ) -> Generator[list[Question], Any, int]:
            yield [Question(QUERY, ())]
            asked.append(tuple(items))
            return int(choose(items))

        result, count = answered(sort(n, k, degree, later))
        assert result == top
        assert sorted(found) == sorted(expected)
        assert count <= rounds(n, k, degree, False)


@pytest.mark.parametrize(
    ("rounds", "degree", "pairwise", "number"),
    [
        (heap_rounds, 2, True, 2 * (21 + 9 * 6)),  # six levels; sets of three are two comparisons
        (heap_rounds, 3, False, 10 + 9 * 4),
        (bubble_rounds, 2, True, 99 + 2 * 9 - 9),  # the tenth pass begins 18 rounds later, and is 9 shorter
        (bubble_rounds, 4, False, 30 + 18),
    ],
)
def test_rounds_of_a_hundred_candidates(rounds: Any, degree: int, pairwise: bool, number: int) -> None:
    assert rounds(100, 10, degree, pairwise) == number
    assert rounds(0, 10, degree, pairwise) == rounds(1, 10, degree, pairwise) == 0
