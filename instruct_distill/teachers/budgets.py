"""What a share of the pairs is worth: the order that it gives, against the order of all pairs.

The figures come from teachers that are simulated on the spot, in less than a second and for any number of
documents, so that a budget can be chosen before the first prompt is asked; ``docs/sampled-pairs.md`` has
measured ones beside them. The same share is worth much less in a short list: of ten documents each meets two
or three others at 25%, of a hundred each meets 25.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from instruct_distill.records import Comparison, Document, ListLabel, Query
from instruct_distill.teachers.allpairs import aggregate
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.sampled_pairs import SampledPairs
from instruct_distill.teachers.statistics import kendall
from instruct_distill.teachers.strategy import Context

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Shares of the pairs that a table has, besides the recipe's own."""
FLIPS = (0.0, 0.1, 0.2, 0.3)
"""Shares of its prompts that a simulated teacher answers the wrong way round, each by itself."""

_SIMULATED_PROMPTS = 8_000
_LISTS = (2, 200)


class Budget(NamedTuple):
    """One row of the table.

    Args:
        share: of the n(n−1)/2 pairs; what is asked is more where they would not connect all documents.
        prompts: for all lists.
        agreement: for each of ``FLIPS``, mean Kendall τ-b to all pairs by a teacher that has one order.
    """

    share: float
    prompts: int
    agreement: tuple[float, ...]


def budgets(
    lengths: Sequence[int], parameters: TeacherParameters, *, shares: Sequence[float] = SHARES, seed: int = 13
) -> list[Budget]:
    """Simulate ``sampled_pairs`` at some shares of the pairs, in lists of the commonest length.

    Choices are hard (a margin is a win or a loss), whatever the recipe says: simulated margins would be what
    one makes them.

    Args:
        lengths: documents of each list.
        parameters: the teacher section; of ``sampled_pairs`` its way to score is taken over.
        shares: the budgets.
        seed: orders, flips and samples are functions of it.
    """
    candidates = usual_length(lengths)
    if candidates < 2:
        return []
    rule = parameters.strategy.get("scores") if isinstance(parameters.strategy, dict) else None
    context = Context(qrels=lambda: None, query_ids=list, seed=seed)
    lists = _LISTS[0], _SIMULATED_PROMPTS // (candidates * (candidates - 1)), _LISTS[1]
    rows = []
    for share in shares:
        chosen: dict[str, Any] = {"name": "sampled_pairs", "share": share}
        if parameters.kind == "sampled_pairs" and rule:
            chosen["scores"] = rule
        strategy = SampledPairs(dataclasses.replace(parameters, strategy=chosen), context)
        sampled = strategy.prompts(candidates) < candidates * (candidates - 1)
        # all pairs have the order of all pairs
        agreement = tuple(
            _agreement(strategy, candidates, flips, sorted(lists)[1], seed) if sampled else 1.0
            for flips in FLIPS
        )
        prompts = sum(strategy.prompts(length) for length in lengths)
        rows.append(Budget(share, prompts, agreement))
    return rows


def usual_length(lengths: Sequence[int]) -> int:
    """Return the commonest number of documents, of equally common ones the greater; 0 without a list."""
    counts = Counter(lengths)
    return max(counts, key=lambda length: (counts[length], length), default=0)


def _agreement(strategy: SampledPairs, n: int, flips: float, lists: int, seed: int) -> float:
    """Mean Kendall τ-b between the scores from a sample and those from all pairs, same answers."""
    found = []
    generator = np.random.default_rng([seed, n, round(100 * flips)])
    documents = [Document(str(i), "-") for i in range(n)]
    everything = list(permutations(range(n), 2))
    for number in range(lists):
        place = generator.permutation(n)
        right = np.where(place[:, None] < place[None, :], 1.0, -1.0)
        margins = np.where(generator.random((n, n)) < flips, -right, right)
        steps = strategy.label(Query(str(number), "-"), documents)
        asked = [tuple(int(d.doc_id) for d in question.documents) for question in next(steps)]
        sampled: ListLabel | None = None
        try:
            steps.send([[margins[i, j], 0.0] for i, j in asked])
        except StopIteration as done:
            sampled = done.value
        assert sampled is not None
        tau = kendall(sampled.scores, aggregate(n, [Comparison(i, j, margins[i, j]) for i, j in everything]))
        if tau is not None:
            found.append(tau)
    return math.fsum(found) / len(found) if found else 0.0
