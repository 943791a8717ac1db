from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from instruct_distill.training.document_choice import chosen_documents, documents_used
from instruct_distill.training.parameters import (
    DocumentChoice,
    RandomDocuments,
    StratifiedDocuments,
    TopAndRandom,
    TopAndRandomDocuments,
)

# best first: 5, 1, 0, 3, 4, 2 (0 and 3 are equal: the first stage's better one comes first)
SCORES = [3.0, 4.0, 0.0, 3.0, 1.0, 9.0]
TOP = TopAndRandomDocuments(top_and_random=TopAndRandom(top=2, random=2))


def draws(choice: DocumentChoice, count: int = 300) -> Counter[tuple[int, ...]]:
    return Counter(tuple(chosen_documents(choice, SCORES, np.random.default_rng(i))) for i in range(count))


def test_all() -> None:
    assert set(draws("all")) == {(0, 1, 2, 3, 4, 5)}


def test_random_draws_every_document_equally_often() -> None:
    found = draws(RandomDocuments(random=3))
    assert all(len(set(kept)) == 3 and kept == tuple(sorted(kept)) for kept in found)
    times = Counter(i for kept, count in found.items() for i in kept for _ in range(count))
    assert all(120 <= times[i] <= 180 for i in range(6))  # 150 expected


def test_top_and_random_keeps_the_best_and_draws_from_the_others() -> None:
    found = draws(TOP)
    assert all({5, 1} < set(kept) and len(kept) == 4 for kept in found)
    # every two of the four others
    assert len(found) == 6
    assert set(draws(TopAndRandomDocuments(top_and_random=TopAndRandom(top=3, random=1)))) == {
        (0, 1, 3, 5),
        (0, 1, 4, 5),
        (0, 1, 2, 5),
    }


def test_stratified_draws_one_from_each_part_of_the_ranking() -> None:
    found = draws(StratifiedDocuments(stratified=3))
    assert all(len({5, 1} & set(kept)) == 1 for kept in found)
    assert all(len({0, 3} & set(kept)) == 1 for kept in found)
    assert all(len({4, 2} & set(kept)) == 1 for kept in found)
    assert len(found) == 8
    # parts of sizes 2, 2, 1, 1
    assert all({4, 2} < set(kept) for kept in draws(StratifiedDocuments(stratified=4)))


@pytest.mark.parametrize(
    ("choice", "used"),
    [("all", 100), (RandomDocuments(random=7), 7), (TOP, 4), (StratifiedDocuments(stratified=9), 9)],
)
def test_short_lists_are_used_whole(choice: DocumentChoice, used: int) -> None:
    assert documents_used(choice, 100) == used
    assert documents_used(choice, 3) == 3
    assert chosen_documents(choice, [1.0, 2.0, 0.0], np.random.default_rng(0)) == [0, 1, 2]
    assert chosen_documents(choice, [], np.random.default_rng(0)) == []


@pytest.mark.parametrize("choice", [RandomDocuments(random=3), TOP, StratifiedDocuments(stratified=3)])
def test_a_function_of_the_generator(choice: DocumentChoice) -> None:
    once, again = (chosen_documents(choice, SCORES, np.random.default_rng(5)) for _ in range(2))
    assert once == again
    assert len(draws(choice)) > 1
