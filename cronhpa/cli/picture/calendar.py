"""
A picture of months: a column for each local day, hours from top to bottom, a colour for each bound with its source.

The floor is above, the cap below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from typing import TypeAlias

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from cronhpa.cli.picture.style import (
    CONFLICT,
    EXCEPTION,
    INCHES_WIDE,
    MARKS_NAMED_MAX,
    Labels,
    exceptions_of,
    mark_clock_changes,
    mondays,
    named,
    why,
)
from cronhpa.cli.tables.bounds_table import BoundsSubject
from cronhpa.cli.tables.time_format import local
from cronhpa.core.model.instant import HOUR, Nanoseconds, from_datetime
from cronhpa.core.schedules.timeline import BoundsInterval, clock_changes

_INCHES_HIGH = 7.0
_LEGEND_MAX = 14

_EPOCH = date(1970, 1, 1).toordinal()

Bound: TypeAlias = tuple[int, str]


def draw_calendar(subject: BoundsSubject) -> tuple[Figure, Labels]:
    line, labels = subject.timeline, Labels()
    figure = Figure(figsize=(INCHES_WIDE, _INCHES_HIGH), layout="constrained")
    # A single colour is seen at a small height, too.
    heights = [
        1.0 if len({number_of(segment) for segment in line.segments}) > 1 else 0.2 for number_of in (_floor, _cap)
    ]
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    _hours(subject, above, "floor: minReplicas in force", "Blues", _floor)
    _hours(subject, below, "cap: maxReplicas in force", "Oranges", _cap)
    mark_clock_changes(line, labels, above, below)
    _exceptions(subject, labels, above)
    first, last = (local(at, subject.zone).date() for at in (line.start, line.end - 1))
    above.set_xlim(_column(first), _column(last) + 1)
    mondays(below, line.end - line.start)
    return figure, labels


def _floor(segment: BoundsInterval) -> Bound:
    return segment.minimum, str(segment.minimum_by)


def _cap(segment: BoundsInterval) -> Bound:
    return segment.maximum, str(segment.maximum_by)


def _hours(
    subject: BoundsSubject, axes: Axes, title: str, colors: str, bound_of: Callable[[BoundsInterval], Bound]
) -> None:
    """Fills the hours of each day with the colour of their bound, a larger one darker; conflicts are hatched."""
    segments = subject.timeline.segments
    bounds = sorted({bound_of(interval) for interval in segments})
    shades = colormaps[colors]
    # The palest tenth of a colour map cannot be told from the paper.
    color = {bound: shades(0.12 + 0.8 * number / max(len(bounds) - 1, 1)) for number, bound in enumerate(bounds)}
    cells: dict[Bound, list[Rectangle]] = {bound: [] for bound in bounds}
    conflicts: list[Rectangle] = []
    for segment, day, hour, hours in pieces(subject):
        cell = Rectangle((_column(day), hour), 1, hours)
        cells[bound_of(segment)].append(cell)
        if segment.conflict:
            conflicts.append(cell)
    for bound, of_bound in cells.items():
        axes.add_collection(PatchCollection(of_bound, facecolor=color[bound], edgecolor="none", antialiaseds=False))
    axes.add_collection(PatchCollection(conflicts, facecolor="none", edgecolor=CONFLICT, hatch="xxxx", linewidth=0.8))
    axes.set_ylim(24, 0)
    axes.set_yticks(range(0, 25, 6), [f"{hour:02d}:00" for hour in range(0, 25, 6)])
    axes.set_title(title, loc="left", fontsize=9)
    handles = [Patch(facecolor=color[bound], label=f"{bound[0]}  {named(bound[1])}") for bound in bounds]
    if len(handles) > _LEGEND_MAX:
        handles = [
            *handles[: _LEGEND_MAX - 1],
            Patch(facecolor="none", label=f"and {len(bounds) - _LEGEND_MAX + 1} more"),
        ]
    if conflicts:
        handles.append(Patch(facecolor="none", edgecolor=CONFLICT, hatch="xxxx", label="conflict"))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.005, 1), frameon=False, borderaxespad=0)


def _exceptions(subject: BoundsSubject, labels: Labels, axes: Axes) -> None:
    """The reasons why a window does not open on a day, or opens by exception, along the day's column."""
    for mark in exceptions_of(subject.timeline)[:MARKS_NAMED_MAX]:
        day = _column(local(mark.start, subject.zone).date())
        labels.upright(axes, why(mark), (day + 0.5, 23.5), EXCEPTION)


def pieces(subject: BoundsSubject) -> Iterator[tuple[BoundsInterval, date, float, float]]:
    """The segments, cut at local midnights and where the clocks change: the day, the hour of it, how many hours."""
    line, zone = subject.timeline, subject.zone
    jumps = [change.at for change in clock_changes(zone, line.start, line.end)]
    for segment in line.segments:
        at = segment.start
        while at < segment.end:
            begins = local(at, zone)
            until = min([segment.end, _midnight(begins), *(jump for jump in jumps if jump > at)])
            yield segment, begins.date(), _hour(begins), (until - at) / HOUR
            at = until


def _midnight(moment: datetime) -> Nanoseconds:
    """The beginning of the next local day."""
    tomorrow = datetime.combine(moment.date() + timedelta(days=1), time_of_day(), moment.tzinfo)
    return from_datetime(tomorrow)


def _hour(moment: datetime) -> float:
    return moment.hour + moment.minute / 60 + moment.second / 3600


def _column(day: date) -> int:
    """Days since 1970, as matplotlib counts them."""
    return day.toordinal() - _EPOCH
