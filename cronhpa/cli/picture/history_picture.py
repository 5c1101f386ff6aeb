"""
An object's past as a picture, SVG or PNG: the replicas between their bounds, and the load below.

Drawn by matplotlib, which is imported with this file.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cronhpa.cli.picture.style import CAP, DOTS_PER_INCH, FLOOR, INCHES_WIDE, RC, time_axis, weekends, x_of
from cronhpa.cli.tables.time_format import format_moment
from cronhpa.core.model.instant import HOUR, Nanoseconds
from cronhpa.history.past.past_answers import TimelineAnswer
from cronhpa.history.past.points import POINT_STEP, Point

_READY, _DESIRED, _FORECAST, _LOAD, _BAND = "#8a8f98", "#222222", "#d98200", "#5b9bc8", "#dfeaf3"
_INCHES = (3.8, 1.5)
# The axis ends at so many times the largest count: up to a cap far above all replicas the curves would be flat.
_ROOM = 1.6


def draw(label: str, past: TimelineAnswer, begin: Nanoseconds, end: Nanoseconds, zone: str, path: Path) -> None:
    """Writes the picture in the format of the path's suffix. Raises OSError if the file cannot be written."""
    with rc_context(RC):
        figure = Figure(figsize=(INCHES_WIDE, sum(_INCHES) + 1.0), layout="constrained", facecolor="white")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=_INCHES)
        span = f"{format_moment(begin, zone)} to {format_moment(end, zone)}, {zone}"
        figure.suptitle(f"{label}    {span}", x=0.01, ha="left", fontsize=11, fontweight="bold")
        weekends(begin, end, zone, above, below)
        _replicas(past, end, above)
        _load(past.points, below)
        above.set_xlim(x_of(begin), x_of(end))
        time_axis(below, begin, end, zone)
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Date": None} if path.suffix == ".svg" else None)


def _replicas(past: TimelineAnswer, end: Nanoseconds, axes: Axes) -> None:
    points = past.points
    x, floors = _line(points, "floor")
    _, caps = _line(points, "cap")
    axes.fill_between(x, floors, caps, step="post", color=_BAND, linewidth=0, zorder=1)
    axes.step(x, caps, where="post", color=CAP, linewidth=1.2, zorder=2, label=_cap_label(points))
    axes.step(x, floors, where="post", color=FLOOR, linewidth=1.4, zorder=3, label="floor: minReplicas in force")
    for field, color, style, name in (
        ("forecast", _FORECAST, (0, (4, 2)), "forecast asks for"),
        ("ready", _READY, "solid", "ready pods"),
    ):
        if any(getattr(point, field) is not None for point in points):
            axes.step(
                *_line(points, field), where="post", color=color, linestyle=style, linewidth=1.1, zorder=4, label=name
            )
    changes = [change for change in (past.before, *past.changes) if change is not None]
    counts = [change.desired for change in changes if change.desired is not None]
    if counts:
        edges = [*(x_of(change.at) for change in changes if change.desired is not None), x_of(end)]
        axes.step(
            edges,
            [*counts, counts[-1]],
            where="post",
            color=_DESIRED,
            linewidth=1.8,
            zorder=5,
            label="desired replicas",
        )
    largest = max((*(point.replicas for point in points), *counts), default=1)
    floor = max((point.floor for point in points), default=0)
    axes.set_ylim(0, max(largest, floor, 1) * _ROOM)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("replicas")
    axes.grid(axis="y", color="#e3e3e3", linewidth=0.6, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5, frameon=False)


def _cap_label(points: list[Point]) -> str:
    """The label with the cap's number, as a cap far above the replicas lies outside of the picture."""
    numbers = sorted({point.cap for point in points})
    shown = f" ({numbers[0]} to {numbers[-1]})" if len(numbers) > 1 else "".join(f" ({number})" for number in numbers)
    return f"cap: maxReplicas in force{shown}"


def _load(points: list[Point], axes: Axes) -> None:
    x, loads = _line(points, "load")
    axes.fill_between(x, loads, step="post", color=_LOAD, alpha=0.5, linewidth=0)
    axes.set_ylim(0, None)
    axes.set_ylabel("load")
    axes.spines[["top", "right"]].set_visible(False)


def _line(points: list[Point], field: str) -> tuple[list[float], list[float]]:
    """x and y of a line that breaks where two points are further apart than hourly points are."""
    x: list[float] = []
    y: list[float] = []
    for point, later in pairwise([*points, None]):
        assert point is not None
        value = getattr(point, field)
        x.append(x_of(point.at))
        y.append(math.nan if value is None else value)
        if later is None or later.at - point.at > HOUR + POINT_STEP:
            # The last point before a gap holds for its step.
            x += [x_of(point.at + POINT_STEP)] * 2
            y += [y[-1], math.nan]
    return x, y
