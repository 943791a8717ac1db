from __future__ import annotations

import random

import pytest

from instruct_distill.evaluation.normal_form import words_of
from instruct_distill.evaluation.query_leaks import QueryLeaks, near_duplicates
from instruct_distill.evaluation.spans import span_tables
from instruct_distill.records import Query

LONG = "one two three four five six seven eight nine ten eleven twelve thirteen"


def kinds(test: str, training: list[str]) -> list[tuple[str, str]]:
    leaks = QueryLeaks([Query("test", test)])
    leaks.compare_queries([Query(f"t{i}", text) for i, text in enumerate(training)])
    return [(leak.kind, leak.training_id) for leak in leaks.found()]


@pytest.mark.parametrize(
    ("training", "kind"),
    [
        ("how do I oil a bicycle chain", "exact"),
        ("How do I oil a bicycle-chain?", "normalised"),
        ("how do \uff29 oil a bicycle \uff23hain", "normalised"),  # full-width letters
        ("how do I oil a bicycle chain quickly", "near_duplicate"),  # 7 of 8 words
        ("chain, bicycle: how do I oil a", "near_duplicate"),
    ],
)
def test_the_same_query_in_other_clothes(training: str, kind: str) -> None:
    assert kinds("how do I oil a bicycle chain", ["when does the ferry leave", training]) == [(kind, "t1")]


def test_another_query_is_none() -> None:
    training = ["how do I oil a motor", "how do I mend a bicycle tyre", "?", ""]
    assert kinds("how do I oil a bicycle chain", training) == []
    assert kinds("!", ["?", ""]) == []


def test_the_plainest_evidence_counts_and_near_duplicates_name_the_nearest() -> None:
    assert kinds("a b c d e", ["e d c b a", "A b c d e", "a b c d e"]) == [("exact", "t2")]
    assert kinds("a b c d e", ["a b c d", "a b c d e f", "b a c d e"]) == [("near_duplicate", "t2")]


def test_a_long_query_shares_a_span_with_a_training_query() -> None:
    training = f"so then {LONG} and more words than before so that it is no near duplicate"
    assert kinds(f"well {LONG}", [training]) == [("shared_span", "t0")]
    assert kinds(LONG[:-9], [training]) == []


def test_near_duplicates_are_those_of_all_pairs() -> None:
    generator = random.Random(8)
    texts = [[generator.choice("abcdefgh") for _ in range(generator.randint(0, 9))] for _ in range(300)]
    test, training = texts[:100], texts[100:]
    expected = {}
    for number, words in enumerate(test):
        indices = [
            len({*words} & {*other}) / len({*words} | {*other}) if words or other else 0.0
            for other in training
        ]
        if max(indices) >= 0.8:
            expected[number] = indices.index(max(indices))
    assert near_duplicates(test, training) == expected
    assert 20 < len(expected) < 100


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ("People ask: Who is Robert Gray? He was a captain.", True),
        ("WHO IS ROBERT GRAY", True),
        ("who is robert grayson", False),
        ("who was robert gray", False),
        ("who is who is robert gray", True),
    ],
)
def test_contained_in_a_document(document: str, found: bool) -> None:
    leaks = QueryLeaks([Query("q1", "who is robert gray"), Query("q2", "robert gray")])
    leaks.compare_document("d1", words_of(document))
    expected = [("contained", "q1", "d1", "who is robert gray")] if found else []
    assert [(x.kind, x.query.query_id, x.training_id, x.training_text) for x in leaks.found()] == expected
    assert leaks.too_short_to_be_contained() == 1


def test_a_span_of_a_long_query_in_a_document() -> None:
    leaks = QueryLeaks([Query("q1", f"{LONG} fourteen and an end of its own")])
    for table in span_tables([("d1", words_of(f"In a document: {LONG.upper()}!"))]):
        leaks.compare_spans(table)
    assert [(x.kind, x.training_id, x.training_text) for x in leaks.found()] == [("shared_span", "d1", LONG)]
