from __future__ import annotations

import pytest

from instruct_distill.errors import NonFiniteScoreError
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk
from instruct_distill.teachers.statistics import label_statistics
from tests.teachers.ordered_engine import (
    QUERY,
    OrderedEngine,
    always_first,
    best_k,
    broken,
    documents,
    label,
    ranking,
    right,
    right_where_the_best_is_first,
    shuffled,
    strategy,
    without_sense,
)

SORTS = ["heapsort", "bubblesort"]


@pytest.mark.parametrize("name", SORTS)
@pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 10), (7, 3), (10, 10), (30, 10), (30, 29), (30, 100)])
@pytest.mark.parametrize("logits", [right, right_where_the_best_is_first])
def test_a_teacher_that_is_right_in_both_orders_or_in_one(name: str, n: int, k: int, logits: object) -> None:
    for seed in range(5):
        order = shuffled(n, seed)
        engine = OrderedEngine(order, logits)  # type: ignore[arg-type]
        chosen = strategy(name, k=k)
        found = label(chosen, engine, n)
        assert ranking(found) == best_k(order, k)
        top = order[:k]
        assert [found.scores[item] for item in top] == pytest.approx([1 / (r + 1) for r in range(len(top))])
        assert {found.scores[item] for item in order[k:]} <= {1 / (len(top) + 1)}
        assert len(engine.asked) <= chosen.prompts(n)
        assert len(engine.asked) == len(set(engine.asked)) == len(found.comparisons)
        assert {tuple(reversed(pair)) for pair in engine.asked} == set(engine.asked)  # both orders


@pytest.mark.parametrize("name", SORTS)
def test_margins_are_kept_as_shown(name: str) -> None:
    order = shuffled(8, 3)
    found = label(strategy(name), OrderedEngine(order), 8)
    for first, second, margin in found.comparisons:
        assert margin == order.index(second) - order.index(first)


@pytest.mark.parametrize("name", SORTS)
@pytest.mark.parametrize("k", [3, 10])
def test_b16_a_teacher_that_always_says_a_says_nothing(name: str, k: int) -> None:
    found = label(strategy(name, k=k), OrderedEngine(range(10), always_first), 10)
    assert set(found.scores) == {1.0}
    statistics = label_statistics([found])
    assert (statistics.informative, statistics.inconsistent, statistics.position_bias) == (0, 1.0, 1.0)


@pytest.mark.parametrize("name", SORTS)
def test_a_tie_keeps_first_stage_order_and_is_a_tie_in_the_scores(name: str) -> None:
    def blind_to_neighbours(places: list[int]) -> list[float]:
        # d0 and d1 are the same to it, d2 and d3, and so on
        return [-float(place // 2) for place in places]

    found = label(strategy(name), OrderedEngine([4, 5, 0, 1, 2, 3], blind_to_neighbours), 6)
    assert found.scores == pytest.approx((1 / 3, 1 / 3, 1 / 5, 1 / 5, 1.0, 1.0))


@pytest.mark.parametrize("name", SORTS)
def test_answers_without_any_sense_end_within_the_cost(name: str) -> None:
    for seed in range(30):
        engine = OrderedEngine(range(20), without_sense(seed))
        chosen = strategy(name, k=6)
        found = label(chosen, engine, 20)
        assert len(engine.asked) <= chosen.prompts(20)
        assert ranking(found)[6:] == sorted(ranking(found)[6:])


@pytest.mark.parametrize("name", SORTS)
def test_b15_a_broken_answer_is_an_error(name: str) -> None:
    with pytest.raises(NonFiniteScoreError, match="nan"):
        label(strategy(name), OrderedEngine(range(6), broken), 6)


@pytest.mark.parametrize("name", SORTS)
def test_lists_are_labelled_alike_alone_and_together(name: str) -> None:
    lists = [CandidateTexts(QUERY._replace(query_id=f"q{n}"), documents(n)) for n in (0, 1, 2, 9, 5)]
    order = shuffled(9, 1)
    engine = OrderedEngine(order)
    together = label_chunk(strategy(name), engine, lists)
    assert together == [label_chunk(strategy(name), OrderedEngine(order), [item])[0] for item in lists]
    assert [label.scores for label in together[:2]] == [(), (1.0,)]
    # the lists take their steps together
    alone = OrderedEngine(order)
    label_chunk(strategy(name), alone, [lists[3]])
    assert engine.rounds == alone.rounds
