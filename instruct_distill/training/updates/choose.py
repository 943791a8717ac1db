"""Which kind of launch this is."""

from __future__ import annotations

from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.training.parameters import TrainingParameters
from instruct_distill.training.updates.plain import PlainUpdater
from instruct_distill.training.updates.updater import Updater


def make_updater(model: AnswerModel, parameters: TrainingParameters) -> Updater:
    """Return what holds and changes a model's weights under this launch."""
    return PlainUpdater(model, parameters)
