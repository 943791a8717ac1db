"""Optimizer steps, and the learning rate as a function of them."""

from __future__ import annotations

from instruct_distill.training.parameters import TrainingParameters


def learning_rate(parameters: TrainingParameters, step: int, total: int) -> float:
    """Return the rate of a step: the same on one process and on eight, with any accumulation.

    Args:
        parameters: peak rate, warm-up and schedule.
        step: optimizer steps done before this one.
        total: optimizer steps of the whole run.
    """
    done = step + 1
    peak, warmup = parameters.learning_rate, parameters.warmup_steps
    if done <= warmup:
        return peak * done / warmup
    if parameters.schedule == "constant":
        return peak
    return peak * max(total - done, 0) / max(total - warmup, 1)


def steps_per_epoch(lists: int, lists_per_step: int) -> int:
    """Return the number of optimizer steps in an epoch; the last one may hold fewer lists."""
    return -(-lists // lists_per_step)
