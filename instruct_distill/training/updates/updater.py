"""What the training loop asks of the weights, whoever holds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import torch

from instruct_distill.prompts.answers import EncodedAnswers
from instruct_distill.training.processes import most_over_processes


class Updater(ABC):
    """Owns the weights that are trained, their gradient and the optimizer, under one kind of launch.

    A step is: calls of :meth:`forward`, each with gradients on followed by a :meth:`backward` (the last one
    with ``last``), then :meth:`step`.
    """

    kind: str
    """The kind of launch, as a checkpoint names it."""
    in_lockstep = False
    """Whether all processes must call the model the same number of times, each forward pass with gradients
    being followed by its backward pass: so it is where a weight is spread over them."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where this process computes."""

    def agree(self, count: int) -> int:
        """Return how often all processes call the model where this one needs ``count`` calls."""
        return most_over_processes(count, self.device) if self.in_lockstep else count

    @abstractmethod
    def forward(self, prompts: Sequence[Sequence[int]], answers: EncodedAnswers) -> torch.Tensor:
        """Call the model (see :class:`~instruct_distill.models.answer_model.AnswerModel`)."""

    @abstractmethod
    def backward(self, scores: torch.Tensor, gradient: torch.Tensor, *, last: bool) -> None:
        """Add this process's part to the gradient of the step.

        Args:
            scores: what was computed from :meth:`forward`, with its graph.
            gradient: the gradient of the step's loss on them; the step's gradient is the sum of all parts,
                over all processes.
            last: whether this is the last part of the step: where gradients can wait, they are exchanged
                between the processes only now.
        """

    @abstractmethod
    def step(self, rate: float) -> float:
        """Clip the gradient, change the weights and forget the gradient.

        Args:
            rate: the learning rate.

        Returns:
            the norm of the gradient before it was clipped; the caller stops where it is not finite.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write weights and optimizer into a folder that is there; every process calls it."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Read what :meth:`save` wrote; every process calls it.

        Raises:
            InputError: the files are damaged or belong to another model.
        """

    @abstractmethod
    def finish(self) -> None:
        """Leave the trained weights in the model, as it was before: no hooks, no gradients."""
