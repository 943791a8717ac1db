"""From a ranking, and the wins that made it, to scores that claim no more than was found out."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def ranking_scores(top: Sequence[int], n: int, wins: Collection[tuple[int, int]]) -> tuple[float, ...]:
    """Return 1 / rank for the ranked items, and one lower score for all others.

    Sorting the scores, with first-stage order for equal ones, gives ``top`` and then all others in
    first-stage order. Neighbours in the ranking that only their first-stage order separates have the same
    score, that of the better rank: neighbours of which the upper one did not win against the lower one,
    neither itself nor by a chain of wins. So a model that never prefers anything says nothing, and the first
    stage is not taken for a teacher.

    Args:
        top: positions in first-stage order of the items that were ranked, best first.
        n: the number of items.
        wins: (winner, loser) of each decided comparison.
    """
    ranked = set(top)
    rest = [i for i in range(n) if i not in ranked]
    beaten: dict[int, set[int]] = {}
    for winner, loser in wins:
        beaten.setdefault(winner, set()).add(loser)
    scores = [0.0] * n
    score = 1.0
    for rank, item in enumerate(top, start=1):
        if rank > 1 and (top[rank - 2] > item or _leads(beaten, top[rank - 2], item)):
            score = 1.0 / rank
        scores[item] = score
    if rest and top:
        known = any(not beaten.get(item, set()).isdisjoint(rest) for item in top)
        if known or top[-1] > rest[0]:
            score = 1.0 / (len(top) + 1)
    for item in rest:
        scores[item] = score
    return tuple(scores)


def _leads(beaten: dict[int, set[int]], upper: int, lower: int) -> bool:
    """Whether wins lead from one item to another."""
    seen, waiting = {upper}, [upper]
    while waiting:
        found = beaten.get(waiting.pop(), set())
        if lower in found:
            return True
        new = found - seen
        seen |= new
        waiting.extend(new)
    return False
