"""Probabilities are fitted to the teacher's choices on held-back lists, and on nothing else."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import expit

from instruct_distill.models.loading import load_model
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.train import fitted_probability
from instruct_distill.recipe import Recipe
from instruct_distill.records import Document, Query
from instruct_distill.reranker import Reranker
from instruct_distill.training.lists import TrainingList

ROOT = Path(__file__).resolve().parents[2]
HELD_BACK = 3


def test_the_teachers_sums_over_both_orders_of_all_pairs(
    tiny_t5: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSTRUCT_DISTILL_TINY_T5", str(tiny_t5))
    monkeypatch.chdir(ROOT)
    overrides = [f"training.dev={{held_back: {HELD_BACK}, every: 4}}"]
    recipe = Recipe.load("recipes/tiny.yaml", overrides)
    loaded = load_model(str(tiny_t5), dtype="fp32", device=torch.device("cpu"))
    student = Reranker(loaded, recipe.student.prompt_record, max_length=recipe.student.max_length)

    # a teacher that mostly agrees with the student: of its two answers on neighbours one goes either way
    lists, scores = [], []
    for number in range(7):
        query = Query(str(number), f"query number {number}")
        documents = tuple(Document(f"{number}-{i}", f"text {i * number} of {i}") for i in range(4))
        own = student.score([(query, document) for document in documents]).astype(np.float64)
        sums = np.empty(4)
        sums[np.argsort(own)] = [1.0, 1.0, 4.0, 6.0]
        lists.append(TrainingList(query, documents, tuple(sums)))
        scores.append(own)
    found = fitted_probability(Inputs(recipe), loaded, lists)
    assert found is not None
    assert (found.lists, found.documents) == (HELD_BACK, 4 * HELD_BACK)

    # the cross-entropy to sums over 2(n-1) is least where both derivatives are 0: for one choice of lists
    rest = [
        expit(found.slope * own + found.intercept) - np.array(item.scores) / 6
        for own, item in zip(scores, lists, strict=True)
    ]
    derivatives = [(r.sum(), (r * own).sum()) for r, own in zip(rest, scores, strict=True)]
    flat = [
        chosen
        for chosen in combinations(range(len(lists)), HELD_BACK)
        if np.abs(np.sum([derivatives[i] for i in chosen], axis=0)).max() < 1e-4
    ]
    assert len(flat) == 1
