from __future__ import annotations

import pytest
from pydantic import ValidationError

from instruct_distill.errors import NonFiniteScoreError
from instruct_distill.records import Comparison
from instruct_distill.teachers.labelling import prompt_of
from tests.teachers.ordered_engine import (
    OrderedEngine,
    always_first,
    best_k,
    broken,
    label,
    ranking,
    right_where_the_best_is_first,
    shuffled,
    strategy,
    without_sense,
)
from tests.teachers.stub_engine import parameters

SORTS = ["heap", "bubble"]


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("set_size", [2, 4, 10])
@pytest.mark.parametrize(("n", "k"), [(2, 1), (7, 3), (10, 10), (30, 10), (30, 100)])
@pytest.mark.parametrize("rotate", [False, True])
def test_a_teacher_that_is_right(sort: str, set_size: int, n: int, k: int, rotate: bool) -> None:
    for seed in range(4):
        order = shuffled(n, seed)
        engine = OrderedEngine(order)
        chosen = strategy("setwise", sort=sort, set_size=set_size, k=k, rotate=rotate)
        found = label(chosen, engine, n)
        assert ranking(found) == best_k(order, k)
        assert [found.scores[i] for i in order[:k]] == pytest.approx([1 / (r + 1) for r in range(min(n, k))])
        assert len(engine.asked) <= chosen.prompts(n)
        assert all(2 <= len(shown) <= set_size for shown in engine.asked)
        if not rotate:
            sets = [frozenset(shown) for shown in engine.asked]
            assert len(set(sets)) == len(sets)


@pytest.mark.parametrize(
    ("keys", "n", "prompts"),
    [
        ({}, 0, 0),
        ({}, 1, 0),
        ({}, 2, 1),
        ({}, 4, 3),  # one set of four, then the heap of three and of two
        ({"k": 1}, 4, 1),
        ({"k": 1, "rotate": True}, 4, 4),
        ({"k": 1, "rotate": True}, 3, 3),
        ({"k": 10}, 100, 85),  # of 9,900 for all pairs
        ({"k": 10, "sort": "bubble"}, 100, 318),
        ({"k": 10, "sort": "bubble", "set_size": 20}, 100, 54),
    ],
)
def test_prompts(keys: dict[str, object], n: int, prompts: int) -> None:
    assert strategy("setwise", **keys).prompts(n) == prompts


def test_prompts_of_a_bubble_sort_are_asked_where_the_list_is_upside_down() -> None:
    engine = OrderedEngine(range(100)[::-1])
    chosen = strategy("setwise", sort="bubble")
    label(chosen, engine, 100)
    assert len(engine.asked) == chosen.prompts(100)


def test_prompts_of_a_hundred_candidates() -> None:
    asked = []
    for seed in range(10):
        engine = OrderedEngine(shuffled(100, seed))
        label(strategy("setwise"), engine, 100)
        asked.append(len(engine.asked))
    assert 60 < min(asked) <= max(asked) <= 85


def test_comparisons_are_those_of_the_best_one_in_the_order_shown() -> None:
    # d2 > d0 > d1: shown as d0 d1 d2
    found = label(strategy("setwise", k=1), OrderedEngine([2, 0, 1]), 3)
    assert found.comparisons == (Comparison(0, 2, -1.0), Comparison(1, 2, -2.0))
    assert found.scores == (1 / 2, 1 / 2, 1.0)


def test_equal_logits_are_a_tie_that_the_first_stage_breaks() -> None:
    def two_are_best(places: list[int]) -> list[float]:
        return [0.0 if place < 2 else -1.0 for place in places]

    # d2 and d1 are best, and the same
    found = label(strategy("setwise", k=2), OrderedEngine([2, 1, 0, 3], two_are_best), 4)
    assert found.scores == pytest.approx((1 / 3, 1.0, 1.0, 1 / 3))
    nothing = label(strategy("setwise"), OrderedEngine(range(8), lambda places: [0.0] * len(places)), 8)
    assert set(nothing.scores) == {1.0}


@pytest.mark.parametrize("sort", SORTS)
def test_b16_a_teacher_that_always_says_a(sort: str) -> None:
    # in one order that cannot be told from a first stage that is right
    once = label(strategy("setwise", sort=sort), OrderedEngine(range(10), always_first), 10)
    assert ranking(once) == list(range(10))
    # in every turn of a set it cancels out
    turned = label(strategy("setwise", sort=sort, rotate=True), OrderedEngine(range(10), always_first), 10)
    assert set(turned.scores) == {1.0}
    assert {c.margin for c in turned.comparisons} == {0.0}


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("seed", range(3))
def test_right_in_one_turn_only(sort: str, seed: int) -> None:
    order = shuffled(12, seed)
    chosen = strategy("setwise", sort=sort, rotate=True)
    found = label(chosen, OrderedEngine(order, right_where_the_best_is_first), 12)
    assert ranking(found) == best_k(order, 10)


def test_turns_of_a_set() -> None:
    engine = OrderedEngine([0, 1, 2])
    label(strategy("setwise", k=1, rotate=True), engine, 3)
    assert engine.asked == [("d0", "d1", "d2"), ("d1", "d2", "d0"), ("d2", "d0", "d1")]


@pytest.mark.parametrize("sort", SORTS)
def test_answers_without_any_sense_end_within_the_cost(sort: str) -> None:
    for seed in range(30):
        engine = OrderedEngine(range(20), without_sense(seed))
        chosen = strategy("setwise", sort=sort, k=6)
        found = label(chosen, engine, 20)
        assert len(engine.asked) <= chosen.prompts(20)
        assert ranking(found)[6:] == sorted(ranking(found)[6:])


def test_b15_a_broken_answer_is_an_error() -> None:
    with pytest.raises(NonFiniteScoreError, match="nan"):
        label(strategy("setwise"), OrderedEngine(range(6), broken), 6)


def test_its_prompts() -> None:
    teacher = parameters(strategy="setwise")
    prompt = prompt_of(teacher, strategy("setwise"))
    assert prompt is not None
    assert prompt.name == "setwise-passage"
    movie = prompt_of(parameters(strategy="setwise", prompt="listwise-movie"), strategy("setwise"))
    assert movie is not None
    assert movie.for_documents(3).answers == ("1", "2", "3")
    with pytest.raises(
        ValueError, match=r"'listwise-passage' does not fit strategy setwise: it has no answer"
    ):
        prompt_of(parameters(strategy="setwise", prompt="listwise-passage"), strategy("setwise"))
    with pytest.raises(
        ValueError, match="it has no block for a list of documents, strategy setwise needs one"
    ):
        prompt_of(parameters(strategy="setwise", prompt="pairwise-passage"), strategy("setwise"))


@pytest.mark.parametrize("keys", [{"set_size": 1}, {"set_size": 27}, {"sort": "quick"}, {"k": 0}])
def test_keys_that_are_refused(keys: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=f"strategy 'setwise': {next(iter(keys))}: "):
        strategy("setwise", **keys)
