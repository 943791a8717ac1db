"""Figure 1 of arXiv 2311.01555: nDCG@10, mean of DL 2019 and 2020, against speed relative to monoT5-base.

    python scripts/reproduce/table2.py ...
    python scripts/reproduce/figure1.py --ours runs/table2/table2.json --output figure1.svg

The paper's points are those of its table 2, hollow; ours are filled. Our times are relative to our own
monoT5-base, or to another row of ours that --reference names where that model is not there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cells import Cell, cells_table
from matplotlib.figure import Figure
from published import QUERIES, REFERENCE, TABLE_2

from instruct_distill.files import read_json

METRIC = "nDCG@10"
METHODS = ("supervised", "relevance_generation", "allpairs", "distilled")
COLOURS = ("#0072b2", "#b34700", "#007a5a", "#8a4a78")
MARKERS = ("o", "s", "^", "D")


class Point(NamedTuple):
    """One row: its speed, relative to the reference, and nDCG@10 in percent."""

    row: str
    method: str
    speed: float
    ndcg: float


def papers_points() -> list[Point]:
    """The rows of table 2 that have a time."""
    reference = next(row.seconds for row in TABLE_2 if row.key == REFERENCE)
    assert reference is not None
    return [
        Point(row.key, row.method, reference / row.seconds, (row.dl19[2] + row.dl20[2]) / 2)
        for row in TABLE_2
        if row.seconds is not None
    ]


def our_points(found: dict[str, Any], reference: str) -> list[Point]:
    """The measured rows, relative to one of them.

    Raises:
        KeyError: the reference was not measured.
    """
    methods = {row.key: row.method for row in TABLE_2}

    def seconds(row: str) -> float | None:
        times = [found[row][task]["seconds"] for task in QUERIES]
        return None if None in times else sum(times) / len(times)

    unit = seconds(reference)
    if unit is None:
        raise KeyError(reference)
    return [
        Point(
            row, methods[row], unit / time, sum(found[row][task][METRIC] for task in QUERIES) / len(QUERIES)
        )
        for row in found
        if (time := seconds(row)) is not None
    ]


def draw(paper: Sequence[Point], ours: Sequence[Point], reference: str, output: Path) -> None:
    """Draw one curve a method."""
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for method, colour, marker in zip(METHODS, COLOURS, MARKERS, strict=True):
        for points, filled, of in ((paper, False, "paper"), (ours, True, "here")):
            chosen = sorted(point for point in points if point.method == method)
            if chosen:
                axes.plot(
                    [point.speed for point in chosen],
                    [point.ndcg for point in chosen],
                    marker=marker,
                    linestyle="-" if filled else "--",
                    color=colour,
                    markerfacecolor=colour if filled else "white",
                    label=f"{method.replace('_', ' ')}, {of}",
                )
    axes.set_xscale("log")
    axes.set_xlabel(f"speed relative to {reference}")
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
    parser.add_argument("--reference", default=REFERENCE, help="the row of ours whose speed is 1")
    parser.add_argument("--output", type=Path, default=Path("figure1.svg"))
    chosen = parser.parse_args(arguments)
    paper = papers_points()
    ours: list[Point] = []
    if chosen.ours is not None:
        found = read_json(chosen.ours)
        try:
            ours = our_points(found, chosen.reference)
        except KeyError:
            timed = [row for row in found if all(found[row][task]["seconds"] for task in QUERIES)]
            parser.error(
                f"{chosen.reference} has no time in {chosen.ours}: measure it with table2.py --rows "
                f"{chosen.reference}, or name another by --reference ({', '.join(timed) or 'none has one'})"
            )
    values = {point.row: point for point in ours}
    cells = []
    for point in paper:
        own = values.get(point.row)
        about = "" if own else f"table2.py, row {point.row}"
        cells += [
            Cell(point.row, "nDCG@10", point.ndcg, own.ndcg if own else None, about),
            Cell(point.row, "speed", point.speed, own.speed if own else None, about),
        ]
    print(cells_table(cells, digits=3))
    draw(paper, ours, chosen.reference if ours else REFERENCE, chosen.output)
    print(f"\nwritten: {chosen.output}")


if __name__ == "__main__":
    main()
