from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from instruct_distill.inference.prefix_groups import LEAST_SAVED, PrefixGroup, prefix_groups


def test_prompts_that_begin_alike_make_a_group() -> None:
    prompts = [[1, 2, 3, 4], [1, 2, 3, 5], [7, 8], [1, 2, 3, 6, 6]]
    assert prefix_groups(prompts) == ([PrefixGroup(3, [0, 1, 3])], [2])


def test_the_pairs_of_each_first_passage() -> None:
    """They share the query and the passage; all pairs of a query share the query only."""
    passages = {name: [100 * name + i for i in range(10)] for name in (1, 2, 3)}
    pairs = [(a, b) for a in passages for b in passages if a != b]
    prompts = [[0] * 4 + passages[a] + [9] + passages[b] + [8] for a, b in pairs]
    groups, alone = prefix_groups(prompts)
    assert groups == [PrefixGroup(15, [2 * i, 2 * i + 1]) for i in range(3)]
    assert alone == []


def test_a_pair_of_its_own_is_asked_with_its_whole_prompt() -> None:
    """Sampled pairs: what comes first only once has the query in common with others, and that is little."""
    passages = {name: [100 * name + i for i in range(30)] for name in (1, 2, 3, 4)}
    pairs = [(1, 2), (1, 3), (2, 3), (4, 1)]
    prompts = [[0] * 4 + passages[a] + passages[b] for a, b in pairs]
    assert prefix_groups(prompts) == ([PrefixGroup(34, [0, 1])], [2, 3])


def test_what_all_share_where_that_saves_more() -> None:
    prompts = [[*range(50), 60 + i // 2, 70 + i] for i in range(8)]  # neighbours share one token more
    assert prefix_groups(prompts) == ([PrefixGroup(50, list(range(8)))], [])


def test_equal_prompts_keep_a_token_each() -> None:
    assert prefix_groups([[1, 2, 3], [1, 2, 3]]) == ([PrefixGroup(2, [0, 1])], [])


def test_a_prompt_that_another_goes_on_from() -> None:
    assert prefix_groups([[1, 2, 3, 4, 5], [1, 2, 3]]) == ([PrefixGroup(2, [0, 1])], [])


def test_few_shared_tokens_are_not_worth_it() -> None:
    assert prefix_groups([[1, *range(10, 30)], [1, *range(40, 60)]]) == ([], [0, 1])


def test_nothing_asked() -> None:
    assert prefix_groups([]) == ([], [])
    assert prefix_groups([[1, 2]]) == ([], [0])


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), max_size=14), st.randoms())
def test_every_prompt_once_in_any_order(prompts: list[list[int]], lot: random.Random) -> None:
    groups, alone = prefix_groups(prompts)
    assert sorted([*alone, *(row for group in groups for row in group.rows)]) == list(range(len(prompts)))
    for group in groups:
        assert len({tuple(prompts[row][: group.length]) for row in group.rows}) == 1
        assert all(len(prompts[row]) > group.length for row in group.rows)
        saved = (len(group.rows) - 1) * group.length
        assert saved >= LEAST_SAVED * sum(len(prompts[row]) for row in group.rows) > 0
    shuffled = lot.sample(range(len(prompts)), len(prompts))
    other, _ = prefix_groups([prompts[i] for i in shuffled])
    total = sum((len(group.rows) - 1) * group.length for group in groups)
    assert sum((len(group.rows) - 1) * group.length for group in other) == total
