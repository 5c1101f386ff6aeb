"""
The outcome of a backtest as a picture, SVG or PNG: the pods that the load needs against those that were ready.

Above, the load in pods and the ready replicas of each variant; below, in a row each, when a variant had too few of
them, and when the schedules were open. Drawn by matplotlib, which is imported with this file.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cronhpa.cli.moments import format_moment
from cronhpa.cli.outcome import Backtest
from cronhpa.cli.picture.style import DOTS_PER_INCH, INCHES_WIDE, RC, time_axis, weekends, x_of
from cronhpa.core.scheduled.timeline import timeline, window_intervals
from cronhpa.core.spec import Span
from cronhpa.simulation.compare import Variant

_LOAD, _SHORT, _OPEN = "#c9ced6", "#d62728", "#5b9bc8"
_COLORS = {Variant.REACTIVE: "#444444", Variant.SCHEDULED: "#1b6ca8", Variant.FORECAST: "#d98200"}
_INCHES_ABOVE = 4.6
_INCHES_ROW = 0.34
# A stretch of a minute in a week would be thinner than a hair: it is drawn this wide at least.
_WIDTH_MIN = 1 / 500
# The load is drawn at this many places, each the largest of its part: what matters are its peaks.
_PLACES = 1600


def draw(found: Backtest, path: Path) -> None:
    """Writes the picture; the suffix of the path says which format. Raises OSError where that cannot be."""
    rows = len(found.runs) + len(found.spec.schedules)
    below_high = _INCHES_ROW * rows
    with rc_context(RC):
        figure = Figure(figsize=(INCHES_WIDE, _INCHES_ABOVE + below_high + 1.0), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[_INCHES_ABOVE, below_high])
        begin, end = (format_moment(at, found.zone) for at in (found.span.begin, found.span.end))
        title = f"{found.label}    {begin} to {end}, {found.zone}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        weekends(found.span.begin, found.span.end, found.zone, above, below)
        _pods(found, above)
        _rows(found, below)
        above.set_xlim(x_of(found.span.begin), x_of(found.span.end))
        time_axis(below, found.span.end - found.span.begin, found.zone)
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Date": None} if path.suffix == ".svg" else None)


def _pods(found: Backtest, axes: Axes) -> None:
    """What the load needs, as an area, and what was ready, as a line for each variant."""
    needed = _needed(found)
    label = f"pods that the load needs (one carries {found.environment.capacity:.4g})"
    axes.fill_between(
        [x for x, _ in needed], [y for _, y in needed], step="post", color=_LOAD, linewidth=0, label=label
    )
    for order, (variant, run) in enumerate(found.runs.items()):
        x = [x_of(change.at) for change in run.changes] + [x_of(found.span.end)]
        y = [change.ready for change in run.changes]
        axes.step(
            x, [*y, y[-1]], where="post", color=_COLORS[variant], linewidth=1.2, zorder=3 + order,
            label=f"ready pods, {variant}: {run.score.pod_hours:,.0f} pod-hours",
        )  # fmt: skip
    axes.set_ylim(0, None)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("pods")
    axes.grid(axis="y", color="#e3e3e3", linewidth=0.6, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)


def _needed(found: Backtest) -> list[tuple[float, float]]:
    """(x, pods) of the load: the largest of each part of the span."""
    span, load = found.span, found.load
    length = max((span.end - span.begin) // _PLACES, 1)
    largest: dict[int, float] = {}
    points = [(at, value) for at, value in zip(load.instants, load.values, strict=True) if span.begin <= at <= span.end]
    for at, value in points:
        part = (at - span.begin) // length
        largest[part] = max(value, largest.get(part, 0.0))
    drawn = [(x_of(span.begin + part * length), value) for part, value in sorted(largest.items())]
    drawn = drawn or [(x_of(span.begin), load.at(span.begin))]
    drawn.append((x_of(span.end), drawn[-1][1]))
    return [(x, value / found.environment.capacity) for x, value in drawn]


def _rows(found: Backtest, axes: Axes) -> None:
    """A row for each variant with its times of too few pods, and one for each schedule with its windows."""
    labels: list[str] = []
    for variant, run in found.runs.items():
        _bars(axes, len(labels), run.score.stretches, found.span, _SHORT)
        labels.append(f"too few pods, {variant}: {run.score.under_provisioned_minutes:,.0f} min")
    open_at: dict[str, list[Span]] = {schedule.name: [] for schedule in found.spec.schedules}
    for each in window_intervals(timeline(found.spec, found.span.begin, found.span.end)) if open_at else ():
        if not each.leads and each.name in open_at:
            open_at[each.name].append(Span(each.start, each.end))
    for name, spans in open_at.items():
        _bars(axes, len(labels), tuple(spans), found.span, _OPEN)
        labels.append(f"open: {name}")
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _bars(axes: Axes, row: int, spans: tuple[Span, ...], whole: Span, color: str) -> None:
    least = (x_of(whole.end) - x_of(whole.begin)) * _WIDTH_MIN
    bars = [(x_of(each.begin), max(x_of(each.end) - x_of(each.begin), least)) for each in spans]
    axes.broken_barh(bars, (row - 0.36, 0.72), facecolor=color, linewidth=0, zorder=3)
