from __future__ import annotations

from collections.abc import Sequence

import pytest

from instruct_distill.errors import InputError
from instruct_distill.evaluation.agreement import Agreement, agreement_table, agreement_with_teacher
from instruct_distill.records import Document, ListLabel, Query, RankedDocument

DOCUMENTS = {doc_id: Document(doc_id, doc_id) for doc_id in "abcd"}
QUERIES = {f"q{i}": Query(f"q{i}", "") for i in range(4)}


class Scores:
    """A ranker with a score for each document."""

    def __init__(self, **scores: float) -> None:
        self.scores = scores

    def rank(self, query: Query, documents: Sequence[Document]) -> list[RankedDocument]:
        return [
            RankedDocument(i, each.doc_id, self.scores[each.doc_id], 0, "")
            for i, each in enumerate(documents)
        ]


def label(query_id: str, documents: str, *scores: float) -> ListLabel:
    return ListLabel(query_id, tuple(documents), scores)


def test_the_teachers_own_order_agrees() -> None:
    labels = [label("q1", "abcd", 1, 2, 3, 4), label("q2", "dcba", 9, 7, 5, 3)]
    found = agreement_with_teacher(Scores(a=1, b=2, c=3, d=4), labels, QUERIES, DOCUMENTS)
    assert found["reranker"] == Agreement(2, 1.0, 2, 1.0, 1.0)
    assert found["first_stage"].kendall == pytest.approx((-1 + 1) / 2)
    assert found["first_stage"].top_1 == 0.5


def test_one_pair_out_of_order() -> None:
    [_, found] = agreement_with_teacher(
        Scores(a=1, b=3, c=2, d=0), [label("q1", "abc", 1, 2, 3)], QUERIES, DOCUMENTS
    ).values()
    # pairs: ab right, ac right, bc wrong; gains by the teacher: c 2, b 1, a 0, discounted by log2(rank + 1)
    third = 1 / 1.584962500721156
    assert found.kendall == pytest.approx(1 / 3)
    assert found.top_1 == 0.0
    assert found.gain == pytest.approx((1 + 2 * third) / (2 + third))


def test_any_of_the_teachers_best_may_be_first_and_silent_lists_say_nothing() -> None:
    labels = [label("q1", "abc", 3, 3, 1), label("q2", "ab", 1, 1), label("q3", "", *())]
    found = agreement_with_teacher(Scores(a=1, b=2, c=0), labels, QUERIES, DOCUMENTS)["reranker"]
    assert (found.lists, found.top_1, found.gain) == (1, 1.0, 1.0)
    assert found.kendall == pytest.approx(2 / (2 * 3) ** 0.5)


def test_a_ranker_without_any_preference_has_no_tau() -> None:
    found = agreement_with_teacher(Scores(a=0, b=0), [label("q1", "ab", 1, 2)], QUERIES, DOCUMENTS)[
        "reranker"
    ]
    assert (found.kendall, found.kendall_lists, found.lists) == (None, 0, 1)


def test_it_is_never_called_ndcg() -> None:
    found = {"reranker": Agreement(3, None, 0, 0.5, 0.25)}
    table = agreement_table(found, ["a note"])
    assert table.split("\n")[0] == "agreement with the teacher"
    assert "nDCG" not in table
    assert table.split("\n")[4].split() == ["reranker", "-", "0.5000", "0.2500", "3"]
    assert table.endswith("\na note")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([label("q1", "ab", 1, 1)], "order no two documents"),
        ([label("other", "ab", 1, 2)], "query 'other', which the collection lacks"),
        ([label("q1", "ax", 1, 2)], "candidate x is not in the collection"),
    ],
)
def test_labels_of_something_else(labels: list[ListLabel], message: str) -> None:
    with pytest.raises(InputError, match=message):
        agreement_with_teacher(Scores(a=1, b=2), labels, QUERIES, DOCUMENTS)
