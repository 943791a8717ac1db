"""The systems of one task side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from instruct_distill.errors import InputError
from instruct_distill.evaluation.ranker import Timing
from instruct_distill.evaluation.results import Evaluation
from instruct_distill.evaluation.significance import Interval, paired_interval

Differences = dict[str, dict[str, dict[str, Interval]]]
"""System → an earlier system → metric → the mean of the first minus the second, with its interval."""


@dataclass(frozen=True)
class TaskResult:
    """Everything that was found out on one task.

    Args:
        name: the task's name, which is also its folder.
        evaluations: system → evaluation; the first is what the others are compared with.
        ceiling: metric → the best mean that any order of the candidates can have.
        timings: system → time taken; systems that were not measured are left out.
        differences: between every two systems.
        random_order: metric → the mean over all orders, in closed form; for recommendations, else empty.
        notes: what a reader must know of the task, such as what popularity counts.
    """

    name: str
    evaluations: dict[str, Evaluation]
    ceiling: dict[str, float]
    timings: dict[str, Timing] = field(default_factory=dict)
    differences: Differences = field(default_factory=dict)
    random_order: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def compare_systems(evaluations: Mapping[str, Evaluation], *, seed: int) -> Differences:
    """Return the paired difference, with its 95% interval, between each system and each one before it.

    Raises:
        InputError: two systems were not evaluated on the same queries.
    """
    names = list(evaluations)
    differences: Differences = {}
    for position, system in enumerate(names[1:], start=1):
        differences[system] = {}
        for earlier in names[:position]:
            one, other = evaluations[system], evaluations[earlier]
            if one.means.keys() != other.means.keys():
                raise InputError(f"{system} and {earlier} were not evaluated with the same metrics")
            differences[system][earlier] = {
                metric: paired_interval(one.values(metric), other.values(metric), seed=seed)
                for metric in one.means
            }
    return differences
