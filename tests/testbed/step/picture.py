"""The picture of `make demo-step`: for each autoscaler its middle copy, pods asked for and ready, against the load."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator

from cronhpa.cli.picture.style import CONFLICT, FLOOR, GRID, INCHES_WIDE, RC, entitle, fill_steps, save
from testbed.step.scenario import CORES_AFTER, CORES_BEFORE, LABELS, PODS_AFTER
from testbed.step.score import middle, seconds_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from testbed.step.score import Outcome, Seen

_CARRIED, _LOAD = "#9fc5e8", "#222222"
_INCHES_HIGH = 8.0
_TICK_SECONDS = 30


def draw(seen: Mapping[str, Sequence[Sequence[Seen]]], outcomes: Mapping[str, Sequence[Outcome]], path: Path) -> None:
    """Writes the picture; the suffix says which format. Raises OSError where the file cannot be written."""
    with rc_context(RC):
        figure = Figure(figsize=(INCHES_WIDE, _INCHES_HIGH), layout="constrained")
        FigureCanvasAgg(figure)
        rows: list[Axes] = list(figure.subplots(len(LABELS), 1, sharex=True, sharey=True))
        drawn = {name: seen[name][middle(outcomes[name])] for name in LABELS}
        for axes, name in zip(rows, LABELS, strict=True):
            _one(axes, name, drawn[name], outcomes[name][middle(outcomes[name])])
        # The copies have their steps at different times, so each was watched over other seconds: draw those of all.
        rows[-1].set_xlim(
            max(timeline[0].second for timeline in drawn.values()),
            min(timeline[-1].second for timeline in drawn.values()),
        )
        rows[-1].xaxis.set_major_locator(MultipleLocator(_TICK_SECONDS))
        rows[-1].set_xlabel("seconds since the step")
        entitle(figure, "A step from 2 pods to 10", "and four autoscalers; of the copies of each the middle one")
        handles = [
            Line2D([], [], color=_LOAD, label="load, cores"),
            Line2D([], [], color=FLOOR, linestyle=(0, (3, 2)), label="pods asked for"),
            Patch(facecolor=_CARRIED, label="ready pods, a core each"),
            Patch(facecolor=CONFLICT, label="short of pods: load that nobody carries"),
        ]
        figure.legend(handles=handles, loc="outside lower left", ncols=4, frameon=False, fontsize=8)
        save(figure, path)


def edges(seen: Sequence[Seen]) -> list[Seen]:
    """The moments at which something changed, and the last one: each holds until the next, so nothing else is drawn."""

    def drawn(moment: Seen) -> tuple[bool, int, int]:
        return moment.second >= 0, moment.replicas, moment.ready

    changed = [after for before, after in pairwise(seen) if drawn(before) != drawn(after)]
    return [seen[0], *changed, seen[-1]]


def _one(axes: Axes, name: str, seen: Sequence[Seen], outcome: Outcome) -> None:
    seen = edges(seen)
    seconds = [moment.second for moment in seen]
    ready = [float(moment.ready) for moment in seen]
    load = [CORES_AFTER if second >= 0 else CORES_BEFORE for second in seconds]
    axes.fill_between(seconds, ready, step="post", color=_CARRIED, linewidth=0, zorder=1)
    fill_steps(axes, seconds, ready, load, [moment.is_short for moment in seen], color=CONFLICT, alpha=0.75, zorder=2)
    axes.step(seconds, load, where="post", color=_LOAD, linewidth=1.4, zorder=4)
    replicas = [moment.replicas for moment in seen]
    axes.step(seconds, replicas, where="post", color=FLOOR, linewidth=1.2, linestyle=(0, (3, 2)), zorder=5)
    first = "no reaction" if outcome.first is None else f"first reaction {_after_the_step(outcome.first)}"
    axes.set_title(f"{LABELS[name]}: {first}, short of pods for {outcome.short:.0f} s", loc="left", fontsize=9)
    axes.set_ylim(0, PODS_AFTER * 1.15)
    axes.yaxis.set_major_locator(MultipleLocator(2))
    axes.set_ylabel("pods, cores")
    axes.grid(axis="y", color=GRID, linewidth=0.6, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)


def _after_the_step(second: float) -> str:
    return f"{seconds_text(second)} the step" if second < 0 else f"{seconds_text(second)} after the step"
