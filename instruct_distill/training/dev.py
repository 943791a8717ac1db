"""How good the student is while it is trained, on queries that are kept apart."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from instruct_distill.inference.score_rules import ScoreRule, student_score
from instruct_distill.models.batch import by_length
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.records import Document, Query
from instruct_distill.training.agreement import mean_kendall
from instruct_distill.training.dev_parameters import DevParameters
from instruct_distill.training.gradient import NOTHING, Loss
from instruct_distill.training.lists import TrainingList, target_of
from instruct_distill.training.processes import process_state, sum_over_processes
from instruct_distill.training.updates.updater import Updater


class DevList(NamedTuple):
    """A query of the dev set with its candidates, those without text left out."""

    query: Query
    documents: tuple[Document, ...]


class Dev(NamedTuple):
    """A dev set, and what is made of the student's scores on it.

    Args:
        parameters: which figure chooses, and how often it is measured.
        lists: what is scored.
        figures: takes the scores of each list's documents, returns metric → value.
    """

    parameters: DevParameters
    lists: Sequence[DevList]
    figures: Callable[[list[list[float]]], dict[str, float]]


def held_back_positions(lists: Sequence[TrainingList], count: int, seed: int) -> list[int]:
    """Return which lists are held back, ascending: a function of the lists and the seed.

    Only lists that order some documents are drawn: the others agree with everything.
    """
    informative = [i for i, item in enumerate(lists) if item.informative]
    drawn = np.random.default_rng([seed, len(lists)]).permutation(informative)[:count]
    return sorted(int(i) for i in drawn)


def held_back(
    lists: Sequence[TrainingList], parameters: DevParameters, loss: Loss, seed: int
) -> tuple[list[TrainingList], Dev]:
    """Take labelled lists out of training; return those that are left, and the dev set."""
    chosen = held_back_positions(lists, parameters.held_back, seed)
    kept = [lists[i] for i in chosen]

    def figures(scores: list[list[float]]) -> dict[str, float]:
        tau, _ = mean_kendall([item.scores for item in kept], scores)
        both = [
            int(np.argmax(item.scores)) == int(np.argmax(found))
            for item, found in zip(kept, scores, strict=True)
        ]
        return {"kendall_tau": tau, "top_1": statistics.fmean(both), "loss": _mean_loss(kept, scores, loss)}

    rest = [item for i, item in enumerate(lists) if i not in chosen]
    return rest, Dev(parameters, [DevList(item.query, item.documents) for item in kept], figures)


def measure(
    dev: Dev, updater: Updater, encoder: PromptEncoder, score: ScoreRule, budget: int
) -> dict[str, float]:
    """Score a dev set with the student as it is now; the processes share the work, and all get the result.

    Args:
        dev: the dev set.
        updater: holds the student; it must be in evaluation mode.
        encoder: its prompt.
        score: how answer logits become a score.
        budget: padded tokens a batch.

    Returns:
        metric → value, and ``spread``: the mean over lists of the scores' standard deviation.
    """
    assert encoder.answers is not None
    state = process_state()
    starts = np.cumsum([0, *(len(item.documents) for item in dev.lists)]).tolist()
    mine = range(state.process_index, len(dev.lists), state.num_processes)
    places = [place for i in mine for place in range(starts[i], starts[i + 1])]
    prompts = encoder.encode(
        (dev.lists[i].query.text, [document.full_text]) for i in mine for document in dev.lists[i].documents
    )
    flat = torch.zeros(starts[-1], dtype=torch.float32, device=updater.device)
    batches = list(by_length([len(prompt) for prompt in prompts], budget))
    with torch.no_grad():
        for batch in batches:
            answers = updater.forward([prompts[i] for i in batch], encoder.answers)
            flat[[places[i] for i in batch]] = student_score(answers, score).float()
        for _ in range(updater.agree(len(batches)) - len(batches)):
            updater.forward(NOTHING, encoder.answers)
    sum_over_processes([flat])
    scores = [flat[start:end].tolist() for start, end in pairwise(starts)]
    spreads = [statistics.pstdev(found) for found in scores if found]
    return {**dev.figures(scores), "spread": statistics.fmean(spreads) if spreads else 0.0}


@dataclass
class Best:
    """The best measurement so far.

    Args:
        parameters: metric, direction and patience.
        history: [step, value of the metric] of every measurement.
    """

    parameters: DevParameters
    history: list[list[float]] = field(default_factory=list)

    @property
    def step(self) -> int | None:
        """The step of the best measurement, the earliest of equal ones; None where none is finite."""
        sign = 1.0 if self.parameters.direction == "max" else -1.0
        found = [(sign * value, -step) for step, value in self.history if math.isfinite(value)]
        return int(-max(found)[1]) if found else None

    @property
    def value(self) -> float | None:
        """The best value."""
        return next((value for step, value in self.history if step == self.step), None)

    @property
    def patience_is_over(self) -> bool:
        """Whether as many measurements in a row as ``patience`` says were no better."""
        if self.parameters.patience is None:
            return False
        since = len([step for step, _ in self.history if self.step is None or step > self.step])
        return since >= self.parameters.patience


def _mean_loss(lists: Sequence[TrainingList], scores: Sequence[Sequence[float]], loss: Loss) -> float:
    values = [
        float(loss(torch.tensor([found], dtype=torch.float32), target_of([item], torch.device("cpu"))))
        for item, found in zip(lists, scores, strict=True)
    ]
    return statistics.fmean(values) if values else 0.0
