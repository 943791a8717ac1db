"""Figures of a paper beside those measured here, and what is missing for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from instruct_distill.evaluation.table import ABSENT, aligned
from instruct_distill.files import read_json


class Cell(NamedTuple):
    """One figure.

    Args:
        row: the system.
        column: task and metric.
        paper: what the paper has; None where it has none.
        ours: what was measured here; None where it was not.
        about: where ours comes from, or what it needs.
    """

    row: str
    column: str
    paper: float | None
    ours: float | None
    about: str


def cells_table(cells: Iterable[Cell], digits: int = 2) -> str:
    """Return the cells as lines of text: paper, ours and their difference side by side.

    What is said of a cell is not said again of the cell below it.
    """
    rows = [["system", "figure", "paper", "ours", "difference", "from, or what it needs"]]
    said = None
    for cell in cells:
        both = cell.paper is not None and cell.ours is not None
        rows.append(
            [
                cell.row,
                cell.column,
                ABSENT if cell.paper is None else f"{cell.paper:.{digits}f}",
                ABSENT if cell.ours is None else f"{cell.ours:.{digits}f}",
                f"{(cell.ours or 0.0) - (cell.paper or 0.0):+.{digits}f}" if both else ABSENT,
                cell.about if (cell.row, cell.about) != said else "",
            ]
        )
        said = (cell.row, cell.about)
    return "\n".join(aligned(rows, left=("figure", "from, or what it needs")))


def summary_of(folder: Path) -> dict[str, Any] | None:
    """Return ``summary.json`` of a finished run, or of ``evaluate --output``; None where there is none."""
    for file in (folder / "evaluation" / "summary.json", folder / "summary.json"):
        if file.is_file():
            return dict(read_json(file))
    return None


def percent(figures: Mapping[str, float], metrics: Sequence[str]) -> dict[str, float]:
    """Return the figures of a summary in percent."""
    return {metric: 100 * figures[metric] for metric in metrics if metric in figures}
