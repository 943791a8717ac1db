from __future__ import annotations

from itertools import combinations, permutations

import pytest

from instruct_distill.teachers.ranking_scores import ranking_scores


@pytest.mark.parametrize(
    ("top", "n", "wins", "scores"),
    [
        ([], 0, set(), ()),
        ([0], 1, set(), (1.0,)),
        # a chain of wins: 1 / rank
        ([2, 0, 1], 3, {(2, 0), (0, 1)}, (1 / 2, 1 / 3, 1.0)),
        # nothing won: no opinion
        ([0, 1, 2], 3, set(), (1.0, 1.0, 1.0)),
        # the second and third are tied, and have the better rank of the two
        ([1, 0, 2], 3, {(1, 0), (1, 2)}, (1 / 2, 1.0, 1 / 2)),
        # by way of another: 0 beat 3, 3 beat 1
        ([0, 1, 2], 4, {(0, 3), (3, 1)}, (1.0, 1 / 2, 1 / 2, 1 / 4)),
        # those below k have one score
        ([3], 5, {(3, 0), (3, 2)}, (1 / 2, 1 / 2, 1 / 2, 1.0, 1 / 2)),
        # nothing known of those below: not apart, unless the ranking would change
        ([0], 3, set(), (1.0, 1.0, 1.0)),
        ([1], 3, set(), (1 / 2, 1.0, 1 / 2)),
        # first-stage order would reverse them: apart, whatever is known
        ([1, 0], 2, set(), (1 / 2, 1.0)),
    ],
)
def test_scores(top: list[int], n: int, wins: set[tuple[int, int]], scores: tuple[float, ...]) -> None:
    assert ranking_scores(top, n, wins) == pytest.approx(scores)


def test_the_ranking_can_always_be_read_back() -> None:
    pairs = list(combinations(range(4), 2))
    for size in range(5):
        for top in permutations(range(4), size):
            for won in range(0, 2 ** len(pairs), 5):
                wins = {pair for bit, pair in enumerate(pairs) if won >> bit & 1}
                scores = ranking_scores(top, 4, wins)
                read = sorted(range(4), key=lambda i: -scores[i])
                assert read == [*top, *sorted(set(range(4)) - set(top))]
