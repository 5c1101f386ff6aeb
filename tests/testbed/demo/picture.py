"""
The picture that the demo ends with: both twins under the load, and when each was short of pods.

Above for each twin what its ready pods carry against the load, red where that is too little; below what happened.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator

from cronhpa.cli.picture.style import CONFLICT, FLOOR, GRID, INCHES_WIDE, RC, Labels, entitle, fill_steps, save
from testbed.demo.observation import LABELS
from testbed.demo.score import score, verdict
from testbed.demo.screen import clock
from testbed.demo.twins import TWINS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from testbed.demo.observation import Moment

_CARRIED, _STARTING, _SHORT = "#9fc5e8", "#dfeaf3", CONFLICT
_LOAD = "#222222"
_INCHES_HIGH = 7.2
_TICKS = (10, 15, 30, 60, 120, 300, 600)
_TICKS_MAX = 12
_EVENT_WIDTH = 46


def draw(moments: Sequence[Moment], told: Sequence[tuple[float, str]], namespace: str, path: Path) -> None:
    """
    Writes the picture; the suffix says which format.

    moments: at least two. told: the events between them. Raises OSError where the file cannot be written.
    """
    with rc_context(RC):
        figure, labels = drawn(moments, told, namespace)
        FigureCanvasAgg(figure)
        labels.place(figure)
        save(figure, path)


def drawn(moments: Sequence[Moment], told: Sequence[tuple[float, str]], namespace: str) -> tuple[Figure, Labels]:
    """The picture, and its labels, which are to be placed before it is written."""
    labels = Labels()
    figure = Figure(figsize=(INCHES_WIDE, _INCHES_HIGH), layout="constrained")
    rows: list[Axes] = list(figure.subplots(len(TWINS), 1, sharex=True, sharey=True))
    top = 1.25 * max(max(moment.load, *(twin.carries for twin in moment.twins.values())) for moment in moments)
    for axes, name in zip(rows, TWINS, strict=True):
        _twin(axes, labels, name, moments)
        _events(axes, labels, name, told)
        axes.set_ylim(0, top)
    begin, end = moments[0].second, moments[-1].second
    rows[-1].set_xlim(begin, end)
    step = next((tick for tick in _TICKS if (end - begin) / tick <= _TICKS_MAX), _TICKS[-1])
    rows[-1].xaxis.set_major_locator(MultipleLocator(step))
    rows[-1].xaxis.set_major_formatter(FuncFormatter(lambda x, _: clock(x)))
    rows[-1].set_xlabel("minutes since both autoscalers began")
    entitle(figure, f"namespace {namespace}", "upstream HPA and CronHPA under one recorded load")
    rows[0].set_title(verdict(score(moments)), loc="left", fontsize=9)
    handles = [
        Patch(facecolor="none", edgecolor=_LOAD, label="load"),
        Patch(facecolor=_CARRIED, label="what the ready pods carry at all of their request"),
        Patch(facecolor=_STARTING, label="what the starting pods will carry"),
        Patch(facecolor=_SHORT, label="short of pods: load that nobody carries"),
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=4, frameon=False, fontsize=8)
    return figure, labels


def _twin(axes: Axes, labels: Labels, name: str, moments: Sequence[Moment]) -> None:
    """Each moment holds until the next one, as the score has it."""
    seconds = [moment.second for moment in moments]
    load = [moment.load for moment in moments]
    twins = [moment.twins[name] for moment in moments]
    carries = [twin.carries for twin in twins]
    # Of a twin without a ready pod nothing says what one carries: then none is drawn as starting.
    all_pods = [twin.carries * twin.pods / twin.ready if twin.ready else 0.0 for twin in twins]
    axes.fill_between(seconds, carries, all_pods, step="post", color=_STARTING, linewidth=0, zorder=1)
    axes.fill_between(seconds, carries, step="post", color=_CARRIED, linewidth=0, zorder=1)
    short = [moment.is_short(name) for moment in moments]
    fill_steps(axes, seconds, carries, load, short, color=_SHORT, alpha=0.75, zorder=2)
    axes.step(seconds, load, where="post", color=_LOAD, linewidth=1.4, zorder=4)
    scored = score(moments)[name]
    told = f"short of pods for {scored.under_provisioned_seconds:.0f} s, {scored.pod_seconds:,.0f} pod-seconds"
    labels.heading(axes, f"{LABELS[name]}: {told}")
    axes.set_ylabel("cores")
    axes.grid(axis="y", color=GRID, linewidth=0.6, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)


def _events(axes: Axes, labels: Labels, name: str, told: Sequence[tuple[float, str]]) -> None:
    """What this twin did, where it did it; who decides stands with the CronHPA."""
    label = LABELS[name]
    for second, text in told:
        is_own = text.startswith(label) if name == TWINS[0] else not text.startswith(LABELS[TWINS[0]])
        if is_own and " carries the load again" not in text:
            axes.axvline(second, color=FLOOR, linewidth=0.6, linestyle=(0, (2, 3)), zorder=3)
            labels.at_top(axes, "\n".join(textwrap.wrap(text.removeprefix(f"{label} "), _EVENT_WIDTH)), second, FLOOR)
