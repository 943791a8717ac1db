"""Finding the best k of a list by asking, again and again, which of a few is the best.

Heap sort and bubble sort on sets: arXiv 2310.09497, section 3; with sets of two they are the sorts of
pairwise ranking prompting, arXiv 2306.17563. Items are positions in first-stage order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Any

from instruct_distill.inference.engine import Question
from instruct_distill.teachers.rounds import together

Asking = Generator[list[Question], Any, int]
"""Yields questions, is sent answers, returns an item."""

Best = Callable[[list[int]], Asking]
"""Which of some items (two or more) is the best."""


def heap_top(n: int, k: int, children: int, best: Best) -> Generator[list[Question], Any, list[int]]:
    """Return the best k of n items, best first, by a heap in which each item has so many children.

    An item and its children are one set, the item first. All n items are ranked where k is n − 1 or more.
    While the heap is made, the items of one level sink side by side: none meets what another one moves.
    """
    heap = list(range(n))
    for level in reversed(_levels(n, children)):
        yield from together(_sift(heap, parent, children, best) for parent in level)
    top: list[int] = []
    while heap and len(top) < k:
        top.append(heap[0])
        last = heap.pop()
        if heap and len(top) < k:
            heap[0] = last
            yield from _sift(heap, 0, children, best)
    return top


def bubble_top(n: int, k: int, width: int, best: Best) -> Generator[list[Question], Any, list[int]]:
    """Return the best k of n items, best first: k times, the best of overlapping sets rises from the end.

    Sets are neighbours in the list. The best one goes to the front of its set, the others keep their order.
    A pass begins as soon as the one before it is two sets ahead, so that about k / 2 sets are asked side by
    side; they are the sets that one pass after the other would ask.
    """
    items = list(range(n))
    passes = [_windows(n, place, width) for place in range(min(k, n - 1))]
    for step in range(max((2 * p + len(windows) for p, windows in enumerate(passes)), default=0)):
        sets = [windows[step - 2 * p] for p, windows in enumerate(passes) if 0 <= step - 2 * p < len(windows)]
        found = yield from together(best(items[start:end]) for start, end in sets)
        for (start, end), item in zip(sets, found, strict=True):
            items.insert(start, items.pop(items.index(item, start, end)))
    return items[:k]


@lru_cache(maxsize=4096)
def heap_cost(n: int, k: int, children: int, pairwise: bool) -> int:
    """Return what :func:`heap_top` may ask: sets, or the comparisons in them (one fewer than their items)."""
    worst = {size: _sift_costs(size, children, pairwise) for size in range(max(n - k + 1, 1), n + 1)}
    building = sum(worst[n]) if n else 0
    return building + sum(worst[size][0] for size in range(max(n - k + 1, 1), n))


@lru_cache(maxsize=4096)
def bubble_cost(n: int, k: int, width: int, pairwise: bool) -> int:
    """Return what :func:`bubble_top` may ask, as :func:`heap_cost`."""
    total = 0
    for place in range(min(k, n - 1)):
        steps = n - place - 1
        total += steps if pairwise else -(-steps // (width - 1))
    return total


@lru_cache(maxsize=4096)
def heap_rounds(n: int, k: int, children: int, pairwise: bool) -> int:
    """Return in how many rounds :func:`heap_top` asks, at most."""
    a_set = children if pairwise else 1  # the comparisons in a set wait for each other
    heights = [len(_levels(size, children)) for size in range(max(n - k + 1, 1), n)]
    levels = len(_levels(n, children))
    return a_set * (levels * (levels + 1) // 2 + sum(heights))


@lru_cache(maxsize=4096)
def bubble_rounds(n: int, k: int, width: int, pairwise: bool) -> int:
    """Return in how many rounds :func:`bubble_top` asks, at most."""
    last = [2 * place + len(_windows(n, place, width)) for place in range(min(k, n - 1))]
    return (width - 1 if pairwise else 1) * max(last, default=0)


def _levels(n: int, children: int) -> list[range]:
    """The nodes of a heap that have children, level by level from the top."""
    parents = (n + children - 2) // children if n > 1 else 0
    levels, start = [], 0
    while start < parents:
        below = children * start + 1
        levels.append(range(start, min(below, parents)))
        start = below
    return levels


def _windows(n: int, place: int, width: int) -> list[tuple[int, int]]:
    """The sets (first place, place after the last) of a pass that brings the best item to a place."""
    windows, end = [], n
    while end - place > 1:
        start = max(place, end - width)
        windows.append((start, end))
        end = start + 1
    return windows


def _sift(heap: list[int], node: int, children: int, best: Best) -> Generator[list[Question], Any, None]:
    """Let an item sink until it is better than its children."""
    while (first := children * node + 1) < len(heap):
        places = [node, *range(first, min(first + children, len(heap)))]
        found = yield from best([heap[place] for place in places])
        place = next(place for place in places if heap[place] == found)
        if place == node:
            return
        heap[node], heap[place] = heap[place], heap[node]
        node = place


def _sift_costs(size: int, children: int, pairwise: bool) -> list[int]:
    """What it may cost to sift each node of a heap of that size."""
    costs = [0] * size
    for node in reversed(range(size)):
        below = costs[children * node + 1 : children * node + 1 + children]
        if below:
            costs[node] = (len(below) if pairwise else 1) + max(below)
    return costs
