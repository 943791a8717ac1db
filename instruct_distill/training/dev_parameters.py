"""The recipe section ``training.dev``: how the student is watched while it is trained."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.registry import nearest
from instruct_distill.schema import parameters

AGREEMENT = ("kendall_tau", "top_1", "loss")
"""What is measured on held-back lists: the mean Kendall τ-b with the teacher, how often both have the same
document first, and the training loss."""


@parameters
class DevParameters:
    """Queries that are neither trained on nor tested: the best checkpoint is chosen on them.

    They are labelled lists that are held back, or a task with judgements of its own.
    """

    held_back: int = Field(default=0, ge=0)
    """Labelled lists that are kept out of training, drawn by the recipe's seed."""
    task: EvaluationParameters | None = None
    """A collection with judgements; none of its queries may be a query of the recipe's ``evaluation``."""
    metric: str = ""
    """What chooses: kendall_tau, top_1 or loss of held-back lists; a metric of the task, its first one where
    nothing is said."""
    direction: Literal["max", "min"] = "max"
    """Whether a larger or a smaller value is better; NaN never is."""
    every: int = Field(default=100, gt=0)
    """Optimizer steps between measurements; the last step is always measured."""
    patience: int | None = Field(default=None, gt=0)
    """Measurements in a row without a better one after which training stops; never where left out."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.held_back) == (self.task is not None):
            raise ValueError("dev is one of held_back: LISTS and task: {collection: ...}")
        known = list(AGREEMENT) if self.task is None else self.task.metrics
        if not self.metric:
            object.__setattr__(self, "metric", known[0])
        if self.metric not in known:
            raise ValueError(
                f"metric: unknown {self.metric!r}{nearest(self.metric, known)} "
                f"(known here: {', '.join(known)})"
            )
        if self.metric == "loss" and self.direction == "max":
            raise ValueError("metric loss needs direction: min")
        return self
