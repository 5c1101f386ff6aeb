"""A picture of days: the band between floor and cap above, the windows as bars below."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from cronhpa.cli.picture.style import (
    CAP,
    CONFLICT,
    EXCEPTION,
    FLOOR,
    GRID,
    INCHES_WIDE,
    MARKS_NAMED_MAX,
    Labels,
    exceptions_of,
    mark_clock_changes,
    named,
    time_axis,
    weekends,
    why,
    x_of,
)
from cronhpa.cli.tables.bounds_table import BoundsSubject, conflict_texts
from cronhpa.cli.tables.time_format import format_length
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.schedules.timeline import OVERRIDE, MarkKind, WindowInterval, window_intervals

_BAND = "#dfeaf3"
_OPEN, _OVERRIDE, _LEAD = "#4a8ab8", "#8e5bb5", "#ffffff"
_INCHES_BAND = 3.4
_INCHES_BAR = 0.42
# With more steps than this only the first number is written.
_NUMBERS_MAX = 80


def draw_band(subject: BoundsSubject) -> tuple[Figure, Labels]:
    line, labels = subject.timeline, Labels()
    names = _names(subject)
    bars_high = _INCHES_BAR * max(len(names), 1)
    figure = Figure(figsize=(INCHES_WIDE, _INCHES_BAND + bars_high + 1.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[_INCHES_BAND, bars_high])
    weekends(line.start, line.end, subject.zone, above, below)
    # Labels that are added first have the first choice of a place.
    _conflicts(subject, labels, above, below)
    mark_clock_changes(line, labels, above, below)
    _band(subject, labels, above)
    _bars(subject, below, names)
    _exceptions(subject, labels, below, names)
    _legend(subject, above)
    above.set_xlim(x_of(line.start), x_of(line.end))
    time_axis(below, line.start, line.end, subject.zone)
    return figure, labels


# The width of a digit, as a part of the axes' width.
_DIGIT = 0.008


def _names(subject: BoundsSubject) -> list[str]:
    """A row for each schedule, in the spec's order, and for the override."""
    names = [schedule.name for schedule in subject.spec.schedules]
    return [*names, OVERRIDE] if subject.spec.override is not None else names


def _band(subject: BoundsSubject, labels: Labels, axes: Axes) -> None:
    """The floor, the cap, and what lies between them: the replicas that metrics and forecasts may choose."""
    segments = subject.timeline.segments
    edges = [*(x_of(segment.start) for segment in segments), x_of(segments[-1].end)]
    lows, highs = ([*numbers, numbers[-1]] for numbers in zip(*((i.minimum, i.maximum) for i in segments), strict=True))
    axes.fill_between(edges, lows, highs, step="post", color=_BAND, linewidth=0, zorder=1)
    axes.step(edges, highs, where="post", color=CAP, linewidth=1.6, zorder=4, label="cap: maxReplicas in force")
    axes.step(edges, lows, where="post", color=FLOOR, linewidth=1.8, zorder=5, label="floor: minReplicas in force")
    axes.set_ylim(0, max(highs) * 1.18 + 0.5)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("replicas")
    axes.grid(axis="y", color=GRID, linewidth=0.6, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    for at, number in _steps(edges, [segment.minimum for segment in segments]):
        labels.beside(axes, str(number), (at, number), FLOOR, weight="bold")
    # Where both are one number, it is written once.
    for at, number in _steps(
        edges, [high if high != low else None for low, high in zip(lows, highs, strict=True)][:-1]
    ):
        labels.beside(axes, str(number), (at, number), CAP)


def _steps(edges: list[float], numbers: Sequence[int | None]) -> list[tuple[float, int]]:
    """
    (x, number) of each step that is labelled; of too many steps the first alone.

    A number is left out if its step is narrower than the number and the line rises after it: they would overlap.
    """
    steps = [0, *(index for index, (one, other) in enumerate(pairwise(numbers), start=1) if one != other)]
    shown = steps if len(steps) <= _NUMBERS_MAX else steps[:1]
    span = edges[-1] - edges[0]
    ends = dict(pairwise([*steps, len(numbers)]))
    return [
        (edges[index], number)
        for index in shown
        if (number := numbers[index]) is not None
        and (
            edges[ends[index]] - edges[index] >= _DIGIT * (len(str(number)) + 1) * span
            or not _rises(numbers, ends[index])
        )
    ]


def _rises(numbers: Sequence[int | None], index: int) -> bool:
    """Whether the number at this index is larger than the one before; True at the end, where the frame is."""
    if index == len(numbers):
        return True
    before, after = numbers[index - 1], numbers[index]
    return before is not None and after is not None and after > before


def _bars(subject: BoundsSubject, axes: Axes, names: list[str]) -> None:
    """A row of windows for each name. Leads are to scale: one of minutes is a line before its window."""
    rows = {name: row for row, name in enumerate(names)}
    intervals = window_intervals(subject.timeline)
    # All of a row at once: for each bar that is added, matplotlib goes over those before it.
    bars: dict[tuple[str, bool], list[tuple[float, float]]] = {}
    for interval in intervals:
        begin = x_of(interval.start)
        bars.setdefault((interval.name, interval.leads), []).append((begin, x_of(interval.end) - begin))
    for (name, leads), ranges in bars.items():
        if leads:
            style: dict[str, Any] = {"facecolor": _LEAD, "edgecolor": _OPEN, "hatch": "/////", "linewidth": 0.6}
        else:
            style = {
                "facecolor": _OVERRIDE if name == OVERRIDE else _OPEN,
                "edgecolor": "none",
                "linewidth": 0,
            }
        axes.broken_barh(ranges, (rows[name] - 0.36, 0.72), zorder=3, **style)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [f"{_bar_label(subject, name)}{_lead_of(name, intervals)}" for name in names])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _lead_of(name: str, intervals: Sequence[WindowInterval]) -> str:
    """The longest lead of the windows as a text: drawn to scale it may be thinner than a line."""
    leads: list[Nanoseconds] = [
        interval.end - interval.start for interval in intervals if interval.leads and interval.name == name
    ]
    if not leads:
        return ""
    return f"\nlead {format_length(max(leads))}"


def _bar_label(subject: BoundsSubject, name: str) -> str:
    """The name with the bounds that it asks for, such as `night: exactly 0`."""
    if name == OVERRIDE and subject.spec.override is not None:
        asks = subject.spec.override.floor, subject.spec.override.cap
        suffix = f", {textwrap.shorten(named(subject.spec.override.reason), 24, placeholder='...')}"
    else:
        schedule = next(candidate for candidate in subject.spec.schedules if candidate.name == name)
        asks = schedule.floor, schedule.cap
        percents = ((schedule.floor_percent, "at least"), (schedule.cap_percent, "at most"))
        suffix = "".join(f", {word} {number} % of the others" for number, word in percents if number is not None)
        suffix += f", +{schedule.headroom_percent} % load" if schedule.headroom_percent else ""
        if schedule.suspend:
            suffix += ", suspended"
        if schedule.problem is not None:
            suffix += ", cannot be read"
    floor, cap = asks
    if floor is not None and floor == cap:
        text = f"exactly {floor}"
    else:
        bounds = ((floor, "at least"), (cap, "at most"))
        text = ", ".join(f"{word} {number}" for number, word in bounds if number is not None)
    return f"{named(name)}: {(text + suffix).removeprefix(', ')}"


def _exceptions(subject: BoundsSubject, labels: Labels, axes: Axes, names: list[str]) -> None:
    """A cross where a window does not open, a dot where it opens by exception, each with the reason."""
    for number, mark in enumerate(exceptions_of(subject.timeline)):
        row = names.index(mark.schedules[0])
        symbol = "x" if mark.kind is MarkKind.EXCLUDED else "o"
        days = [x_of(at) for at in (mark.start, mark.end) if at is not None]
        axes.plot(days, [row] * len(days), color=EXCEPTION, marker=symbol, markersize=6, linestyle=":", linewidth=1.2)
        if number < MARKS_NAMED_MAX:
            labels.beside(axes, textwrap.fill(why(mark), 30), (days[0], row - 0.05), EXCEPTION)


def _conflicts(subject: BoundsSubject, labels: Labels, above: Axes, below: Axes) -> None:
    """Conflicts, red through both halves, with the numbers of the captions below the picture."""
    texts = conflict_texts(subject.timeline)
    for number, mark in enumerate(subject.timeline.conflicts):
        assert mark.end is not None
        for axes in (above, below):
            axes.axvspan(x_of(mark.start), x_of(mark.end), facecolor=CONFLICT, alpha=0.18, linewidth=0, zorder=2)
        if number < MARKS_NAMED_MAX:
            labels.at_top(above, f"conflict {texts.index(mark.text) + 1}", x_of(mark.start), CONFLICT)


def _legend(subject: BoundsSubject, axes: Axes) -> None:
    handles = axes.get_legend_handles_labels()[0]
    handles.append(Patch(facecolor=_BAND, label="metrics and forecasts decide"))
    if any(segment.leading for segment in subject.timeline.segments):
        handles.append(Patch(facecolor=_LEAD, edgecolor=_OPEN, hatch="/////", label="lead, to scale"))
    kinds = {mark.kind for mark in exceptions_of(subject.timeline)}
    for kind, symbol, label in (
        (MarkKind.EXCLUDED, "x", "does not open"),
        (MarkKind.INCLUDED, "o", "opens by exception"),
    ):
        if kind in kinds:
            handles.append(Line2D([], [], color=EXCEPTION, marker=symbol, linestyle="none", label=label))
    if subject.timeline.conflicts:
        handles.append(Patch(facecolor=CONFLICT, alpha=0.3, label="conflict"))
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(handles), frameon=False)
