from __future__ import annotations

from itertools import permutations, product

import pytest

from instruct_distill.inference.engine import Question
from instruct_distill.records import Comparison, ListLabel
from instruct_distill.teachers.allpairs import AllPairs, aggregate, choice
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk
from instruct_distill.teachers.statistics import label_statistics
from tests.teachers.stub_engine import D1, D2, D3, D4, Q1, StubEngine, context, parameters

DOCUMENTS = (D1, D2, D3, D4)  # best first, as the "right" teachers below see it
PLACE = {document.doc_id: place for place, document in enumerate(DOCUMENTS)}
PAIRS = list(permutations(range(3), 2))


def label(engine: StubEngine) -> ListLabel:
    (found,) = label_chunk(AllPairs(parameters(), context()), engine, [CandidateTexts(Q1, DOCUMENTS)])
    return found


def right(question: Question) -> float:
    first, second = (PLACE[document.doc_id] for document in question.documents)
    return 2.0 if first < second else -2.0


@pytest.mark.parametrize(("margin", "c"), [(0.1, 1.0), (-0.1, 0.0), (0.0, 0.5), (-0.0, 0.5)])
def test_choice(margin: float, c: float) -> None:
    assert choice(margin) == c


def test_every_pattern_of_answers_on_three_candidates() -> None:
    for margins in product((1.5, -1.5, 0.0), repeat=6):
        comparisons = [Comparison(i, j, margin) for (i, j), margin in zip(PAIRS, margins, strict=True)]
        c = {(i, j): 1.0 if m > 0 else 0.5 if m == 0 else 0.0 for i, j, m in comparisons}
        expected = [
            c[0, 1] + (1 - c[1, 0]) + c[0, 2] + (1 - c[2, 0]),
            c[1, 0] + (1 - c[0, 1]) + c[1, 2] + (1 - c[2, 1]),
            c[2, 0] + (1 - c[0, 2]) + c[2, 1] + (1 - c[1, 2]),
        ]
        scores = aggregate(3, comparisons)
        assert scores == expected, margins
        assert sum(scores) == 6.0
        assert all(0 <= score <= 4 for score in scores)


def test_b16_a_teacher_that_always_says_a() -> None:
    engine = StubEngine(lambda question: 1.0)
    found = label(engine)
    assert found.scores == (3.0, 3.0, 3.0, 3.0)
    assert len(engine.asked) == 12
    assert sorted(engine.asked) == sorted(("q1", a.doc_id, b.doc_id) for a, b in permutations(DOCUMENTS, 2))
    statistics = label_statistics([found])
    assert (statistics.informative, statistics.inconsistent, statistics.position_bias) == (0, 1.0, 1.0)


def test_b16_a_teacher_that_is_always_right() -> None:
    engine = StubEngine(right)
    found = label(engine)
    assert found.scores == (6.0, 4.0, 2.0, 0.0)
    assert len(engine.asked) == 12
    assert found.doc_ids == ("d1", "d2", "d3", "d4")
    assert {(c.first, c.second): c.margin for c in found.comparisons} == {
        (i, j): 2.0 if i < j else -2.0 for i, j in permutations(range(4), 2)
    }


def test_b16_right_in_one_order_and_a_tie_in_the_other() -> None:
    found = label(StubEngine(lambda question: max(right(question), 0.0)))
    # each pair gives 1.5 to the better and 0.5 to the worse document: no full win
    assert found.scores == (4.5, 3.5, 2.5, 1.5)


def test_the_margin_is_the_first_answer_minus_the_second() -> None:
    found = label(StubEngine(lambda question: PLACE[question.documents[0].doc_id] - 1.5))
    assert {c.margin for c in found.comparisons if c.first == 0} == {-1.5}
    assert {c.margin for c in found.comparisons if c.first == 3} == {1.5}
    # d1 and d2 lose wherever they stand first, d3 and d4 win there
    assert found.scores == (1.0, 1.0, 5.0, 5.0)


@pytest.mark.parametrize(("candidates", "prompts"), [(0, 0), (1, 0), (2, 2), (10, 90), (100, 9900)])
def test_the_number_of_prompts(candidates: int, prompts: int) -> None:
    assert AllPairs(parameters(), context()).prompts(candidates) == prompts
