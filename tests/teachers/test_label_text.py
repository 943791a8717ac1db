from __future__ import annotations

from instruct_distill.records import Comparison, Document, ListLabel
from instruct_distill.teachers.label_text import label_text

LABEL = ListLabel("q1", ("d1", "d2"), (0.5, 1.5), (Comparison(0, 1, -0.25), Comparison(1, 0, 2.0)))


def test_a_label_with_its_texts() -> None:
    documents = {"d1": Document("d1", "one"), "d2": Document("d2", "two " * 40)}
    lines = label_text(LABEL, "which", documents).split("\n")
    assert lines[:5] == [
        "query q1: which",
        "2 documents, 2 comparisons",
        "",
        "rank  first stage  score     document  text",
        "   1            2  1.5       d2        " + ("two " * 40)[:69].ljust(69)[:68] + "...",
    ]
    assert lines[5:] == [
        "   2            1  0.5       d1        one",
        "",
        "margins in logits, by rank: above 0 the row's document, shown first, beats the column's",
        "           1      2",
        "   1       .   2.00",
        "   2   -0.25      .",
    ]


def test_a_label_without_texts_or_comparisons() -> None:
    assert label_text(ListLabel("q", (), ())) == "query q\n0 documents, 0 comparisons"
    assert (
        label_text(ListLabel("q", ("a",), (0.0,))).split("\n")[-1] == "   1            1  0         a       "
    )


def test_of_a_long_list_the_best_are_shown() -> None:
    n = 40
    pairs = tuple(Comparison(i, j, 1.0) for i in range(n) for j in range(n) if i != j)
    lines = label_text(ListLabel("q", tuple(map(str, range(n))), (0.0,) * n, pairs)).split("\n")
    assert lines[4 + n + 1].startswith("margins of the first 16 in logits, by rank: above 0 the row's")
    assert len(lines) == 4 + n + 1 + 1 + 1 + 16
