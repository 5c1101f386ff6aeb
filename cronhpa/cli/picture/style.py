"""What both pictures share: colours, sizes, where an instant lies, and how a mark is written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, DateFormatter, DayLocator, HourLocator

from cronhpa.cli.moments import local
from cronhpa.core.instant import DAY, HOUR, Nanoseconds, from_datetime
from cronhpa.core.scheduled.timeline import Kind, Mark, Timeline

FLOOR, CAP = "#1b6ca8", "#c4501b"
CONFLICT, CLOCK = "#d62728", "#6a3d9a"
EXCEPTION = "#4d4d4d"
_WEEKEND = "#f4f4f4"
INCHES_WIDE = 13.0
DOTS_PER_INCH = 130
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


def exceptions_of(line: Timeline) -> list[Mark]:
    """The days that `exclude` takes out and `only` leaves."""
    return [mark for mark in line.marks if mark.kind in {Kind.EXCLUDED, Kind.INCLUDED}]


def why(mark: Mark) -> str:
    """What names the days of an exception, such as `Christmas Day (DE-BY)`."""
    return mark.text.partition(": ")[2]


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


def weekends(begin: Nanoseconds, end: Nanoseconds, zone: str, *every: Axes) -> None:
    """Shade the local weekends between two instants in all axes."""
    day = local(begin, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    while day < local(end, zone):
        if day.isoweekday() == 6:  # noqa: PLR2004 - Saturday
            begins, ends = x_of(from_datetime(day)), x_of(from_datetime(day + timedelta(days=2)))
            for axes in every:
                axes.axvspan(begins, ends, facecolor=_WEEKEND, linewidth=0, zorder=0)
        day += timedelta(days=1)


def time_axis(axes: Axes, span: Nanoseconds, zone: str) -> None:
    """Local times: days with their weekday as long as they fit."""
    info = ZoneInfo(zone)
    if span <= 2 * DAY:
        axes.xaxis.set_major_locator(HourLocator(interval=max(1, span // (12 * HOUR)), tz=info))
        axes.xaxis.set_major_formatter(DateFormatter("%H:%M\n%a %d %b", tz=info))
    elif span <= 16 * DAY:
        axes.xaxis.set_major_locator(DayLocator(tz=info))
        axes.xaxis.set_major_formatter(DateFormatter("%a\n%d %b", tz=info))
        axes.xaxis.set_minor_locator(HourLocator(byhour=[6, 12, 18], tz=info))
    else:
        locator = AutoDateLocator(tz=info)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=info))
