"""The picture of an edge that all objects share: scale-ups, Ready pods and scale-downs, by seconds from the edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cronhpa.cli.picture.style import CAP, FLOOR, GRID, INCHES_WIDE, RC, entitle, save

_READY = "#2e7d32"
_CURVES = {
    "ups": ("scale-ups written", FLOOR),
    "ready": ("objects with all pods Ready that grow", _READY),
    "downs": ("scale-downs written", CAP),
}
_STEP_S = 0.25
_INCHES_HIGH = 4.2


def draw(times: Mapping[str, Sequence[float]], objects: int, path: Path) -> None:
    """
    Writes the picture; the suffix says which format. Raises OSError where the file cannot be written.

    times: of each curve (ups, ready, downs) the seconds from the edge.
    """
    with rc_context(RC):
        figure = Figure(figsize=(INCHES_WIDE, _INCHES_HIGH), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        for name, (label, color) in _CURVES.items():
            seconds, counts = cumulated(times[name])
            axes.step(seconds, counts, where="post", color=color, linewidth=1.6, label=label)
        axes.axvline(0, color="#222222", linewidth=1)
        axes.set_xlabel("seconds from the edge")
        axes.set_ylabel("objects")
        axes.grid(axis="y", color=GRID, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="center right", frameon=False, fontsize=9)
        entitle(figure, f"An edge that {objects:,} objects share", "four of five grow by two pods, one of five shrinks")
        path.parent.mkdir(parents=True, exist_ok=True)
        save(figure, path)


def cumulated(times: Sequence[float]) -> tuple[list[float], list[int]]:
    """How many of the times lie before each quarter of a second, from the first to the last of them."""
    seconds, counts = [], []
    for number, time in enumerate(sorted(times), start=1):
        at = time // _STEP_S * _STEP_S + _STEP_S
        if seconds and seconds[-1] == at:
            counts[-1] = number
        else:
            seconds.append(at)
            counts.append(number)
    return seconds, counts
