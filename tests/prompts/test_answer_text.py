from __future__ import annotations

import pytest

from instruct_distill.prompts.answer_text import read_answer

A, B = 0, 1


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # the forms of B11
        ("Passage A", A),
        ("A", A),
        ("passage b.", B),
        ("Answer: Passage B", B),
        ("B is better than A", B),
        ("Both", None),
        ("", None),
        ("Passage AB", None),
        # the same with signs around
        (" A\n", A),
        ("**B**", B),
        ("[A]", A),
        ("(B).", B),
        ('"A"', A),
        ("The answer is: B.", B),
        ("Output: passage A", A),
        # with a reason
        ("A. Because it names the chain.", A),
        ("B, because it names the chain.", B),
        ("A: Clean and oil the chain", A),
        ("Passage A\n\nPassage B is about ferries.", A),
        ("A is the more relevant passage", A),
        # no answer, or two
        ("A or B", None),
        ("A and B", None),
        ("A, B", None),
        ("A/B", None),
        ("passage A and passage B", None),
        ("Neither", None),
        ("C", None),
        ("Passage", None),
        ("A bicycle chain needs oil", None),
        ("a passage about oil", None),
        ("A is worse than B", None),
        ("A is not relevant", None),
        ("A is as good as B", None),
        ("Ab", None),
        ("BA", None),
    ],
)
def test_b11_a_closed_set_of_forms(text: str, answer: int | None) -> None:
    assert read_answer(text, ("A", "B"), "passage") == answer


def test_the_whole_number_counts() -> None:
    numbers = [str(i) for i in range(1, 12)]
    assert read_answer("[11]", numbers) == 10
    assert read_answer("1", numbers) == 0
    assert read_answer("12", numbers) is None
    assert read_answer("Movie 3.", numbers) == 2


def test_words() -> None:
    assert [
        read_answer(text, ("Yes", "No")) for text in ("yes", "No.", "Yes, as it says so", "Not", "yes no")
    ] == [
        0,
        1,
        0,
        None,
        None,
    ]


def test_signs_in_answers_are_signs() -> None:
    assert read_answer("C", ("C.", "C")) == 1
    assert read_answer("(c++)", ("C++", "C")) == 0
