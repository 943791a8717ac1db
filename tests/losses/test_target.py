from __future__ import annotations

import math

import torch

from instruct_distill.losses.target import (
    Target,
    mean_over_documents,
    mean_over_pairs,
    ordered_pairs,
    probable_pairs,
    real_pairs,
    student_scores,
    where_informative,
)

MASK = torch.tensor([[True, True, True], [True, True, False]])
TARGET = Target(torch.tensor([[1.0, 3.0, 1.0], [0.0, 2.0, math.nan]]), MASK)


def test_equal_scores_share_a_rank() -> None:
    assert TARGET.ranks()[0].tolist() == [2.0, 1.0, 2.0]
    assert TARGET.ranks()[1, :2].tolist() == [2.0, 1.0]


def test_pairs() -> None:
    assert real_pairs(TARGET)[1].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert ordered_pairs(TARGET).tolist() == [
        [[0, 0, 0], [1, 0, 1], [0, 0, 0]],
        [[0, 0, 0], [1, 0, 0], [0, 0, 0]],
    ]
    weights = torch.ones(2, 3, 3)
    weights[0, 1, 0] = weights[0, 0, 1] = 0.5
    weighted = TARGET._replace(weights=weights)
    assert ordered_pairs(weighted)[0].tolist() == [[0, 0, 0], [0.5, 0, 1], [0, 0, 0]]
    probabilities = torch.full((2, 3, 3), 0.5)
    probabilities[1, 2] = math.nan
    assert probable_pairs(weighted._replace(probabilities=probabilities)).tolist() == [
        [[0, 0.25, 0.5], [0.25, 0, 0.5], [0.5, 0.5, 0]],
        [[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]],
    ]


def test_means() -> None:
    values = torch.tensor([[3.0, 6.0, 9.0], [1.0, 2.0, math.inf]])
    assert mean_over_documents(values, TARGET).tolist() == [6.0, 1.5]
    pairs = torch.tensor([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    assert mean_over_pairs(torch.full((2, 2, 2), 8.0), pairs).tolist() == [8.0, 0.0]


def test_information_is_a_preference() -> None:
    pairs = torch.tensor([[[0.0, 0.5], [0.5, 0.0]], [[0.0, 0.6], [0.4, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    assert where_informative(torch.ones(3), pairs).tolist() == [0.0, 1.0, 0.0]


def test_scores_of_padding_are_zero() -> None:
    found = student_scores(torch.tensor([[1, 2, 3], [4, 5, math.nan]], dtype=torch.float16), TARGET)
    assert found.dtype == torch.float32
    assert found.tolist() == [[1, 2, 3], [4, 5, 0]]
