from __future__ import annotations

import pytest

from instruct_distill.errors import InputError
from instruct_distill.prompts.budget import divide, share


@pytest.mark.parametrize(
    ("lengths", "budget", "granted"),
    [
        ([10, 10], 20, [10, 10]),
        ([10, 10], 11, [5, 6]),
        ([3, 100], 50, [3, 47]),
        ([100, 3], 50, [47, 3]),
        ([5, 40, 60], 60, [5, 27, 28]),
        ([0, 7], 4, [0, 4]),
        ([], 5, []),
    ],
)
def test_share(lengths: list[int], budget: int, granted: list[int]) -> None:
    assert share(lengths, budget) == granted


@pytest.mark.parametrize(
    ("query", "documents", "budget", "cut", "kept"),
    [
        (20, [30, 40], 90, "documents", (20, [30, 40])),
        (20, [300, 40], 100, "documents", (20, [40, 40])),  # the query whole, the long document cut
        (20, [300, 400], 100, "documents", (20, [40, 40])),
        (
            500,
            [300, 400],
            100,
            "documents",
            (76, [12, 12]),
        ),  # the query gives way for a quarter of the budget
        (500, [300, 400], 200, "documents", (168, [16, 16])),  # or for 16 tokens a document
        (500, [3, 400], 200, "documents", (181, [3, 16])),  # if it has them
        (9, [14, 900], 13, "documents", (9, [2, 2])),  # the query stays whole where it can
        (500, [30], 100, "query", (70, [30])),  # a dialogue is cut, the film's text is not
        (500, [300], 100, "query", (25, [75])),  # until a quarter of the budget is left for it
        (500, [300, 120], 400, "query", (64, [216, 120])),  # or 64 tokens
        (30, [300, 120], 400, "query", (30, [250, 120])),  # if it has them
        (900, [181, 181], 430, "query", (68, [181, 181])),
        (9, [14], 3, "query", (1, [2])),
        (20, [300], 100, "query", (20, [80])),
        (0, [300], 100, "documents", (0, [100])),
    ],
)
def test_divide(query: int, documents: list[int], budget: int, cut: str, kept: tuple[int, list[int]]) -> None:
    assert divide(query, documents, budget, cut=cut, what="x") == kept


@pytest.mark.parametrize(("budget", "left"), [(2, 2), (-5, 0)])
def test_no_room(budget: int, left: int) -> None:
    with pytest.raises(
        InputError, match=f"x: the fixed text leaves {left} tokens for 3 parts; raise max_len"
    ):
        divide(5, [5, 5], budget, cut="documents", what="x")
