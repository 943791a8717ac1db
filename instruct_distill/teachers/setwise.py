"""Setwise prompting: which of these passages is the most relevant one, read from the logits of their labels.

arXiv 2310.09497: with c passages a prompt, the sorts of pairwise prompting need log c times fewer levels, and
one prompt where they need c − 1 comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from instruct_distill.inference.engine import Question
from instruct_distill.records import Comparison, Document, ListLabel, Query
from instruct_distill.schema import parameters
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.ranking_scores import ranking_scores
from instruct_distill.teachers.sorting import (
    Asking,
    bubble_cost,
    bubble_rounds,
    bubble_top,
    heap_cost,
    heap_rounds,
    heap_top,
)
from instruct_distill.teachers.strategy import Context, Steps, Strategy


@parameters
class Parameters:
    """What the strategy is told in a recipe."""

    k: int = Field(default=10, gt=0)
    """Ranks that are sorted; candidates below keep their first-stage order."""
    set_size: int = Field(default=4, ge=2, le=26)
    """Passages in one prompt; the paper's setting of three children a node is 4."""
    sort: Literal["heap", "bubble"] = "heap"
    """How sets are chosen."""
    rotate: bool = False
    """Ask each set once from each of its passages on and take the mean: a preference for the first or last
    place then cancels out, at as many times the prompts as a set has passages."""


class Setwise(Strategy):
    """Sorts the best k by asking for the best of a set.

    A set is asked about once. The passage whose label has the highest logit is the best; of equal ones the
    one that the first stage put first. Kept are the comparisons of the best one with each other of its set,
    in the order shown, with the difference of their logits as margin. For scores see
    :func:`~instruct_distill.teachers.ranking_scores.ranking_scores`, as in ``heapsort``.

    A set is shown in first-stage order. A model that prefers the first label whatever stands there then
    repeats the first stage, and nothing in its answers shows it: see ``rotate``. (With an item of the heap
    before its children, as in the paper's scripts, such a model makes the last candidate the second best.)
    """

    asks = "answer_logits"
    documents = None
    default_prompt = "setwise-passage"

    def __init__(self, parameters: TeacherParameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._chosen = parameters.strategy_section(Parameters)

    def prompts(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        chosen = self._chosen
        if chosen.sort == "heap":
            sets = heap_cost(candidates, chosen.k, chosen.set_size - 1, False)
        else:
            sets = bubble_cost(candidates, chosen.k, chosen.set_size, False)
        return sets * min(chosen.set_size, max(candidates, 1)) if chosen.rotate else sets

    def rounds(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        chosen = self._chosen
        if chosen.sort == "heap":
            return heap_rounds(candidates, chosen.k, chosen.set_size - 1, False)
        return bubble_rounds(candidates, chosen.k, chosen.set_size, False)

    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """See :class:`Strategy`."""
        chosen = self._chosen
        known: dict[tuple[int, ...], int] = {}
        comparisons: list[Comparison] = []

        def best(items: list[int]) -> Asking:
            items = sorted(items)
            members = tuple(items)
            if members not in known:
                c = len(items)
                turns = [items[r:] + items[:r] for r in range(c if chosen.rotate else 1)]
                answers = yield [Question(query, tuple(documents[i] for i in turn)) for turn in turns]
                logits = np.zeros(c)
                for r, row in enumerate(answers):
                    logits += np.roll(np.asarray(row[:c], dtype=np.float64), r)
                logits /= len(turns)
                place = int(logits.argmax())
                known[members] = items[place]
                comparisons.extend(
                    Comparison(items[a], items[b], float(logits[a] - logits[b]))
                    for a, b in (sorted((place, other)) for other in range(c) if other != place)
                )
            return known[members]

        n = len(documents)
        if chosen.sort == "heap":
            top = yield from heap_top(n, chosen.k, chosen.set_size - 1, best)
        else:
            top = yield from bubble_top(n, chosen.k, chosen.set_size, best)
        wins = {(c.first, c.second) if c.margin > 0 else (c.second, c.first) for c in comparisons if c.margin}
        return ListLabel(
            query.query_id,
            tuple(document.doc_id for document in documents),
            ranking_scores(top, n, wins),
            tuple(comparisons),
        )


STRATEGY = Setwise
