from __future__ import annotations

import math
from typing import Any

import pytest
import pytrec_eval
import torch

from instruct_distill.losses.approx_ndcg import loss
from instruct_distill.losses.target import Target


def target(*scores: list[float]) -> Target:
    return Target(torch.tensor(scores), torch.ones(len(scores), len(scores[0]), dtype=torch.bool))


def test_by_hand() -> None:
    """Equal scores: both smooth ranks are 1.5, the gains are 1 and 0."""
    found = loss(torch.zeros(1, 2), target([1.0, 0.0]))
    assert found.item() == pytest.approx(1 - 1 / math.log2(2.5), rel=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("gain", ["linear", "exponential"])
def test_agrees_with_plain_loops(gain: Any, temperature: float) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    teacher = torch.randint(0, 4, (4, 6), generator=generator).float()
    teacher[:, 0], teacher[:, 1] = 0.0, 3.0
    found = loss(scores, target(*teacher.tolist()), gain=gain, temperature=temperature).tolist()
    for value, s, t in zip(found, scores.tolist(), teacher.tolist(), strict=True):
        gains = [2**y - 1 if gain == "exponential" else y for y in t]
        ideal = sum(g / math.log2(2 + i) for i, g in enumerate(sorted(gains, reverse=True)))
        dcg = 0.0
        for i in range(6):
            others = (1 / (1 + math.exp(-(s[j] - s[i]) / temperature)) for j in range(6) if j != i)
            dcg += gains[i] / math.log2(1 + 1 + sum(others))
        assert value == pytest.approx(1 - dcg / ideal, rel=1e-7)


def test_becomes_trec_evals_ndcg_at_a_low_temperature() -> None:
    grades, scores = [3, 0, 1, 2, 0], [0.1, 0.9, 0.5, 0.3, -1.0]
    qrels = {"q": {str(i): grade for i, grade in enumerate(grades)}}
    run = {"q": {str(i): score for i, score in enumerate(scores)}}
    ndcg = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg"}).evaluate(run)["q"]["ndcg"]
    found = loss(torch.tensor([scores]), target([float(grade) for grade in grades]), temperature=0.005)
    assert found.item() == pytest.approx(1 - ndcg, abs=1e-6)
    assert 0.3 < ndcg < 0.9
