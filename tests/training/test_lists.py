from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from instruct_distill.losses.ranknet import loss
from instruct_distill.losses.target import ordered_pairs
from instruct_distill.records import Document, ListLabel, Query
from instruct_distill.training.lists import (
    TrainingList,
    choose_documents,
    steps,
    steps_per_epoch,
    target_of,
    training_list,
)
from instruct_distill.training.parameters import RandomDocuments, TrainingParameters

Lists = Callable[..., list[TrainingList]]
CPU = torch.device("cpu")


def listed(texts: list[str], scores: list[float]) -> TrainingList:
    documents = tuple(Document(f"d{i}", text) for i, text in enumerate(texts))
    return TrainingList(Query("q", "query"), documents, tuple(scores))


def order(
    lists: list[TrainingList], parameters: TrainingParameters, seed: int, first: int = 0
) -> list[list[str]]:
    return [[item.query.query_id for item in batch] for _, _, batch in steps(lists, parameters, seed, first)]


def test_b27_order_is_a_function_of_seed_and_epoch(lists: Lists) -> None:
    data = lists(20)
    parameters = TrainingParameters(lists_per_step=2, epochs=2)
    whole = order(data, parameters, seed=7)
    assert len(whole) == 20
    first, second = ([q for batch in epoch for q in batch] for epoch in (whole[:10], whole[10:]))
    assert sorted(first) == sorted(second) == sorted(item.query.query_id for item in data)
    assert first != second
    assert order(data, parameters, seed=7) == whole
    assert order(data, parameters, seed=8) != whole
    for done in (0, 1, 9, 10, 14, 19, 20):
        assert order(data, parameters, seed=7, first=done) == whole[done:]
    longer = TrainingParameters(lists_per_step=2, epochs=3)
    assert order(data, longer, seed=7)[:20] == whole


def test_steps_are_numbered_and_the_last_one_of_an_epoch_may_be_short(lists: Lists) -> None:
    found = list(steps(lists(5), TrainingParameters(lists_per_step=2, epochs=2), seed=0))
    assert [(step, epoch, len(batch)) for step, epoch, batch in found] == [
        (0, 0, 2),
        (1, 0, 2),
        (2, 0, 1),
        (3, 1, 2),
        (4, 1, 2),
        (5, 1, 1),
    ]


@pytest.mark.parametrize(("count", "per_step", "expected"), [(5, 2, 3), (4, 2, 2), (1, 32, 1)])
def test_steps_per_epoch(count: int, per_step: int, expected: int) -> None:
    assert steps_per_epoch(count, per_step) == expected


def test_random_documents_keep_texts_with_their_scores(lists: Lists) -> None:
    (item,) = lists(1, documents=9)
    parameters = TrainingParameters(documents_per_list=RandomDocuments(random=4))
    whole = dict(zip(item.documents, item.scores, strict=True))
    drawn = [choose_documents(item, parameters, seed=1, epoch=epoch) for epoch in range(5)]
    for chosen in drawn:
        assert len(chosen.documents) == 4
        assert dict(zip(chosen.documents, chosen.scores, strict=True)).items() <= whole.items()
    assert len({chosen.documents for chosen in drawn}) > 1
    assert choose_documents(item, parameters, seed=1, epoch=3) == drawn[3]
    short = lists(1, documents=4)[0]
    assert choose_documents(short, parameters, seed=1, epoch=0) is short


def test_ties_are_kept_or_ordered_by_the_first_stage() -> None:
    documents = [Document(f"d{i}", f"text {i}") for i in range(4)]
    label = ListLabel("q", ("d0", "d1", "d2", "d3"), (1.0, 5.0, 1.0, 5.0))
    query = Query("q", "query")
    assert training_list(query, documents, label, "skip").scores == (1.0, 5.0, 1.0, 5.0)
    # best first: d1, d3, d0, d2
    assert training_list(query, documents, label, "first_stage").scores == (2.0, 4.0, 1.0, 3.0)


def test_documents_without_text_are_left_out_with_their_scores() -> None:
    documents = [Document("a", "text"), Document("b", "  "), Document("c", "", "title")]
    found = training_list(
        Query("q", "query"), documents, ListLabel("q", ("a", "b", "c"), (3.0, 2.0, 1.0)), "skip"
    )
    assert [document.doc_id for document in found.documents] == ["a", "c"]
    assert found.scores == (3.0, 1.0)


def test_documents_of_equal_text_make_no_pair() -> None:
    item = listed(["same", "same", "other"], [3.0, 2.0, 1.0])
    pairs = ordered_pairs(target_of([item], CPU))[0]
    assert pairs.nonzero().tolist() == [[0, 2], [1, 2]]
    assert item.informative
    assert not listed(["same", "same"], [3.0, 2.0]).informative
    assert not listed(["one", "two"], [2.0, 2.0]).informative
    assert not listed(["one"], [2.0]).informative


def test_target_of_lists_of_different_lengths() -> None:
    target = target_of([listed(["a", "b", "c"], [1.0, 2.0, 3.0]), listed(["a"], [5.0])], CPU)
    assert target.scores.tolist() == [[1.0, 2.0, 3.0], [5.0, 0.0, 0.0]]
    assert target.mask.tolist() == [[True, True, True], [True, False, False]]
    assert loss(torch.zeros(2, 3), target).tolist() == pytest.approx([0.693147, 0.0], abs=1e-6)
