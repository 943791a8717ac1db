"""Table 3 of arXiv 2311.01555: mean nDCG@10 over eight BEIR tasks.

    instruct-distill evaluate MODEL beir-paper beir-signal1m=beir:FOLDER beir-trec-news=beir:FOLDER \\
        beir-robust04=beir:FOLDER --output out/distilled-large
    python scripts/reproduce/table3.py distilled-large=out/distilled-large

Paper, ours and their difference side by side, then each task's figure. The mean is printed only where all
eight tasks are there with all of their queries; BM25's is taken from the first of the folders.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cells import Cell, cells_table, percent, summary_of
from published import TABLE_3

from instruct_distill.evaluation.tasks import SUITES, TASKS

METRIC = "nDCG@10"
NAMES = SUITES["beir-paper"].tasks
LICENSED = tuple(name for name in NAMES if TASKS[name].collection is None)


def figures(found: Mapping[str, Any], system: str) -> dict[str, float]:
    """Task → nDCG@10 in percent, of the suite's tasks that are there."""
    return {name: percent(found[name][system], [METRIC])[METRIC] for name in NAMES if name in found}


def missing(found: Mapping[str, Any]) -> list[str]:
    """Why there is no mean: tasks that are not there, or not with all of their queries."""
    problems = [f"{name} is missing" for name in NAMES if name not in found]
    for name in NAMES:
        if name in found:
            about = found["_meta"]["tasks"][name]
            queries = about["queries"] + (
                0 if about["all_judged"] else about["queries_with_only_zero_grades"]
            )
            if queries != TASKS[name].queries:
                problems.append(f"{name} has {queries} of {TASKS[name].queries} queries")
    return problems


def system_of(found: Mapping[str, Any]) -> str:
    """The student of a run, or the reranker of an evaluation."""
    systems = next(figures for name, figures in found.items() if name != "_meta")
    return "student" if "student" in systems else "reranker"


def cells_of(row: str, found: Mapping[str, Any], system: str) -> list[Cell]:
    """The mean, and each task's figure."""
    problems = missing(found)
    ours = figures(found, system)
    mean = None if problems else sum(ours.values()) / len(ours)
    cells = [Cell(row, "mean of 8", TABLE_3.get(row), mean, "; ".join(problems) or "all eight tasks")]
    return cells + [Cell(row, name, None, value, "") for name, value in ours.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "results",
        nargs="*",
        metavar="ROW=FOLDER",
        help=f"a finished evaluation; rows of the paper: {', '.join(TABLE_3)}",
    )
    chosen = parser.parse_args(arguments)
    given: dict[str, dict[str, Any]] = {}
    for each in chosen.results:
        row, equals, folder = each.partition("=")
        found = summary_of(Path(folder)) if equals else None
        if found is None:
            parser.error(f"{each}: expected ROW=FOLDER with the summary.json of 'evaluate --output' or a run")
        given[row] = found
    cells = []
    if given:
        cells += cells_of("bm25", next(iter(given.values())), "first_stage")
    for row, found in given.items():
        cells += cells_of(row, found, system_of(found))
    done = {cell.row for cell in cells}
    model = "its model, and 'instruct-distill evaluate MODEL beir-paper ... --output FOLDER'"
    for row, paper in TABLE_3.items():
        if row not in done:
            quoted = row.startswith(("cohere", "rankgpt"))
            cells.append(Cell(row, "mean of 8", paper, None, "quoted from the paper" if quoted else model))
    print(cells_table(cells))
    print(f"\n{', '.join(LICENSED)} are licensed: {TASKS[LICENSED[0]].obtain}")


if __name__ == "__main__":
    main()
