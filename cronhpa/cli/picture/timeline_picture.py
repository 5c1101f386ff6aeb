"""
A timeline as a picture, SVG or PNG: some weeks as a band between floor and cap, a longer span as a calendar of colours.

Drawn by matplotlib, which is imported with this file.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cronhpa.cli.picture.band import draw_band
from cronhpa.cli.picture.calendar import draw_calendar
from cronhpa.cli.picture.style import CONFLICT, RC, Labels, entitle, save
from cronhpa.cli.tables.bounds_table import BoundsSubject, conflict_texts
from cronhpa.cli.tables.time_format import format_moment
from cronhpa.core.model.instant import DAY
from cronhpa.core.model.printable import printable, shortened

# Windows of hours are thinner than a line where a picture shows more days than these.
_BAND_SPAN_MAX = 35 * DAY
_CAPTIONS_MAX = 6
_CAPTION_MAX = 180


def draw(subject: BoundsSubject, path: Path) -> None:
    """Writes the picture in the format of the path's suffix. Raises OSError if the file cannot be written."""
    with rc_context(RC):
        figure, labels = drawn(subject)
        FigureCanvasAgg(figure)
        labels.place(figure)
        save(figure, path)


def drawn(subject: BoundsSubject) -> tuple[Figure, Labels]:
    """The picture, and its labels, which are to be placed before it is written."""
    line, zone = subject.timeline, subject.zone
    is_band = line.end - line.start <= _BAND_SPAN_MAX
    figure, labels = draw_band(subject) if is_band else draw_calendar(subject)
    entitle(figure, subject.label, f"{format_moment(line.start, zone)} to {format_moment(line.end, zone)}, {zone}")
    captions = [f"conflict {number}: {text}" for number, text in enumerate(conflict_texts(line), start=1)]
    if captions:
        shown = [shortened(printable(text), _CAPTION_MAX) for text in captions[:_CAPTIONS_MAX]]
        figure.axes[-1].set_xlabel("\n".join(shown), color=CONFLICT, loc="left", fontsize=8)
    return figure, labels
