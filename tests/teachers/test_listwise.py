from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence

import pytest
from pydantic import ValidationError

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.inference.engine import Question
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk, prompt_of
from instruct_distill.teachers.listwise import Listwise, Order, read_order
from tests.teachers.ordered_engine import (
    QUERY,
    OrderedEngine,
    documents,
    label,
    ranking,
    shuffled,
    strategy,
)
from tests.teachers.stub_engine import parameters

Writing = Callable[[list[int]], str]
"""Places of the documents shown in the right order → what the model writes."""


def chain(numbers: Sequence[int]) -> str:
    return " > ".join(f"[{number}]" for number in numbers)


def right(places: list[int]) -> str:
    return chain([i + 1 for i in sorted(range(len(places)), key=places.__getitem__)])


class WritingEngine(OrderedEngine):
    def __init__(self, order: Sequence[int], write: Writing = right) -> None:
        super().__init__(order)
        self.write = write
        self.max_tokens: set[int] = set()

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        self.rounds += 1
        self.max_tokens.add(max_tokens)
        return [self.write(self.places(question)) for question in questions]


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_window_that_holds_the_list(n: int) -> None:
    order = shuffled(n, 1)
    found = label(strategy("listwise", window=4, stride=2), WritingEngine(order), n)
    assert ranking(found) == order
    assert [found.scores[i] for i in order] == pytest.approx([1 / (r + 1) for r in range(n)])
    assert found.comparisons == ()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n", "window", "stride"), [(100, 20, 10), (25, 20, 10), (31, 6, 2), (12, 4, 3)])
def test_the_best_come_out_in_order(n: int, window: int, stride: int, seed: int) -> None:
    order = shuffled(n, seed)
    engine = WritingEngine(order)
    chosen = strategy("listwise", window=window, stride=stride)
    found = ranking(label(chosen, engine, n))
    assert found[: window - stride] == order[: window - stride]
    assert sorted(found) == list(range(n))
    # and what comes out is what sliding such a window by hand gives
    by_hand = list(range(n))
    end = n
    while True:
        start = max(end - window, 0)
        by_hand[start : start + window] = sorted(by_hand[start : start + window], key=order.index)
        if start == 0:
            break
        end -= stride
    assert found == by_hand
    assert len(engine.asked) == chosen.prompts(n)


@pytest.mark.parametrize(
    ("n", "prompts"),
    [(0, 0), (1, 0), (2, 1), (20, 1), (21, 2), (25, 2), (30, 2), (31, 3), (100, 9)],
)
def test_prompts(n: int, prompts: int) -> None:
    chosen = strategy("listwise")
    assert chosen.prompts(n) == prompts
    engine = WritingEngine(range(n))
    label(chosen, engine, n)
    assert len(engine.asked) == prompts
    assert all(len(shown) == min(n, 20) for shown in engine.asked[:-1])
    assert {shown for asked in engine.asked for shown in asked} == (
        {f"d{i}" for i in range(n)} if n > 1 else set()
    )


def test_the_room_for_an_answer_grows_with_the_window() -> None:
    engine = WritingEngine(range(30))
    label(strategy("listwise"), engine, 30)
    label(strategy("listwise", window=5, stride=2), engine, 30)
    assert engine.max_tokens == {120, 30}


@pytest.mark.parametrize(
    ("text", "order", "missing", "repeated", "extra"),
    [
        ("[2] > [1] > [3]", [1, 0, 2], 0, 0, 0),
        ("2 > 1 > 3", [1, 0, 2], 0, 0, 0),
        ("[3]>[2]>[1]", [2, 1, 0], 0, 0, 0),
        ("[2] > [1]", [1, 0], 1, 0, 0),
        ("[2] > [2] > [1] > [2] > [3]", [1, 0, 2], 0, 2, 0),
        ("[2] > [0] > [1] > [4] > [3]", [1, 0, 2], 0, 0, 2),
        ("[11] > [2]", [1], 2, 0, 1),  # not the first digit of 11
        ("[2], [1], [3]", [1, 0, 2], 0, 0, 0),
        ("2, 1, 3", [1, 0, 2], 0, 0, 0),
        ("Order: 2 1 3.", [1, 0, 2], 0, 0, 0),
        ("The answer is 2.", [1], 2, 0, 0),
        ("2", [1], 2, 0, 0),
        ("Passage [1] is about tides. So: [3] > [2] > [1]", [2, 1, 0], 0, 0, 0),
        ("[1] > [2]\n[3] > [2] > [1]", [2, 1, 0], 0, 0, 0),
        ("[1] > [2] > [3]\n[3] > [2] > [1]", [2, 1, 0], 0, 0, 0),
        ("Both 1 and 2 are fine", [], 3, 0, 0),
        ("Sorry, I cannot rank 3 passages.", [], 3, 0, 0),
        ("", [], 3, 0, 0),
        ("[99999999999999999999] > [x]", [], 3, 0, 1),
    ],
)
def test_reading(text: str, order: list[int], missing: int, repeated: int, extra: int) -> None:
    assert read_order(text, 3) == Order(order, missing, repeated, extra)


def test_what_is_left_out_follows_in_its_order_and_is_not_put_in_order() -> None:
    # of d0 to d3 it names d2 and d0 only
    found = label(strategy("listwise"), WritingEngine(range(4), lambda places: "[3] > [1]"), 4)
    assert found.scores == pytest.approx((1 / 2, 1 / 3, 1.0, 1 / 3))


@pytest.mark.parametrize("garbage", ["", "I do not know.", "[0] > [77]", ">>>>"])
def test_b16_garbage_is_no_order(garbage: str) -> None:
    found = label(strategy("listwise", window=4, stride=2), WritingEngine(range(9), lambda _: garbage), 9)
    assert set(found.scores) == {1.0}


def test_always_the_first() -> None:
    found = label(strategy("listwise"), WritingEngine(range(5), lambda places: "[1]"), 5)
    assert found.scores == (1.0, 0.5, 0.5, 0.5, 0.5)


@pytest.mark.parametrize("seed", range(30))
def test_answers_without_any_sense_give_a_ranking(seed: int) -> None:
    numbers = random.Random(seed)

    def without_sense(places: list[int]) -> str:
        return chain([numbers.randrange(9) for _ in range(numbers.randrange(9))])

    found = label(strategy("listwise", window=6, stride=2), WritingEngine(range(17), without_sense), 17)
    assert sorted(ranking(found)) == list(range(17))
    assert max(found.scores) == 1.0


def test_right_in_some_answers_only() -> None:
    windows = iter([False, True, True])
    engine = WritingEngine([7, 5, 3, 1, 0, 2, 4, 6], lambda places: right(places) if next(windows) else "?")
    found = label(strategy("listwise", window=4, stride=2), engine, 8)
    # d4..d7 stay; d2..d5 become d5 d3 d2 d4; d0 d1 d5 d3 become d5 d3 d1 d0
    assert ranking(found) == [5, 3, 1, 0, 2, 4, 6, 7]
    assert found.scores[6] == found.scores[7]


def test_incomplete_answers_are_counted_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    chosen = strategy("listwise", window=4, stride=2)
    assert isinstance(chosen, Listwise)
    texts = ["[1] > [2] > [3] > [4]", "?", *["[2] > [2] > [9]"] * 10]
    with caplog.at_level(logging.WARNING):
        label(chosen, WritingEngine(range(26), lambda _: texts.pop(0)), 26)
    assert chosen.counted == {"asked": 12, "incomplete": 11, "unreadable": 1}
    assert [record.getMessage() for record in caplog.records] == [
        "query 'q1': the model wrote '?': of 4 passages 4 are missing, 0 numbers are repeated, 0 are of no "
        "passage (1 of 2 answers so far are like this, 1 without any number)",
        "query 'q1': the model wrote '[2] > [2] > [9]': of 4 passages 3 are missing, 1 numbers are repeated, "
        "1 are of no passage (10 of 11 answers so far are like this, 1 without any number)",
    ]


def test_b15_an_error_of_the_engine_is_an_error() -> None:
    def fails(places: list[int]) -> str:
        raise NonFiniteScoreError("the model answered with NaN logits")

    with pytest.raises(NonFiniteScoreError, match="NaN"):
        label(strategy("listwise"), WritingEngine(range(3), fails), 3)


def test_lists_are_labelled_alike_alone_and_together() -> None:
    lists = [CandidateTexts(QUERY._replace(query_id=f"q{n}"), documents(n)) for n in (0, 9, 1, 4)]
    order = shuffled(9, 1)
    chosen = strategy("listwise", window=4, stride=2)
    engine = WritingEngine(order)
    together = label_chunk(chosen, engine, lists)
    assert together == [label_chunk(chosen, WritingEngine(order), [item])[0] for item in lists]
    assert engine.rounds == chosen.prompts(9)


def test_its_prompts() -> None:
    for name in (None, "listwise-movie"):
        prompt = prompt_of(parameters(strategy="listwise", prompt=name), strategy("listwise"))
        assert prompt is not None
        assert prompt.name == (name or "listwise-passage")
    with pytest.raises(
        InputError, match="'query-generation' does not fit strategy listwise: it has no block"
    ):
        prompt_of(parameters(strategy="listwise", prompt="query-generation"), strategy("listwise"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"window": 10, "stride": 10}, "stride 10 must be less than window 10"),
        ({"window": 1}, "window: "),
        ({"stride": 0}, "stride: "),
    ],
)
def test_keys_that_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=f"strategy 'listwise': {message}"):
        strategy("listwise", **keys)
