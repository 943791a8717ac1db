"""How many tokens each part of a prompt may keep."""

from __future__ import annotations

from collections.abc import Sequence

from instruct_distill.errors import InputError

DOCUMENT_FLOOR = 16
"""Tokens that each document keeps, if it has them, before the query is cut; fewer of a small budget."""

DIALOGUE_FLOOR = 64
"""Tokens that a query which gives way keeps, if it has them, before documents are cut; fewer of a small one.

ReDial's longest movie has 181 of T5's tokens: two of them and this fit into 512 beside the instruction.
"""


def share(lengths: Sequence[int], budget: int) -> list[int]:
    """Divide a budget fairly: nobody gets more than its length; what is left over goes to the longer ones.

    Args:
        lengths: what each part would like.
        budget: what there is, at least 0.

    Returns:
        what each part gets; the sum is at most the budget, and all of it where it is needed.
    """
    granted = [0] * len(lengths)
    left = budget
    by_length = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    for position, i in enumerate(by_length):
        granted[i] = min(lengths[i], left // (len(lengths) - position))
        left -= granted[i]
    return granted


def divide(
    query: int, documents: Sequence[int], budget: int, *, cut: str, what: str
) -> tuple[int, list[int]]:
    """Return the tokens that the query and each document may keep.

    ``cut="documents"``: documents are shortened, and the query only when less than ``DOCUMENT_FLOOR``
    tokens a document, or a quarter of a small budget for all of them, would remain.

    ``cut="query"``: the query is shortened (a dialogue, from its beginning) and the documents only when
    less than ``DIALOGUE_FLOOR`` tokens, or a quarter of a small budget, would remain for it.

    Args:
        query: length of the query in tokens, 0 where the prompt does not show it.
        documents: length of each document in tokens.
        budget: tokens for query and documents together.
        cut: which part gives way first.
        what: what is encoded, for the message.

    Raises:
        InputError: there is less than one token for each part.
    """
    parts = len(documents) + (1 if query else 0)
    if budget < parts:
        raise InputError(
            f"{what}: the fixed text leaves {max(budget, 0)} tokens for {parts} parts; raise max_length"
        )
    if query + sum(documents) <= budget:
        return query, list(documents)
    if cut == "query":
        floor = min(query, DIALOGUE_FLOOR, max(1, budget // 4))
        kept = max(floor, budget - sum(documents))
    else:
        least = min(DOCUMENT_FLOOR, max(1, budget // (4 * len(documents))))
        floor = sum(min(length, least) for length in documents)
        kept = min(query, max(budget - floor, budget // 2))
    return kept, share(documents, budget - kept)
