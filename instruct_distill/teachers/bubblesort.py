"""Pairwise ranking prompting with k passes of bubble sort: k·n comparisons, fewer after a good first stage.

arXiv 2306.17563, section 3.4 (PRP-Sliding-K).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pydantic import Field

from instruct_distill.inference.engine import Question
from instruct_distill.schema import parameters
from instruct_distill.teachers.pairwise_sort import PairwiseSort
from instruct_distill.teachers.sorting import Best, bubble_cost, bubble_rounds, bubble_top


@parameters
class Parameters:
    """What the strategy is told in a recipe."""

    k: int = Field(default=10, gt=0)
    """Passes, and so ranks that are sorted; candidates below keep their first-stage order."""


class BubbleSort(PairwiseSort):
    """Lets the best of the rest rise from the end of the list, k times.

    Ties and scores: :class:`PairwiseSort`. A pair that an earlier pass compared is not asked again: a list
    that is sorted already costs n − 1 comparisons.
    """

    def comparisons(self, candidates: int) -> int:
        """See :class:`PairwiseSort`."""
        return bubble_cost(candidates, self.parameters.strategy_section(Parameters).k, 2, True)

    def rounds(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        return bubble_rounds(candidates, self.parameters.strategy_section(Parameters).k, 2, True)

    def sort(self, candidates: int, best: Best) -> Generator[list[Question], Any, list[int]]:
        """See :class:`PairwiseSort`."""
        return bubble_top(candidates, self.parameters.strategy_section(Parameters).k, 2, best)


STRATEGY = BubbleSort
