"""Which kind of launch this is."""

from __future__ import annotations

from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.training.parameters import TrainingParameters
from instruct_distill.training.processes import launched_with
from instruct_distill.training.updates.plain import PlainUpdater
from instruct_distill.training.updates.updater import Updater


def make_updater(model: AnswerModel, parameters: TrainingParameters) -> Updater:
    """Return what holds and changes a model's weights under this launch.

    Raises:
        InputError: the launch configuration cannot be used.
        MissingExtraError: it asks for DeepSpeed, which is not installed.
    """
    # DeepSpeed is an extra, and each of the two is imported by the launch that asks for it only
    launcher = launched_with()
    if launcher == "deepspeed":
        from instruct_distill.training.updates.deepspeed import DeepSpeedUpdater

        return DeepSpeedUpdater(model, parameters)
    if launcher == "fsdp":
        from instruct_distill.training.updates.fsdp import FsdpUpdater

        return FsdpUpdater(model, parameters)
    return PlainUpdater(model, parameters)
