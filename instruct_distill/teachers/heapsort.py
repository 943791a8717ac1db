"""Pairwise ranking prompting with heap sort: the best k in about 2·(n + k·log₂ n) comparisons.

arXiv 2306.17563, section 3.3 (PRP-Sorting); only the best k are taken from the heap.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pydantic import Field

from instruct_distill.inference.engine import Question
from instruct_distill.schema import parameters
from instruct_distill.teachers.pairwise_sort import PairwiseSort
from instruct_distill.teachers.sorting import Best, heap_cost, heap_rounds, heap_top


@parameters
class Parameters:
    """What the strategy is told in a recipe."""

    k: int = Field(default=10, gt=0)
    """Ranks that are sorted; candidates below keep their first-stage order."""


class HeapSort(PairwiseSort):
    """Sorts the best k with a heap; ties and scores: :class:`PairwiseSort`.

    While the heap is made, a list has a level of it to ask at a time, then one comparison after the other:
    batches are filled by many lists.
    """

    def comparisons(self, candidates: int) -> int:
        """See :class:`PairwiseSort`."""
        return heap_cost(candidates, self.parameters.strategy_section(Parameters).k, 2, True)

    def rounds(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        return heap_rounds(candidates, self.parameters.strategy_section(Parameters).k, 2, True)

    def sort(self, candidates: int, best: Best) -> Generator[list[Question], Any, list[int]]:
        """See :class:`PairwiseSort`."""
        return heap_top(candidates, self.parameters.strategy_section(Parameters).k, 2, best)


STRATEGY = HeapSort
