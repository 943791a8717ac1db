"""Each process holds the whole model: one process, or several that add up their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.prompts.answers import EncodedAnswers
from instruct_distill.training.master_weights import MasterWeights
from instruct_distill.training.parameters import TrainingParameters
from instruct_distill.training.processes import process_state, sum_over_processes
from instruct_distill.training.updates.adam_files import read_adam, write_adam
from instruct_distill.training.updates.updater import Updater


class PlainUpdater(Updater):
    """Float32 weights and AdamW in each process; gradients are summed over the processes once a step.

    Args:
        model: the student, in the number format that is computed in; changed in place.
        parameters: weight decay and clipping.
    """

    kind = "plain"

    def __init__(self, model: AnswerModel, parameters: TrainingParameters) -> None:
        self._model = model
        self._clip = parameters.clip
        self._weights = MasterWeights(model)
        self._optimizer = torch.optim.AdamW(
            self._weights.masters,
            lr=parameters.learning_rate,
            weight_decay=parameters.weight_decay,
            fused=True,
        )

    @property
    def device(self) -> torch.device:
        """See :class:`Updater`."""
        return self._model.device

    def forward(self, prompts: Sequence[Sequence[int]], answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`Updater`."""
        logits: torch.Tensor = self._model(prompts, answers)
        return logits

    def backward(self, scores: torch.Tensor, gradient: torch.Tensor, *, last: bool) -> None:
        """See :class:`Updater`; the processes add up their gradients in :meth:`step`."""
        torch.autograd.backward(scores, gradient)

    def step(self, rate: float) -> float:
        """See :class:`Updater`; a gradient that is not finite changes nothing."""
        sum_over_processes(self._weights.gradients())
        if self._clip:
            norm = float(torch.nn.utils.clip_grad_norm_(self._weights.masters, self._clip))
        else:
            norm = float(torch.nn.utils.get_total_norm(list(self._weights.gradients())))
        if math.isfinite(norm):
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._optimizer.step()
            self._weights.publish()
        self._weights.forget_gradients()
        return norm

    def save(self, folder: Path) -> None:
        """See :class:`Updater`; all processes hold the same, and the main process writes it."""
        if not process_state().is_main_process:
            return
        write_adam(folder, self._masters, self._optimizer)

    def load(self, folder: Path) -> None:
        """See :class:`Updater`."""
        read_adam(folder, self._masters, self._optimizer)
        self._weights.publish()

    @property
    def _masters(self) -> dict[str, torch.nn.Parameter]:
        return {name: master for name, (_, master) in self._weights.named.items()}

    def finish(self) -> None:
        """See :class:`Updater`."""
        self._weights.release()
