"""Pair probabilities on their way from a label to the loss."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from instruct_distill.errors import InputError
from instruct_distill.losses import LOSSES
from instruct_distill.models.loading import LoadedModel
from instruct_distill.records import Comparison, Document, ListLabel, Query
from instruct_distill.training.gradient import add_gradient
from instruct_distill.training.lists import TrainingList, choose_documents, target_of, training_list
from instruct_distill.training.loop import student_encoder, train
from instruct_distill.training.parameters import (
    LossChoice,
    StudentParameters,
    TopAndRandom,
    TopAndRandomDocuments,
    TrainingParameters,
)
from instruct_distill.training.updates.plain import PlainUpdater

QUERY = Query("q", "query")
SOFT = LossChoice(name="ranknet", parameters={"targets": "soft"})


def label(*comparisons: tuple[int, int, float], scores: tuple[float, ...] = (1.0, 1.0, 1.0)) -> ListLabel:
    doc_ids = tuple(f"d{i}" for i in range(len(scores)))
    return ListLabel("q", doc_ids, scores, tuple(Comparison(*comparison) for comparison in comparisons))


def documents(*texts: str) -> list[Document]:
    return [Document(f"d{i}", text) for i, text in enumerate(texts)]


def test_probabilities_go_with_their_documents() -> None:
    """The document without text is left out; the last one then has another position."""
    given = label((0, 2, 3.0), (2, 0, 1.0), (0, 1, 9.0))
    item = training_list(QUERY, documents("red", "", "blue"), given, "skip", soft=True)
    assert [document.doc_id for document in item.documents] == ["d0", "d2"]
    p = 0.5 * (1 / (1 + np.exp(-3.0)) + 1 / (1 + np.exp(1.0)))
    assert item.probabilities is not None
    np.testing.assert_allclose(item.probabilities, [[0, p], [1 - p, 0]], rtol=1e-6)
    assert training_list(QUERY, documents("red", "", "blue"), given, "skip").probabilities is None


def test_informative_by_what_the_loss_looks_at() -> None:
    """Equal scores, and more sure of the first document when it is shown first than of the second."""
    given = label((0, 1, 3.0), (1, 0, 1.0), scores=(1.0, 1.0))
    assert not training_list(QUERY, documents("a", "b"), given, "skip").informative
    assert training_list(QUERY, documents("a", "b"), given, "skip", soft=True).informative
    assert not training_list(QUERY, documents("a", "a"), given, "skip", soft=True).informative
    biased = label((0, 1, 3.0), (1, 0, 3.0), scores=(2.0, 1.0))
    assert training_list(QUERY, documents("a", "b"), biased, "skip").informative
    assert not training_list(QUERY, documents("a", "b"), biased, "skip", soft=True).informative


def test_a_label_without_comparisons_cannot_be_soft() -> None:
    with pytest.raises(InputError, match=r"label of query 'q' has no comparisons.*targets: hard"):
        training_list(QUERY, documents("a", "b", "c"), label(), "skip", soft=True)
    alone = training_list(QUERY, documents("a"), label(scores=(1.0,)), "skip", soft=True)
    assert not alone.informative


def test_target_is_padded_and_chosen_documents_keep_theirs() -> None:
    full = label((0, 1, 1.0), (1, 2, 2.0), (0, 2, -3.0), scores=(2.0, 1.0, 0.0))
    long = training_list(QUERY, documents("a", "b", "c"), full, "skip", soft=True)
    short = training_list(
        QUERY, documents("x", "y"), label((0, 1, 4.0), scores=(1.0, 0.0)), "skip", soft=True
    )
    target = target_of([short, long], torch.device("cpu"))
    assert target.probabilities is not None
    assert target.probabilities[0, 0, 1].item() == pytest.approx(1 / (1 + np.exp(-4.0)))
    assert target.probabilities[0, 2].tolist() == target.probabilities[0, :, 2].tolist() == [0.0] * 3
    assert target.probabilities[1].tolist() == long.probabilities.tolist()  # type: ignore[union-attr]
    assert target_of([TrainingList(QUERY, (), ())], torch.device("cpu")).probabilities is None

    choice = TopAndRandomDocuments(top_and_random=TopAndRandom(top=1, random=1))
    parameters = TrainingParameters(loss=SOFT, documents_per_list=choice)
    for epoch in range(4):
        part = choose_documents(long, parameters, seed=1, epoch=epoch)
        kept = [int(document.doc_id[1:]) for document in part.documents]
        assert kept[0] == 0
        assert part.scores == tuple(long.scores[i] for i in kept)
        assert part.probabilities is not None
        assert part.probabilities[0, 1] == long.probabilities[0, kept[1]]  # type: ignore[index]


@pytest.mark.parametrize("loss", [SOFT, LossChoice(name="kl", parameters={"temperature": 2.0})])
def test_training_uses_the_losss_parameters(
    load: Callable[..., LoadedModel], student: StudentParameters, tmp_path: Path, loss: LossChoice
) -> None:
    """The first step's loss is that of the loss with its parameters, not with its defaults."""
    given = label((0, 1, 3.0), (1, 0, 1.0), (1, 2, 0.5), (0, 2, 4.0), scores=(2.0, 1.0, 0.0))
    item = training_list(
        QUERY, documents("amber basil", "cedar", "dusk ember fern"), given, "skip", soft=True
    )
    parameters = TrainingParameters(loss=loss, epochs=1, precision="fp32")
    log = tmp_path / "log.jsonl"
    train(load(), student, [item], parameters, seed=1, checkpoints=tmp_path / "checkpoints", log=log)
    logged = json.loads(log.read_text(encoding="utf-8"))["loss"]

    loaded = load()
    function = LOSSES.load(loss.name).loss
    expected = add_gradient(
        PlainUpdater(loaded.model, parameters),
        student_encoder(student, loaded),
        [item],
        functools.partial(function, **loss.parameters),
        informative=1,
        score=student.score,
        tokens_per_micro_batch=10_000,
    )
    assert logged == pytest.approx(expected.losses[0], rel=1e-5)
    default = function(torch.tensor(expected.scores), target_of([item], torch.device("cpu")))
    assert logged != pytest.approx(default.item(), rel=1e-2)
