"""Figure 2 of arXiv 2311.01555: nDCG@10, mean of DL 2019 and 2020, against the size of the model.

    python scripts/reproduce/figure2.py --runs runs --ours runs/table2/table2.json --output figure2.svg

The curves: relevance generation, all pairs, supervised training on 500,000 and on 10,000 queries,
distillation from the same size and from XL. The paper gives numbers for those of its points that are also in
table 2; the others are only drawn there. Ours are the finished runs of the recipes, and table2.py's rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cells import Cell, cells_table, percent, summary_of
from matplotlib.figure import Figure
from published import PARAMETERS, QUERIES, TABLE_2

from instruct_distill.files import read_json

METRIC = "nDCG@10"
ROOT = Path(__file__).resolve().parents[2]
COLOURS = ("#0072b2", "#b34700", "#007a5a", "#8a4a78", "#7a6500", "#444444")
MARKERS = ("o", "s", "^", "D", "v", "P")
CURVES = {
    "relevance generation": "relevance_generation-{size}",
    "all pairs": "allpairs-{size}",
    "supervised, 500k": "recipes/msmarco-flan-t5-{size}-supervised-500k.yaml",
    "supervised, 10k": "recipes/msmarco-flan-t5-{size}-supervised-10k.yaml",
    "distilled, same size": "recipes/msmarco-flan-t5-{size}.yaml",
    "distilled from XL": "recipes/msmarco-flan-t5-{size}-from-xl.yaml",
}
"""Curve → the row of table 2 or the recipe that gives a point."""


def place_of(curve: str, size: str) -> str:
    """The row of table 2 or the recipe that gives a point; from XL to XL is from the same size."""
    same = curve == "distilled from XL" and size == "xl"
    return CURVES["distilled, same size" if same else curve].format(size=size)


def papers_value(curve: str, size: str) -> float | None:
    """What table 2 says of a point, or None."""
    key = place_of(curve, size)
    if key == CURVES["distilled, same size"].format(size=size):
        key = f"distilled-{size}"
    row = next((row for row in TABLE_2 if row.key == key), None)
    return None if row is None else (row.dl19[2] + row.dl20[2]) / 2


def our_value(curve: str, size: str, runs: Path, rows: dict[str, Any]) -> float | None:
    """What was measured here, or None."""
    place = place_of(curve, size)
    if not place.startswith("recipes/"):
        values = [rows[place][task][METRIC] for task in QUERIES] if place in rows else []
    else:
        found = summary_of(runs / Path(place).stem)
        values = [percent(found[task]["student"], [METRIC])[METRIC] for task in QUERIES] if found else []
    return sum(values) / len(values) if values else None


def draw(cells: Sequence[Cell], output: Path) -> None:
    """Draw one curve a method, the paper's hollow and ours filled."""
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for curve, colour, marker in zip(CURVES, COLOURS, MARKERS, strict=True):
        of_curve = [cell for cell in cells if cell.row == curve]
        for points, filled, of in (
            ([(cell.column, cell.paper) for cell in of_curve], False, "paper"),
            ([(cell.column, cell.ours) for cell in of_curve], True, "here"),
        ):
            known = [(PARAMETERS[size], value) for size, value in points if value is not None]
            if known:
                axes.plot(
                    *zip(*known, strict=True),
                    marker=marker,
                    linestyle="-" if filled else "--",
                    color=colour,
                    markerfacecolor=colour if filled else "white",
                    label=f"{curve}, {of}",
                )
    axes.set_xscale("log")
    axes.set_xticks(list(PARAMETERS.values()), ["220M", "770M", "3B", "11B"], minor=False)
    axes.set_xlabel("weights of the model")
    axes.set_ylabel("nDCG@10, mean of DL 2019 and 2020 (%)")
    axes.grid(True, color="#d0d0d0")
    axes.legend(fontsize=8)
    figure.savefig(output)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, print the points, and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ours", type=Path, help="table2.json as table2.py writes it")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="where finished runs are")
    parser.add_argument("--output", type=Path, default=Path("figure2.svg"))
    chosen = parser.parse_args(arguments)
    rows = read_json(chosen.ours) if chosen.ours is not None else {}
    cells = []
    for curve in CURVES:
        for size in PARAMETERS:
            place = place_of(curve, size)
            ours = our_value(curve, size, chosen.runs, rows)
            paper = papers_value(curve, size)
            if ours is None and paper is None and not (ROOT / place).is_file():
                continue  # nobody has that point, and there is no recipe for it
            cells.append(Cell(curve, size, paper, ours, "" if ours is not None else f"needs {place}"))
    print(cells_table(cells))
    draw(cells, chosen.output)
    print(f"\nwritten: {chosen.output}")


if __name__ == "__main__":
    main()
