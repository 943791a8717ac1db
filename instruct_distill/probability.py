"""A score as a probability: the chance of a document to beat a random candidate of the same query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit

from instruct_distill.errors import InputError
from instruct_distill.inference.engine import FloatArray
from instruct_distill.schema import parameters


@parameters
class Calibration:
    """σ(slope · score + intercept), fitted to a teacher's win rates."""

    slope: float
    """Per logit; above 0."""
    intercept: float
    """At a score of 0."""
    lists: int
    """Held-back lists that it was fitted on."""
    documents: int
    """Their documents."""


def win_rates(scores: Sequence[float], *, sums: bool) -> list[float]:
    """Return the chance of each document of a list to beat another one, by the teacher.

    Args:
        scores: the teacher's scores of the list.
        sums: the scores are sums of choices over both orders of every pair, 0 to 2(n−1); otherwise only their
            order is used, ties counting a half.
    """
    n = len(scores)
    if n < 2:
        return [0.5] * n
    if sums:
        return [score / (2 * (n - 1)) for score in scores]
    values = np.asarray(scores, dtype=np.float64)
    above = (values[:, None] > values[None, :]).sum(axis=1)
    equal = (values[:, None] == values[None, :]).sum(axis=1) - 1
    return [float(rate) for rate in (above + 0.5 * equal) / (n - 1)]


def fit(scores: Sequence[Sequence[float]], rates: Sequence[Sequence[float]]) -> Calibration:
    """Fit slope and intercept by the cross-entropy to win rates.

    Args:
        scores: the student's scores of each list's documents.
        rates: what they should be, from 0 to 1.

    Raises:
        InputError: there is no document, or the scores order documents the other way round.
    """
    s = np.array([score for each in scores for score in each], dtype=np.float64)
    t = np.array([rate for each in rates for rate in each], dtype=np.float64)
    if not len(s):
        raise InputError("probabilities cannot be fitted without held-back lists (training.dev.held_back)")
    centre, spread = float(s.mean()), float(s.std()) or 1.0
    z = (s - centre) / spread

    def loss(x: np.ndarray) -> float:
        logits = x[0] * z + x[1]
        return float(np.mean(np.logaddexp(0.0, logits) - t * logits))

    def gradient(x: np.ndarray) -> np.ndarray:
        residual = expit(x[0] * z + x[1]) - t
        return np.array([np.mean(residual * z), np.mean(residual)])

    found = minimize(loss, np.array([1.0, 0.0]), jac=gradient, method="BFGS").x
    if found[0] <= 0:
        raise InputError(
            "the student's scores do not rise with the teacher's win rates on the held-back lists, so no "
            "probability can be made of them"
        )
    slope = float(found[0] / spread)
    return Calibration(
        slope=slope, intercept=float(found[1] - slope * centre), lists=len(scores), documents=len(s)
    )


def probabilities(scores: FloatArray, calibration: Calibration | None) -> npt.NDArray[np.float64]:
    """Return probabilities of scores: σ(score) where nothing was fitted.

    In float64: in float32 every logit above 17 would be a probability of 1.
    """
    logits = np.asarray(scores, dtype=np.float64)
    if calibration is not None:
        logits = calibration.slope * logits + calibration.intercept
    found: npt.NDArray[np.float64] = expit(logits)
    return found
