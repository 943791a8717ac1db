"""Several tasks of one ranker, and the means over them that mean something."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from instruct_distill.evaluation.results import Evaluation
from instruct_distill.evaluation.table import aligned
from instruct_distill.evaluation.task import TaskResult
from instruct_distill.evaluation.tasks import SUITES, TASKS, Suite


class TaskMean(NamedTuple):
    """The mean over tasks, each of the same weight.

    Args:
        title: what it is a mean of.
        tasks: their names.
        means: system → metric → mean.
    """

    title: str
    tasks: tuple[str, ...]
    means: dict[str, dict[str, float]]


@dataclass(frozen=True)
class TaskResults:
    """What was found out on several tasks.

    Args:
        tasks: task → result, in the order evaluated.
        means: the means over tasks.
        notes: why means that one might look for are not there.
    """

    tasks: dict[str, TaskResult]
    means: tuple[TaskMean, ...]
    notes: tuple[str, ...]

    def table(self) -> str:
        """Return the means and the notes as lines of text; empty where there are none."""
        blocks = []
        for mean in self.means:
            metrics = list(next(iter(mean.means.values())))
            rows = [
                [system, *(f"{found[metric]:.4f}" for metric in metrics)]
                for system, found in mean.means.items()
            ]
            blocks.append([mean.title, *aligned([["system", *metrics], *rows])])
        if self.notes:
            blocks.append(list(self.notes))
        return "\n\n".join("\n".join(block) for block in blocks)


def with_means(results: Sequence[TaskResult]) -> TaskResults:
    """Put results together with the mean of each suite that is there completely.

    Known tasks have a mean over their whole suite only, so that nobody takes the mean of five of BEIR's tasks
    for that of eight. Tasks of the user's own have the mean over all of them.
    """
    by_name = {result.name: result for result in results}
    means, notes = [], []
    for suite in SUITES.values():
        there = [by_name[name] for name in suite.tasks if name in by_name]
        if not suite.mean or len(there) < 2:
            continue
        problems = _problems(suite, by_name)
        if problems:
            notes.append(f"no {suite.mean}: {'; '.join(problems)}")
        else:
            means += _mean(suite.mean, there)
    if len(results) > 1 and not by_name.keys() & TASKS.keys():
        means += _mean(f"mean of these {len(results)} tasks", list(results))
    return TaskResults(by_name, tuple(means), tuple(notes))


def judged_queries(found: Evaluation) -> int:
    """Return the number of judged queries, counted in the mean or not."""
    return len(found.per_query) + (0 if found.all_judged else len(found.without_positive))


def _problems(suite: Suite, by_name: dict[str, TaskResult]) -> list[str]:
    missing = [name for name in suite.tasks if name not in by_name]
    problems = [f"without {', '.join(missing)}"] if missing else []
    for name in suite.tasks:
        if name in by_name:
            queries = judged_queries(next(iter(by_name[name].evaluations.values())))
            if queries != TASKS[name].queries:
                problems.append(f"{name} was evaluated on {queries} of {TASKS[name].queries} queries")
    return problems


def _mean(title: str, results: Sequence[TaskResult]) -> list[TaskMean]:
    """The mean of the systems and metrics that all tasks have; none where they share nothing."""
    first = results[0].evaluations
    systems = [name for name in first if all(name in result.evaluations for result in results)]
    metrics = [
        metric
        for metric in next(iter(first.values())).means
        if all(metric in result.ceiling for result in results)
    ]
    if not systems or not metrics:
        return []
    means = {
        system: {
            metric: math.fsum(result.evaluations[system].means[metric] for result in results) / len(results)
            for metric in metrics
        }
        for system in systems
    }
    return [TaskMean(title, tuple(result.name for result in results), means)]
