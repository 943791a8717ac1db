"""Which documents of a labelled list are used in an epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instruct_distill.training.parameters import (
    DocumentChoice,
    RandomDocuments,
    StratifiedDocuments,
    TopAndRandomDocuments,
)


def documents_used(choice: DocumentChoice, documents: int) -> int:
    """Return how many documents of a list of some length are used."""
    if isinstance(choice, RandomDocuments):
        return min(documents, choice.random)
    if isinstance(choice, StratifiedDocuments):
        return min(documents, choice.stratified)
    if isinstance(choice, TopAndRandomDocuments):
        return min(documents, choice.top_and_random.top + choice.top_and_random.random)
    return documents


def chosen_documents(
    choice: DocumentChoice, scores: Sequence[float], generator: np.random.Generator
) -> list[int]:
    """Return the positions of the documents that are used, ascending; all of a list that is short enough.

    Args:
        choice: what the recipe says.
        scores: the teacher's scores of the list's documents, in first-stage order, which breaks ties.
        generator: the source of what is drawn.
    """
    total = len(scores)
    used = documents_used(choice, total)
    if used == total:
        return list(range(total))
    best_first = sorted(range(total), key=lambda i: (-scores[i], i))
    if isinstance(choice, TopAndRandomDocuments):
        top = choice.top_and_random.top
        drawn = generator.choice(best_first[top:], size=choice.top_and_random.random, replace=False).tolist()
        return sorted([*best_first[:top], *drawn])
    if isinstance(choice, StratifiedDocuments):
        # parts of the ranking whose sizes differ by one at most
        return sorted(int(generator.choice(part)) for part in np.array_split(best_first, used))
    return sorted(generator.choice(total, size=used, replace=False).tolist())
