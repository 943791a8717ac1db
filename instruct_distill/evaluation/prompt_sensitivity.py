"""How much a ranker's figures hang on the wording of its prompt."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.evaluation.evaluate import side_by_side
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.ranker import Ranker
from instruct_distill.evaluation.table import aligned
from instruct_distill.evaluation.task import TaskResult


class Spread(NamedTuple):
    """One metric over several wordings.

    Args:
        mean: the mean of the wordings' means.
        deviation: their sample standard deviation.
        best: the wording with the highest mean.
        worst: that with the lowest.
    """

    mean: float
    deviation: float
    best: str
    worst: str


@dataclass(frozen=True)
class PromptSensitivity:
    """A task's figures under several wordings.

    Args:
        result: the first stage and every wording side by side, with paired differences.
        prompts: the names of the wordings, which are the systems of ``result``.
    """

    result: TaskResult
    prompts: tuple[str, ...]

    def spread(self, metric: str) -> Spread:
        """Return what the wordings make of one metric."""
        means = {name: self.result.evaluations[name].means[metric] for name in self.prompts}
        return Spread(
            statistics.fmean(means.values()),
            statistics.stdev(means.values()),
            max(means, key=means.__getitem__),
            min(means, key=means.__getitem__),
        )

    def table(self) -> str:
        """Return a line a metric: mean, deviation, the best wording and the worst one."""
        rows = [["over the prompts", "mean", "deviation", "best", "worst", "best - worst"]]
        for metric in self.result.ceiling:
            found = self.spread(metric)
            difference = (
                self.result.evaluations[found.best].means[metric]
                - self.result.evaluations[found.worst].means[metric]
            )
            rows.append(
                [
                    metric,
                    f"{found.mean:.4f}",
                    f"{found.deviation:.4f}",
                    found.best,
                    found.worst,
                    f"{difference:.4f}",
                ]
            )
        return "\n".join(aligned(rows, left=("best", "worst")))


def prompt_sensitivity(
    rankers: Mapping[str, Ranker], task: EvaluationParameters, *, seed: int = 13
) -> PromptSensitivity:
    """Evaluate one model under several wordings of its prompt on the same candidates.

    Args:
        rankers: name of the prompt → the model asked with it, such as ``reranker.with_prompt(name)``.
        task: the task.
        seed: for sampling and intervals.

    Raises:
        InputError: there are fewer than two wordings, or the task is not usable.
    """
    if len(rankers) < 2:
        raise InputError(f"{len(rankers)} prompt was given; a spread needs two or more")
    return PromptSensitivity(side_by_side(rankers, task, seed=seed), tuple(rankers))
