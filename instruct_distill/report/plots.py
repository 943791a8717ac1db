"""The plots of a report, as SVG that takes its colours from the page: light, dark or print."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from instruct_distill.evaluation.significance import Interval

INK = "#010203"
FAINT = "#020304"
SERIES = ("#030405", "#040506", "#050607", "#060708", "#070809")
"""Stand-ins: matplotlib draws with them, and the page's own colours are put in their places."""

_DECADES_FROM = 5.0
"""Costs that differ by a larger factor are drawn on a logarithmic axis."""

_MARKERS = ("o", "s", "^", "D", "v")
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the page's font
    "svg.hashsalt": "instruct_distill",  # the same plot gives the same file
    "text.parse_math": False,  # a name with two dollar signs is no formula
    "font.size": 10.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
}


class Point(NamedTuple):
    """A system in a plane.

    Args:
        name: what stands beside it.
        x: time, or size.
        y: the metric.
        series: which colour and marker.
    """

    name: str
    x: float
    y: float
    series: int


def means(metric: str, systems: Sequence[str], values: Sequence[Interval], ceiling: float) -> str:
    """Draw each system's mean with its interval, and the best that the candidates allow."""
    with mpl.rc_context(_SETTINGS):
        figure, axes = _axes(height=0.7 + 0.42 * len(systems))
        places = np.arange(len(systems))[::-1]
        for place, value, series in zip(places, values, range(len(systems)), strict=True):
            low = value.mean if value.low is None else value.low
            high = value.mean if value.high is None else value.high
            colour = SERIES[series % len(SERIES)]
            axes.plot([low, high], [place, place], color=colour, linewidth=2)
            axes.plot(value.mean, place, _MARKERS[series % len(_MARKERS)], color=colour, markersize=8)
        axes.axvline(ceiling, color=INK, linestyle=":", linewidth=1)
        axes.set_yticks(places, systems)
        axes.set_ylim(-0.6, len(systems) - 0.4)
        axes.set_xlabel(f"{metric}, with 95% intervals; dotted: best order of the candidates")
        return _svg(figure)


def plane(points: Sequence[Point], x_label: str, y_label: str) -> str:
    """Draw systems by cost and value."""
    with mpl.rc_context(_SETTINGS):
        figure, axes = _axes(height=3.4)
        for point in points:
            axes.plot(
                point.x,
                point.y,
                _MARKERS[point.series % len(_MARKERS)],
                color=SERIES[point.series % len(SERIES)],
                markersize=9,
            )
            axes.annotate(point.name, (point.x, point.y), xytext=(8, 4), textcoords="offset points")
        axes.margins(x=0.25, y=0.15)
        costs = [point.x for point in points]
        if max(costs) > _DECADES_FROM * min(costs):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            # plain numbers: a factor of 30 is no power of ten
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.xaxis.set_minor_formatter(lambda value, _: "")
        else:
            axes.set_xlim(left=0.0)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        return _svg(figure)


def gains(differences: Sequence[float], label: str) -> str:
    """Draw the difference of each query, largest gain first."""
    with mpl.rc_context(_SETTINGS):
        figure, axes = _axes(height=2.6)
        ordered = np.sort(np.asarray(differences))[::-1]
        above = np.where(ordered > 0, ordered, 0.0)
        places = np.arange(len(ordered))
        axes.bar(places, above, width=1.0, color=SERIES[0])
        axes.bar(places, np.minimum(ordered, 0.0), width=1.0, color=SERIES[1], hatch="///", edgecolor=INK)
        axes.axhline(0.0, color=INK, linewidth=0.8)
        axes.set_xlabel(f"queries: {int((ordered > 0).sum())} gained, {int((ordered < 0).sum())} lost")
        axes.set_ylabel(label)
        return _svg(figure)


def curve(steps: Sequence[int], losses: Sequence[float], window: int) -> str:
    """Draw the training loss of every step, and its mean over some steps before each."""
    with mpl.rc_context(_SETTINGS):
        figure, axes = _axes(height=2.6)
        axes.plot(steps, losses, color=FAINT, linewidth=1)
        smooth = [float(np.mean(losses[max(0, i - window + 1) : i + 1])) for i in range(len(losses))]
        axes.plot(steps, smooth, color=SERIES[0], linewidth=2)
        axes.set_xlabel("optimizer step")
        axes.set_ylabel(f"loss (mean of {window})")
        return _svg(figure)


def _axes(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(7.0, height), layout="constrained")
    return figure, figure.add_subplot()


def _svg(figure: Figure) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    for stand_in, name in ((INK, "ink"), (FAINT, "faint"), *zip(SERIES, "abcde", strict=True)):
        text = text.replace(stand_in, f"var(--{name})")
    return text
