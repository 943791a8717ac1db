"""Strengths of documents from comparisons of some of their pairs: the Bradley–Terry model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_PRIOR = 0.1
_STEPS = 100
_TOLERANCE = 1e-10


def strengths(wins: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return θ that is likeliest where p(i beats j) = σ(θ_i − θ_j), found by Newton's method.

    Each document also has ``_PRIOR`` of a draw with one of strength 0: the strength of one that always won or
    lost is finite, and θ is unique, so that documents that nothing separates have the same, to the last of
    the six decimals that are kept. Where all pairs are compared equally often, θ has the order of the wins.

    Args:
        wins: [n, n], how often i won against j; half a win each for a tie.
    """
    n = len(wins)
    played = wins + wins.T
    theta = np.zeros(n)
    value = _objective(theta, wins)
    for _ in range(_STEPS):
        p = _sigmoid(theta[:, None] - theta[None, :])
        q = _sigmoid(theta)
        slope = (wins - played * p).sum(axis=1) + _PRIOR * (0.5 - q)
        if np.abs(slope).max(initial=0.0) < _TOLERANCE:
            break
        curvature = played * p * (1.0 - p)
        hessian = np.diag(curvature.sum(axis=1) + _PRIOR * q * (1.0 - q)) - curvature
        step = np.linalg.solve(hessian, slope)
        size = 1.0
        while size > 1e-6 and _objective(theta + size * step, wins) < value:
            size /= 2.0
        theta = theta + size * step
        value = _objective(theta, wins)
    rounded: npt.NDArray[np.float64] = np.round(theta, 6) + 0.0  # no −0
    return rounded


def _objective(theta: npt.NDArray[np.float64], wins: npt.NDArray[np.float64]) -> float:
    games = -(wins * np.logaddexp(0.0, theta[None, :] - theta[:, None])).sum()
    draws = -0.5 * _PRIOR * (np.logaddexp(0.0, theta) + np.logaddexp(0.0, -theta)).sum()
    return float(games + draws)


def _sigmoid(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    p: npt.NDArray[np.float64] = 0.5 * (1.0 + np.tanh(0.5 * x))
    return p
