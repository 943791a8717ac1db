from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from instruct_distill.inference.score_rules import relevance_generation_score, student_score


def test_equation_2() -> None:
    third = math.log(3)
    logits = np.array([[third, 0.0], [0.0, third], [5.0, 5.0], [400.0, -400.0], [-400.0, 400.0]], np.float32)
    # p(Yes) is 3/4, 1/4, 1/2, 1 and 0; at a tie the first answer is the output
    scores = relevance_generation_score(logits)
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx([1.75, 0.25, 1.5, 2.0, 0.0], abs=1e-6)


def test_equation_2_orders_by_the_difference_of_the_logits() -> None:
    differences = np.linspace(-6, 6, 25, dtype=np.float32)
    scores = relevance_generation_score(np.stack([differences + 3, np.full(25, 3, np.float32)], axis=1))
    assert (np.diff(scores) > 0).all()
    assert (scores[:12] < 0.5).all()  # the output is No: 1 − p(No) is below one half
    assert (scores[12:] >= 1.5).all()


def test_documents_that_are_surely_not_relevant_keep_their_order() -> None:
    logits = np.array([[-17.0, 0.0], [-18.0, 0.0], [-30.0, 0.0]], np.float32)
    assert relevance_generation_score(logits).tolist() == pytest.approx(
        [math.exp(-17), math.exp(-18), math.exp(-30)], rel=1e-5
    )


def test_no_documents() -> None:
    assert relevance_generation_score(np.zeros((0, 2), np.float32)).shape == (0,)


def test_student_scores_of_arrays_and_tensors() -> None:
    logits = np.array([[1.5, 0.25], [-2.0, 3.0]], np.float32)
    assert student_score(logits, "yes_logit").tolist() == [1.5, -2.0]
    assert student_score(logits, "yes_minus_no").tolist() == [1.25, -5.0]
    lists = torch.tensor(logits)[None]
    assert student_score(lists, "yes_minus_no").tolist() == [[1.25, -5.0]]
