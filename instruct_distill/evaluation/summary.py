"""``evaluation/summary.json``: the figures of every task, and what is needed to trust them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from instruct_distill.errors import InputError
from instruct_distill.evaluation.task import TaskResult
from instruct_distill.files import write_json
from instruct_distill.version import __version__

META = "_meta"


def summary(results: Sequence[TaskResult], *, about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the content of ``summary.json``: task → system → metric → mean, and ``_meta``.

    Everything but ``_meta.seconds_per_query`` is the same for the same runs.

    Args:
        results: the tasks, in the recipe's order.
        about: more entries of ``_meta`` (such as ``contamination``).

    Raises:
        InputError: two tasks have one name, or a name is taken by the file's own entries.
    """
    names = [result.name for result in results]
    for name in names:
        if name == META:
            raise InputError(f"a task cannot be called {META!r}; give it another 'name'")
        if names.count(name) > 1:
            raise InputError(f"{names.count(name)} tasks are called {name!r}; give each its own 'name'")
    own: dict[str, Any] = {
        "library_version": __version__,
        "tasks": {result.name: _about_task(result) for result in results},
        "seconds_per_query": {
            result.name: {system: timing._asdict() for system, timing in result.timings.items()}
            for result in results
        },
    }
    taken = sorted(own.keys() & (about or {}).keys())
    if taken:
        raise InputError(f"_meta entries {', '.join(taken)} are written by the summary itself")
    figures: dict[str, Any] = {
        result.name: {system: dict(found.means) for system, found in result.evaluations.items()}
        for result in results
    }
    return {**figures, META: {**own, **(about or {})}}


def write_summary(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write what `summary` returned, complete or not at all."""
    write_json(path, content)


def check_expected(
    found: Mapping[str, Mapping[str, float]], expected: Mapping[str, Mapping[str, float]], tolerance: float
) -> list[str]:
    """Compare one task's figures with those that its recipe expects.

    Args:
        found: system → metric → mean.
        expected: system → metric → the figure that should come out.
        tolerance: the largest difference that passes, both ways.

    Returns:
        one line for each figure that is missing or too far away; empty if all is as expected.
    """
    failures = []
    for system, metrics in expected.items():
        for metric, figure in metrics.items():
            value = found.get(system, {}).get(metric)
            if value is None:
                failures.append(f"{system} {metric}: expected {figure:.4f}, but it was not evaluated")
            # A hair more than the tolerance, so that 0.69 with 0.01 passes for 0.70 in binary, too.
            elif not abs(value - figure) <= tolerance + 1e-9:
                failures.append(
                    f"{system} {metric}: expected {figure:.4f} within {tolerance:g}, found {value:.4f} "
                    f"({value - figure:+.4f})"
                )
    return failures


def _about_task(result: TaskResult) -> dict[str, Any]:
    first = next(iter(result.evaluations.values()))
    return {
        "queries": len(first.per_query),
        "queries_with_only_zero_grades": len(first.without_positive),
        "queries_without_candidates": len(first.without_documents),
        "queries_without_judgements": len(first.without_qrels),
        "all_judged": first.all_judged,
        "relevance_level": first.relevance_level,
        "recall_ceiling": dict(result.ceiling),
        **({"random_order": dict(result.random_order)} if result.random_order else {}),
        **({"notes": list(result.notes)} if result.notes else {}),
        "judged_at_10": {system: found.judged_at_10 for system, found in result.evaluations.items()},
        "ties": {system: found.ties for system, found in result.evaluations.items()},
        "significance": {
            system: {
                earlier: {
                    metric: {"difference": value.mean, "low": value.low, "high": value.high}
                    for metric, value in metrics.items()
                }
                for earlier, metrics in others.items()
            }
            for system, others in result.differences.items()
        },
    }
