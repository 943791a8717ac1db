"""What the launches have in common that spread the weights, or the optimizer, over the processes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch

from instruct_distill.errors import InputError
from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.training.processes import process_state
from instruct_distill.training.updates.skeleton import fill, skeleton
from instruct_distill.training.updates.updater import Updater


class ShardedUpdater(Updater):
    """Changes the student into what a launch makes of it, and back at the end.

    Args:
        model: the student. While it is trained its classes, hooks and parameters are the launch's. After
            :meth:`finish` it is what it was: with the trained weights, on the CPU, in the main process, and
            without memory for weights in the others.

    Raises:
        InputError: the weights are quantised.
    """

    in_lockstep = True

    def __init__(self, model: AnswerModel) -> None:
        if not all(parameter.is_floating_point() for parameter in model.parameters()):
            raise InputError(
                "quantised weights (student.lora.quantize) cannot be spread over processes; launch with "
                "recipes/launch/gpu.yaml or multi-gpu.yaml"
            )
        self._model = model
        self._state = process_state()
        self._before = skeleton(model)

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
            fill(self._before, weights)
        # FSDP has changed the class too
        self._model.__class__ = type(self._before)
        self._model.__dict__ = self._before.__dict__
