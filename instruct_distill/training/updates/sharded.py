"""What the launches have in common that spread the weights, or the optimizer, over the processes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch

from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.training.processes import process_state
from instruct_distill.training.updates.skeleton import fill, skeleton
from instruct_distill.training.updates.updater import Updater


class ShardedUpdater(Updater):
    """Trains a model of its own around the student's transformers model, and fills a new one at the end.

    Args:
        model: the student. After :meth:`finish` its transformers model is another object: with the trained
            weights on the CPU in the main process, without memory in the others.
    """

    in_lockstep = True

    def __init__(self, model: AnswerModel) -> None:
        self._student = model
        self._state = process_state()
        self._trained = skeleton(model.model)
        self._wrapped: AnswerModel = type(model)(model.model, model.pad_id)

    @property
    def device(self) -> torch.device:
        """See :class:`Updater`."""
        device: torch.device = self._state.device
        return device

    @abstractmethod
    def gather(self) -> Mapping[str, torch.Tensor]:
        """Return the trained weights on the CPU in the main process, by name; every process calls it."""

    @abstractmethod
    def free(self) -> None:
        """Let go of weights, gradients and optimizer."""

    def finish(self) -> None:
        """See :class:`Updater`."""
        weights = self.gather()
        self.free()
        if self._state.is_main_process:
            prefix = "model."  # of the transformers model in the one that is trained
            fill(self._trained, {name.removeprefix(prefix): weight for name, weight in weights.items()})
        self._student.model = self._trained
