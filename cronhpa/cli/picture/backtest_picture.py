"""
The outcome of a backtest as a picture, SVG or PNG: a row for each day, with what the last variant changes.

A row shows the pods that the load needs as an area, and the ready pods of the first variant as a line. The difference
of the last variant is filled, in one colour for more pods and in another for fewer. Below the row are the times in
which either variant had too few pods.
Drawn by matplotlib, which is imported with this file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator
from msgspec import Struct

from cronhpa.cli.picture.style import GRID, INCHES_WIDE, RC, Labels, entitle, fill_steps, named, save
from cronhpa.cli.tables.backtest_table import Backtest
from cronhpa.cli.tables.time_format import format_moment, local
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, Nanoseconds, from_datetime
from cronhpa.core.model.spec import Span
from cronhpa.core.schedules.timeline import timeline, window_intervals
from cronhpa.simulation.compare import Variant
from cronhpa.simulation.run import ReplicaChange, Run

_LOAD, _OPEN = "#c9ced6", "#4a8ab8"
COLORS = {Variant.REACTIVE: "#444444", Variant.SCHEDULED: "#1b6ca8", Variant.FORECAST: "#b35c00"}
MORE, FEWER = "#f2b36b", "#9fc5e8"
_INCHES_ROW, _INCHES_MORE = 1.15, 1.5
_INCHES_ALONE = 3.6
# A picture has no more rows than this; of more days those are shown on which the variants differ most.
_ROWS_MAX = 10
# A row is divided into this many parts. Of each part the largest load is drawn, as its peaks matter.
_PLACES = 1440
# Heights, as shares of the height above zero: of one lane of too few pods, and of both lanes together.
_LANE, _LANES = 0.11, 0.26
# The least width of a stretch, as a share of the row: one of some seconds would be invisible.
_WIDTH_MIN = 1 / 900
_STEPS_HOURS = (1 / 12, 1 / 6, 1 / 4, 1 / 2, 1, 2, 3)
_TICKS_MAX = 13


class _Day(Struct, frozen=True):
    """A row: the part of the day that was run, and the local midnight from which hours are counted."""

    begin: Nanoseconds
    end: Nanoseconds
    midnight: Nanoseconds

    def hour(self, at: Nanoseconds) -> float:
        return (at - self.midnight) / HOUR


def draw(backtest: Backtest, path: Path) -> None:
    """Writes the picture in the format of the path's suffix. Raises OSError if the file cannot be written."""
    with rc_context(RC):
        figure, labels = drawn(backtest)
        FigureCanvasAgg(figure)
        labels.place(figure)
        save(figure, path)


def drawn(backtest: Backtest) -> tuple[Figure, Labels]:
    """The picture, and its labels, which are to be placed before it is written."""
    days, labels = _days(backtest), Labels()
    inches = _INCHES_ALONE if len(days) == 1 else _INCHES_ROW * len(days)
    figure = Figure(figsize=(INCHES_WIDE, inches + _INCHES_MORE), layout="constrained")
    grid = figure.subplots(len(days), 1, sharex=len(days) > 1, sharey=True, squeeze=False)
    rows: list[Axes] = [row[0] for row in grid]
    top = max(1.0, *(most for day in days for most in _heights(backtest, day))) * 1.08
    windows = _windows(backtest)
    for axes, day in zip(rows, days, strict=True):
        _row(backtest, axes, day, top)
        _open(axes, labels, day, windows)
    begin, end = (format_moment(at, backtest.zone) for at in (backtest.span.begin, backtest.span.end))
    entitle(figure, backtest.label, f"{begin} to {end}, {backtest.zone}")
    whole = {local(day.midnight, backtest.zone).date() for day in _all_days(backtest)}
    skipped = f"; the {len(days)} days of {len(whole)} that differ most" if len(days) < len(whole) else ""
    rows[0].set_title(f"{_sentence(backtest)}{skipped}", loc="left", fontsize=9)
    _hours(rows[-1], days)
    _legend(backtest, figure, has_windows=bool(windows))
    return figure, labels


def _sentence(backtest: Backtest) -> str:
    """Minutes short of pods and pod-hours of each variant."""
    return "; ".join(
        f"{variant}: {run.score.under_provisioned_minutes:,.0f} min short of pods, {run.score.pod_hours:,.0f} pod-hours"
        for variant, run in backtest.runs.items()
    )


# --- days --------------------------------------------------------------------------------------------------------


def _all_days(backtest: Backtest) -> list[_Day]:
    span, zone = backtest.span, backtest.zone
    out, at = [], span.begin
    while at < span.end:
        begins = local(at, zone)
        midnight = from_datetime(datetime.combine(begins.date(), time_of_day(), begins.tzinfo))
        tomorrow = datetime.combine(begins.date() + timedelta(days=1), time_of_day(), begins.tzinfo)
        until = min(span.end, from_datetime(tomorrow))
        # A minute before midnight is no day of its own.
        if until - at >= HOUR or span.end - span.begin <= DAY:
            out.append(_Day(at, until, midnight))
        at = until
    return out


def _days(backtest: Backtest) -> list[_Day]:
    """The rows: one for a span of up to a day, else the local days; of many days those that differ most."""
    days = _all_days(backtest)
    if backtest.span.end - backtest.span.begin <= DAY:
        return [_Day(backtest.span.begin, backtest.span.end, days[0].midnight)]
    if len(days) <= _ROWS_MAX:
        return days
    first, last = _compared(backtest)
    differing = sorted(days, key=lambda day: -abs(_short(first, day) - _short(last, day)))
    return sorted(differing[:_ROWS_MAX], key=lambda day: day.begin)


def _compared(backtest: Backtest) -> tuple[Run, Run]:
    """The first variant and the last."""
    runs = list(backtest.runs.values())
    return runs[0], runs[-1]


def _short(run: Run, day: _Day) -> Nanoseconds:
    """How long there were too few pods on a day."""
    return sum(max(0, min(stretch.end, day.end) - max(stretch.begin, day.begin)) for stretch in run.score.stretches)


# --- a row -------------------------------------------------------------------------------------------------------


def _row(backtest: Backtest, axes: Axes, day: _Day, top: float) -> None:
    first, last = backtest.compared_with, list(backtest.runs)[-1]
    needed = _needed(backtest, day)
    axes.fill_between(*needed, step="post", color=_LOAD, linewidth=0, zorder=1)
    edges = _edges(backtest, day)
    hours = [day.hour(at) for at in edges]
    one, other = (_ready(backtest.runs[variant].changes, edges) for variant in (first, last))
    if first is not last:
        more = [after > before for before, after in zip(one, other, strict=True)]
        fewer = [after < before for before, after in zip(one, other, strict=True)]
        fill_steps(axes, hours, one, other, more, color=MORE, zorder=2)
        fill_steps(axes, hours, other, one, fewer, color=FEWER, zorder=2)
    axes.step(hours, one, where="post", color=COLORS[first], linewidth=0.9, zorder=4)
    if first is not last:
        axes.step(hours, other, where="post", color=COLORS[last], linewidth=0.7, zorder=3)
    for lane, variant in enumerate(dict.fromkeys((first, last))):
        _lane(axes, lane, backtest.runs[variant], day, COLORS[variant], top)
    lanes = _LANES if first is not last else _LANES / 2
    axes.set_ylim(-lanes * top, top)
    axes.axhline(0, color="#808080", linewidth=0.5, zorder=5)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:.0f}" if y >= 0 else ""))
    axes.grid(axis="y", color=GRID, linewidth=0.6, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    shorts = "\n".join(f"{variant} {_short(backtest.runs[variant], day) / MINUTE:,.0f} min" for variant in
                       dict.fromkeys((first, last)))  # fmt: skip
    moment = local(day.begin, backtest.zone)
    axes.set_ylabel(f"{moment:%a %d %b}\n{shorts}", rotation=0, ha="right", va="center", fontsize=8)


def _lane(axes: Axes, lane: int, run: Run, day: _Day, color: str, top: float) -> None:
    """The times of too few pods, below zero."""
    width = day.hour(day.end) - day.hour(day.begin)
    spans = [Span(max(stretch.begin, day.begin), min(stretch.end, day.end)) for stretch in run.score.stretches
             if stretch.begin < day.end and day.begin < stretch.end]  # fmt: skip
    bars = [
        (day.hour(span.begin), max(day.hour(span.end) - day.hour(span.begin), width * _WIDTH_MIN)) for span in spans
    ]
    foot = -(lane + 1) * (_LANE + 0.015) * top
    axes.broken_barh(bars, (foot, _LANE * top), facecolor=color, linewidth=0, zorder=6)


def _needed(backtest: Backtest, day: _Day) -> tuple[list[float], list[float]]:
    """Hours and pods of the load: the largest of each part of the day."""
    load = backtest.load
    length = max((day.end - day.begin) // _PLACES, 1)
    low, high = bisect_left(load.instants, day.begin), bisect_right(load.instants, day.end)
    largest: dict[int, float] = {0: load.at(day.begin)}
    for at, value in zip(load.instants[low:high], load.values[low:high], strict=True):
        part = (at - day.begin) // length
        largest[part] = max(value, largest.get(part, 0.0))
    points = [(day.hour(day.begin + part * length), value) for part, value in sorted(largest.items())]
    points.append((day.hour(day.end), points[-1][1]))
    return [hour for hour, _ in points], [value / backtest.environment.capacity for _, value in points]


def _edges(backtest: Backtest, day: _Day) -> list[Nanoseconds]:
    """When the ready pods of the first or the last variant change."""
    edges = {change.at for run in _compared(backtest) for change in run.changes if day.begin < change.at < day.end}
    return [day.begin, *sorted(edges), day.end]


def _ready(changes: Sequence[ReplicaChange], edges: Sequence[Nanoseconds]) -> list[int]:
    """The ready pods from each of these instants on."""
    instants = [change.at for change in changes]
    return [changes[max(bisect_right(instants, at) - 1, 0)].ready for at in edges]


def _heights(backtest: Backtest, day: _Day) -> tuple[float, float]:
    """The largest numbers of a row: of pods that the load needs, and of ready pods."""
    edges = _edges(backtest, day)
    needed = [value for value in _needed(backtest, day)[1] if value == value]  # noqa: PLR0124 - NaN: the load is unknown
    return max(needed, default=0.0), float(max(max(_ready(run.changes, edges)) for run in _compared(backtest)))


def _windows(backtest: Backtest) -> list[tuple[str, Span]]:
    """(schedule, span) of each window that is open within the backtest."""
    if not backtest.spec.schedules:
        return []
    line = timeline(backtest.spec, backtest.span.begin, backtest.span.end)
    names = {schedule.name for schedule in backtest.spec.schedules}
    return [
        (window.name, Span(window.start, window.end))
        for window in window_intervals(line)
        if not window.leads and window.name in names
    ]


def _open(axes: Axes, labels: Labels, day: _Day, windows: Sequence[tuple[str, Span]]) -> None:
    for name, span in windows:
        if span.begin < day.end and day.begin < span.end:
            begins, ends = (day.hour(at) for at in (max(span.begin, day.begin), min(span.end, day.end)))
            axes.axvspan(begins, ends, facecolor=_OPEN, alpha=0.14, linewidth=0, zorder=0)
            labels.at_top(axes, f"open: {named(name)}", begins, COLORS[Variant.SCHEDULED])


# --- around the rows ---------------------------------------------------------------------------------------------


def _hours(axes: Axes, days: Sequence[_Day]) -> None:
    """Local hours, below the last row. A day on which the clocks change has its own number of them."""
    low, high = (0.0, max(24.0, *(day.hour(day.end) for day in days)))
    if len(days) == 1:
        low, high = days[0].hour(days[0].begin), days[0].hour(days[0].end)
    step = next((step for step in _STEPS_HOURS if (high - low) / step <= _TICKS_MAX), _STEPS_HOURS[-1])
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(MultipleLocator(step))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{int(x + 1e-6) % 24:02d}:{round(x % 1 * 60) % 60:02d}"))


def _legend(backtest: Backtest, figure: Figure, *, has_windows: bool) -> None:
    first, last = backtest.compared_with, list(backtest.runs)[-1]
    handles: list[Patch | Line2D] = [
        Patch(facecolor=_LOAD, label=f"pods that the load needs (one carries {backtest.pod_load})"),
        Line2D([], [], color=COLORS[first], linewidth=1.2, label=f"ready pods, {first}"),
    ]
    if first is not last:
        handles += [
            Patch(facecolor=MORE, edgecolor=COLORS[last], label=f"more of them, {last}"),
            Patch(facecolor=FEWER, edgecolor=COLORS[last], label=f"fewer of them, {last}"),
        ]
    handles += [
        Patch(facecolor=COLORS[variant], label=f"below: too few pods, {variant}")
        for variant in dict.fromkeys((first, last))
    ]
    if has_windows:
        handles.append(Patch(facecolor=_OPEN, alpha=0.25, label="a schedule is open"))
    figure.legend(handles=handles, loc="outside lower left", ncols=4, frameon=False, fontsize=8)
