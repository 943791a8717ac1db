"""Labelled lists as the unit of training, and their order."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from instruct_distill.errors import InputError
from instruct_distill.losses.target import Target
from instruct_distill.records import Document, ListLabel, Query
from instruct_distill.training.document_choice import chosen_documents
from instruct_distill.training.parameters import TrainingParameters
from instruct_distill.training.schedule import steps_per_epoch
from instruct_distill.training.soft_pairs import pair_probabilities


@dataclass(frozen=True)
class TrainingList:
    """A query with its labelled candidates.

    Args:
        query: the query.
        documents: the candidates in first-stage order, those without text left out.
        scores: the teacher's scores, higher is better.
        probabilities: float32 [documents, documents], that i is better than j (see :mod:`.soft_pairs`);
            None where the loss looks at scores only.
    """

    query: Query
    documents: tuple[Document, ...]
    scores: tuple[float, ...]
    probabilities: npt.NDArray[Any] | None = field(default=None, compare=False)

    @property
    def informative(self) -> bool:
        """Whether the teacher prefers one of some pair of documents with different texts.

        That is by their scores, or by their probabilities where there are any.
        """
        texts = [document.full_text for document in self.documents]
        p = self.probabilities
        return any(
            (self.scores[i] != self.scores[j] if p is None else bool(p[i, j] != p[j, i]))
            and texts[i] != texts[j]
            for i in range(len(texts))
            for j in range(i)
        )

    def part(self, kept: Sequence[int]) -> TrainingList:
        """Return the list with some of its documents, by position."""
        return TrainingList(
            self.query,
            tuple(self.documents[i] for i in kept),
            tuple(self.scores[i] for i in kept),
            None if self.probabilities is None else self.probabilities[np.ix_(kept, kept)],
        )


def training_list(
    query: Query, documents: Sequence[Document], label: ListLabel, ties: str, *, soft: bool = False
) -> TrainingList:
    """Make a list from a label.

    Args:
        query: the query.
        documents: the documents of the label, in its order.
        label: the teacher's scores.
        ties: ``skip`` keeps equal scores equal; ``first_stage`` orders them as the candidates are.
        soft: take the teacher's pair probabilities along.

    Raises:
        InputError: probabilities are asked for, and the teacher compared no two documents.
    """
    if soft and len(documents) > 1 and not label.comparisons:
        raise InputError(
            f"the label of query {query.query_id!r} has no comparisons, and the loss asks for the teacher's "
            "pair probabilities (targets: soft); use targets: hard, or a teacher that compares in pairs"
        )
    scores = list(label.scores)
    if ties == "first_stage":
        best_first = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
        for rank, i in enumerate(best_first):
            scores[i] = float(len(scores) - rank)
    kept = [i for i, document in enumerate(documents) if document.full_text]
    probabilities = pair_probabilities(len(documents), label.comparisons) if soft else None
    return TrainingList(query, tuple(documents), tuple(scores), probabilities).part(kept)


def choose_documents(
    item: TrainingList, parameters: TrainingParameters, seed: int, epoch: int
) -> TrainingList:
    """Return the list with the documents that are used in an epoch: a function of seed, epoch and query."""
    generator = np.random.default_rng([seed, epoch, zlib.crc32(item.query.query_id.encode("utf-8"))])
    kept = chosen_documents(parameters.documents_per_list, item.scores, generator)
    return item if len(kept) == len(item.documents) else item.part(kept)


def steps(
    lists: Sequence[TrainingList], parameters: TrainingParameters, seed: int, first_step: int = 0
) -> Iterator[tuple[int, int, list[TrainingList]]]:
    """Yield (step from 0, epoch from 0, lists) from a step on; the order is a function of seed and epoch.

    A resumed run sees what an uninterrupted one would have seen.
    """
    per_epoch = steps_per_epoch(len(lists), parameters.lists_per_step)
    for epoch in range(parameters.epochs):
        if first_step >= (epoch + 1) * per_epoch:
            continue
        order = np.random.default_rng([seed, epoch]).permutation(len(lists))
        for position in range(per_epoch):
            step = epoch * per_epoch + position
            if step >= first_step:
                chosen = order[
                    position * parameters.lists_per_step : (position + 1) * parameters.lists_per_step
                ]
                yield step, epoch, [choose_documents(lists[i], parameters, seed, epoch) for i in chosen]


def target_of(lists: Sequence[TrainingList], device: torch.device) -> Target:
    """Return the padded target of some lists; documents of equal text make no pair.

    It has pair probabilities if the lists have.
    """
    longest = max(len(item.documents) for item in lists)
    scores = torch.zeros(len(lists), longest)
    mask = torch.zeros(len(lists), longest, dtype=torch.bool)
    weights = torch.ones(len(lists), longest, longest)
    soft = any(item.probabilities is not None for item in lists)
    probabilities = torch.zeros(len(lists), longest, longest) if soft else None
    for row, item in enumerate(lists):
        n = len(item.documents)
        scores[row, :n] = torch.tensor(item.scores)
        mask[row, :n] = True
        if probabilities is not None and item.probabilities is not None:
            probabilities[row, :n, :n] = torch.from_numpy(item.probabilities)
        first_with: dict[str, list[int]] = {}
        for i, document in enumerate(item.documents):
            first_with.setdefault(document.full_text, []).append(i)
        for same in first_with.values():
            if len(same) > 1:
                rows = torch.tensor(same)
                weights[row, rows[:, None], rows[None, :]] = 0.0
    return Target(
        scores.to(device),
        mask.to(device),
        weights.to(device),
        None if probabilities is None else probabilities.to(device),
    )
