from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from instruct_distill.teachers.bradley_terry import strengths


def test_two_documents() -> None:
    # the slope is 0 where 3 − 4·σ(2θ) = 0.1·(σ(θ) − ½)
    theta = strengths(np.array([[0.0, 3.0], [1.0, 0.0]]))
    assert theta[0] == -theta[1]
    half = theta[0]
    assert 3 - 4 / (1 + np.exp(-2 * half)) == pytest.approx(0.1 * (1 / (1 + np.exp(-half)) - 0.5), abs=1e-5)
    assert half == pytest.approx(np.log(3) / 2, abs=0.02)


def test_against_a_general_optimiser() -> None:
    generator = np.random.default_rng(4)
    wins = generator.integers(0, 3, (7, 7)).astype(float)
    np.fill_diagonal(wins, 0.0)

    def loss(theta: np.ndarray) -> float:
        gaps = theta[:, None] - theta[None, :]
        return float(
            (wins * np.log1p(np.exp(-gaps))).sum()
            + 0.05 * (np.log1p(np.exp(-theta)) + np.log1p(np.exp(theta))).sum()
        )

    expected = minimize(loss, np.zeros(7), tol=1e-12).x
    np.testing.assert_allclose(strengths(wins), expected, atol=1e-4)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_nothing_was_won(n: int) -> None:
    assert strengths(np.zeros((n, n))).tolist() == [0.0] * n
    draws = np.full((n, n), 0.5) - 0.5 * np.eye(n)
    assert strengths(draws).tolist() == [0.0] * n


def test_a_chain_has_its_order_and_is_finite() -> None:
    wins = np.diag(np.full(99, 2.0), 1)  # each beats only the next
    theta = strengths(wins)
    assert (np.diff(theta) < 0).all()
    assert np.abs(theta).max() < 200


def test_alike_documents_are_equal() -> None:
    wins = np.zeros((4, 4))
    wins[0, 1] = wins[0, 2] = 2.0
    wins[1, 3] = wins[2, 3] = 2.0
    theta = strengths(wins)
    assert theta[0] > theta[1] == theta[2] > theta[3]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_wins_where_all_pairs_are_compared(seed: int) -> None:
    generator = np.random.default_rng(seed)
    wins = np.triu(generator.choice([0.0, 0.5, 1.0, 1.5, 2.0], (12, 12)), 1)
    wins += np.tril(2.0 - wins.T, -1)
    won, theta = wins.sum(axis=1), strengths(wins)
    for i in range(12):
        for j in range(12):
            assert (won[i] > won[j]) == (theta[i] > theta[j])
