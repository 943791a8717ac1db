"""Labelled lists as the unit of training, and their order."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from instruct_distill.losses.target import Target
from instruct_distill.records import Document, ListLabel, Query
from instruct_distill.training.parameters import RandomDocuments, TrainingParameters


@dataclass(frozen=True)
class TrainingList:
    """A query with its labelled candidates.

    Args:
        query: the query.
        documents: the candidates in first-stage order, those without text left out.
        scores: the teacher's scores, higher is better.
    """

    query: Query
    documents: tuple[Document, ...]
    scores: tuple[float, ...]

    @property
    def informative(self) -> bool:
        """Whether some pair of documents with different texts has different scores."""
        texts = [document.full_text for document in self.documents]
        return any(
            self.scores[i] != self.scores[j] and texts[i] != texts[j]
            for i in range(len(texts))
            for j in range(i)
        )


def training_list(query: Query, documents: Sequence[Document], label: ListLabel, ties: str) -> TrainingList:
    """Make a list from a label.

    Args:
        query: the query.
        documents: the documents of the label, in its order.
        label: the teacher's scores.
        ties: ``skip`` keeps equal scores equal; ``first_stage`` orders them as the candidates are.
    """
    scores = list(label.scores)
    if ties == "first_stage":
        best_first = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
        for rank, i in enumerate(best_first):
            scores[i] = float(len(scores) - rank)
    kept = [i for i, document in enumerate(documents) if document.full_text]
    return TrainingList(query, tuple(documents[i] for i in kept), tuple(scores[i] for i in kept))


def choose_documents(
    item: TrainingList, parameters: TrainingParameters, seed: int, epoch: int
) -> TrainingList:
    """Return the list with the documents that are used in an epoch: a function of seed, epoch and query."""
    chosen = parameters.documents_per_list
    if not isinstance(chosen, RandomDocuments) or len(item.documents) <= chosen.random:
        return item
    generator = np.random.default_rng([seed, epoch, zlib.crc32(item.query.query_id.encode("utf-8"))])
    kept = sorted(generator.choice(len(item.documents), size=chosen.random, replace=False).tolist())
    return TrainingList(
        item.query, tuple(item.documents[i] for i in kept), tuple(item.scores[i] for i in kept)
    )


def steps_per_epoch(lists: int, lists_per_step: int) -> int:
    """Return the number of optimizer steps in an epoch; the last one may hold fewer lists."""
    return -(-lists // lists_per_step)


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
    """Return the padded target of some lists; documents of equal text make no pair."""
    longest = max(len(item.documents) for item in lists)
    scores = torch.zeros(len(lists), longest)
    mask = torch.zeros(len(lists), longest, dtype=torch.bool)
    weights = torch.ones(len(lists), longest, longest)
    for row, item in enumerate(lists):
        n = len(item.documents)
        scores[row, :n] = torch.tensor(item.scores)
        mask[row, :n] = True
        first_with: dict[str, list[int]] = {}
        for i, document in enumerate(item.documents):
            first_with.setdefault(document.full_text, []).append(i)
        for same in first_with.values():
            if len(same) > 1:
                rows = torch.tensor(same)
                weights[row, rows[:, None], rows[None, :]] = 0.0
    return Target(scores.to(device), mask.to(device), weights.to(device))
