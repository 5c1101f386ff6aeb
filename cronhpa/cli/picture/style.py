"""What both pictures share: colours, sizes, where an instant lies, and how a mark is written."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from cronhpa.core.instant import DAY, Nanoseconds
from cronhpa.core.scheduled.timeline import Kind, Timeline

FLOOR, CAP = "#1b6ca8", "#c4501b"
CONFLICT, CLOCK = "#d62728", "#6a3d9a"
INCHES_WIDE = 13.0
# Names of more marks would lie on each other.
MARKS_NAMED_MAX = 24
# What is written at a mark behind this share of the width would leave the picture on the right.
_LATE = 0.85
# As wide as a name is: of two marks that are nearer to each other, the later is named one line lower.
_NEAR = 0.16

RC: Any = {
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text: it can be searched and read aloud
    "svg.hashsalt": "cronhpa",  # the same timeline, the same bytes
    "hatch.linewidth": 0.6,
}


def x_of(at: Nanoseconds) -> float:
    """Where an instant lies: matplotlib counts days since 1970 in UTC, and its ticks know the zone."""
    return at / DAY


def mark_clock_changes(line: Timeline, *axes: Axes) -> None:
    """Lines through all axes, named in the first."""
    span = line.end - line.start
    changes = [mark for mark in line.marks if mark.kind is Kind.CLOCK_CHANGE]
    lowered, last = 0, line.start - span
    for number, mark in enumerate(changes):
        for each in axes:
            each.axvline(x_of(mark.start), color=CLOCK, linewidth=1.1, linestyle=(0, (4, 2)), zorder=7)
        lowered = (lowered + 1) % 3 if mark.start - last < _NEAR * span else 0
        last = mark.start
        if number < MARKS_NAMED_MAX:
            text = mark.text.partition(";")[0].replace(": ", "\n", 1)
            ha = "right" if mark.start - line.start > _LATE * span else "left"
            write(axes[0], text, (x_of(mark.start), None), CLOCK, ha=ha, lowered=lowered)


def write(
    axes: Axes,
    text: str,
    at: tuple[float, float | None],
    color: str,
    *,
    weight: str = "normal",
    ha: str = "left",
    lowered: int = 0,
) -> None:
    """A text beside a point; a height of None is the top, or by `lowered` names below it."""
    x, y = at
    down = 2 + 24 * lowered
    axes.annotate(
        text, (x, 1 if y is None else y), xycoords=("data", "axes fraction" if y is None else "data"),
        xytext=(3 if ha == "left" else -3, -down if y is None else 2), textcoords="offset points", fontsize=7.5,
        color=color, fontweight=weight, ha=ha, va="top" if y is None else "bottom", zorder=8, annotation_clip=True,
    )  # fmt: skip
