"""
A timeline as a picture, SVG or PNG: the band between floor and cap above, the windows as bars below.

Drawn by matplotlib, which is imported with this file and by nothing else.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, DateFormatter, DayLocator, HourLocator
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from cronhpa.cli.moments import format_moment, local
from cronhpa.cli.timetable import Subject, conflict_texts
from cronhpa.core.instant import DAY, HOUR, Nanoseconds, from_datetime
from cronhpa.core.scheduled.timeline import OVERRIDE, Kind, stretches

_FLOOR, _CAP, _BAND = "#1b6ca8", "#c4501b", "#dfeaf3"
_OPEN, _OVERRIDE, _LEAD = "#5b9bc8", "#8e5bb5", "#ffffff"
_CONFLICT, _CLOCK, _WEEKEND = "#d62728", "#6a3d9a", "#f4f4f4"
_STYLE: Any = {
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text: it can be searched and read aloud
    "svg.hashsalt": "cronhpa",  # the same timeline, the same bytes
    "hatch.linewidth": 0.6,
}
_INCHES_WIDE = 13.0
_INCHES_BAND = 3.4
_INCHES_BAR = 0.34
_DOTS_PER_INCH = 130
# Beyond these, more ink would say less.
_WEEKENDS_SPAN_MAX = 62 * DAY
_NUMBERS_MAX = 40
_MARKS_NAMED_MAX = 24
_CAPTIONS_MAX = 6
# What is written at a mark behind this share of the width would leave the picture on the right.
_LATE = 0.85


def draw(subject: Subject, path: Path) -> None:
    """Writes the picture; the suffix of the path says which format. Raises OSError where that cannot be."""
    line = subject.timeline
    names = _names(subject)
    bars_high = _INCHES_BAR * max(len(names), 1)
    with rc_context(_STYLE):
        figure = Figure(figsize=(_INCHES_WIDE, _INCHES_BAND + bars_high + 1.5), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[_INCHES_BAND, bars_high])
        begin, end = format_moment(line.start, subject.zone), format_moment(line.end, subject.zone)
        title = f"{subject.label}    {begin} to {end}, {subject.zone}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        _weekends(subject, above, below)
        _band(subject, above)
        _bars(subject, below, names)
        _conflicts(subject, above, below)
        _marks(subject, above, below)
        above.set_xlim(_x(line.start), _x(line.end))
        _time_axis(below, line.end - line.start, subject.zone)
        captions = [f"conflict {number}: {text}" for number, text in enumerate(conflict_texts(line), start=1)]
        if captions:
            below.set_xlabel("\n".join(captions[:_CAPTIONS_MAX]), color=_CONFLICT, loc="left", fontsize=8)
        figure.savefig(path, dpi=_DOTS_PER_INCH, metadata={"Date": None} if path.suffix == ".svg" else None)


def _x(at: Nanoseconds) -> float:
    """Where an instant lies: matplotlib counts days since 1970 in UTC, and its ticks know the zone."""
    return at / DAY


def _names(subject: Subject) -> list[str]:
    """A row for each schedule, in the spec's order, and for the override."""
    names = [schedule.name for schedule in subject.spec.schedules]
    return [*names, OVERRIDE] if subject.spec.override is not None else names


def _band(subject: Subject, axes: Axes) -> None:
    """The floor, the cap, and what lies between them: the replicas that metrics and forecasts may choose."""
    segments = subject.timeline.segments
    edges = [*(_x(item.start) for item in segments), _x(segments[-1].end)]
    lows, highs = ([*numbers, numbers[-1]] for numbers in zip(*((i.minimum, i.maximum) for i in segments), strict=True))
    axes.fill_between(edges, lows, highs, step="post", color=_BAND, linewidth=0, zorder=1)
    axes.step(edges, highs, where="post", color=_CAP, linewidth=1.6, zorder=4, label="cap: maxReplicas in force")
    axes.step(edges, lows, where="post", color=_FLOOR, linewidth=1.8, zorder=5, label="floor: minReplicas in force")
    axes.set_ylim(0, max(highs) * 1.18 + 0.5)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("replicas")
    axes.grid(axis="y", color="#e3e3e3", linewidth=0.6, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    _numbers(axes, edges, [item.minimum for item in segments], _FLOOR, "bold")
    # Where both are one number, it is written once.
    _numbers(
        axes,
        edges,
        [high if high != low else None for low, high in zip(lows[:-1], highs[:-1], strict=True)],
        _CAP,
        "normal",
    )


def _numbers(axes: Axes, edges: list[float], numbers: Sequence[int | None], color: str, weight: str) -> None:
    """The number at each step, as long as they can be told from each other."""
    steps = [0, *(index for index, (one, other) in enumerate(pairwise(numbers), start=1) if one != other)]
    for index in steps if len(steps) <= _NUMBERS_MAX else steps[:1]:
        number = numbers[index]
        if number is not None:
            _write(axes, str(number), (edges[index], number), color, weight=weight)


def _bars(subject: Subject, axes: Axes, names: list[str]) -> None:
    rows = {name: row for row, name in enumerate(names)}
    for item in stretches(subject.timeline):
        begins, ends = _x(item.start), _x(item.end)
        row = rows[item.name]
        if item.leads:
            style: dict[str, Any] = {"facecolor": _LEAD, "edgecolor": _OPEN, "hatch": "/////", "linewidth": 0.6}
        else:
            style = {"facecolor": _OVERRIDE if item.name == OVERRIDE else _OPEN, "edgecolor": "white", "linewidth": 0.4}
        axes.broken_barh([(begins, ends - begins)], (row - 0.36, 0.72), zorder=3, **style)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [_bar_label(subject, name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _bar_label(subject: Subject, name: str) -> str:
    """The name with what it asks for, such as `night: exactly 0`."""
    if name == OVERRIDE and subject.spec.override is not None:
        asks = subject.spec.override.floor, subject.spec.override.cap
        suffix = f", {textwrap.shorten(subject.spec.override.reason, 24, placeholder='...')}"
    else:
        schedule = next(item for item in subject.spec.schedules if item.name == name)
        asks = schedule.floor, schedule.cap
        suffix = f", +{schedule.headroom_percent} % load" if schedule.headroom_percent else ""
        if schedule.suspend:
            suffix += ", suspended"
        if schedule.problem is not None:
            suffix += ", cannot be read"
    floor, cap = asks
    if floor is not None and floor == cap:
        said = f"exactly {floor}"
    else:
        stated = ((floor, "at least"), (cap, "at most"))
        said = ", ".join(f"{word} {number}" for number, word in stated if number is not None)
    return f"{name}: {(said + suffix).removeprefix(', ')}"


def _conflicts(subject: Subject, above: Axes, below: Axes) -> None:
    for mark in subject.timeline.conflicts:
        assert mark.end is not None
        begins, ends = _x(mark.start), _x(mark.end)
        for axes in (above, below):
            axes.axvspan(begins, ends, facecolor=_CONFLICT, alpha=0.18, linewidth=0, zorder=2)


def _marks(subject: Subject, above: Axes, below: Axes) -> None:
    """Clock changes as lines through both halves, conflicts numbered as below the picture, and a legend."""
    line = subject.timeline
    clocks = [mark for mark in line.marks if mark.kind is Kind.CLOCK_CHANGE]
    for number, mark in enumerate(clocks):
        for axes in (above, below):
            axes.axvline(_x(mark.start), color=_CLOCK, linewidth=1.1, linestyle=(0, (4, 2)), zorder=7)
        if number < _MARKS_NAMED_MAX:
            is_late = mark.start - line.start > _LATE * (line.end - line.start)
            text = mark.text.partition(";")[0].replace(": ", "\n", 1)
            _write(above, text, (_x(mark.start), None), _CLOCK, ha="right" if is_late else "left")
    texts = conflict_texts(line)
    for mark in line.conflicts[:_MARKS_NAMED_MAX]:
        _write(above, f"conflict {texts.index(mark.text) + 1}", (_x(mark.start), None), _CONFLICT)
    handles = above.get_legend_handles_labels()[0]
    handles.append(Patch(facecolor=_BAND, label="metrics and forecasts decide"))
    if any(segment.leading for segment in line.segments):
        handles.append(Patch(facecolor=_LEAD, edgecolor=_OPEN, hatch="/////", label="lead"))
    if texts:
        handles.append(Patch(facecolor=_CONFLICT, alpha=0.3, label="conflict"))
    above.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(handles), frameon=False)


def _write(
    axes: Axes, text: str, at: tuple[float, float | None], color: str, *, weight: str = "normal", ha: str = "left"
) -> None:
    """A text beside a point; a height of None is the top."""
    x, y = at
    is_top = y is None
    axes.annotate(
        text, (x, 1 if y is None else y), xycoords=("data", "axes fraction" if is_top else "data"),
        xytext=(3 if ha == "left" else -3, -2 if is_top else 2), textcoords="offset points", fontsize=7.5, color=color,
        fontweight=weight, ha=ha, va="top" if is_top else "bottom", zorder=8, annotation_clip=True,
    )  # fmt: skip


def _weekends(subject: Subject, *both: Axes) -> None:
    line, zone = subject.timeline, subject.zone
    if line.end - line.start > _WEEKENDS_SPAN_MAX:
        return
    day = local(line.start, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    while day < local(line.end, zone):
        if day.isoweekday() == 6:  # noqa: PLR2004 - Saturday
            begins, ends = _x(from_datetime(day)), _x(from_datetime(day + timedelta(days=2)))
            for axes in both:
                axes.axvspan(begins, ends, facecolor=_WEEKEND, linewidth=0, zorder=0)
        day += timedelta(days=1)


def _time_axis(axes: Axes, span: Nanoseconds, zone: str) -> None:
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
