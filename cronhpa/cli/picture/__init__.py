"""
A timeline as a picture, SVG or PNG: of some weeks the band between floor and cap, of more a calendar of colours.

Drawn by matplotlib, which is imported with this package and by nothing else.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context

from cronhpa.cli.moments import format_moment
from cronhpa.cli.picture.band import draw_band
from cronhpa.cli.picture.calendar import draw_calendar
from cronhpa.cli.picture.style import CONFLICT, DOTS_PER_INCH, RC
from cronhpa.cli.timetable import Subject, conflict_texts
from cronhpa.core.instant import DAY

# Windows of hours are thinner than a line where a picture shows more days than these.
_BAND_SPAN_MAX = 35 * DAY
_CAPTIONS_MAX = 6


def draw(subject: Subject, path: Path) -> None:
    """Writes the picture; the suffix of the path says which format. Raises OSError where that cannot be."""
    line, zone = subject.timeline, subject.zone
    with rc_context(RC):
        figure = draw_band(subject) if line.end - line.start <= _BAND_SPAN_MAX else draw_calendar(subject)
        title = f"{subject.label}    {format_moment(line.start, zone)} to {format_moment(line.end, zone)}, {zone}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        captions = [f"conflict {number}: {text}" for number, text in enumerate(conflict_texts(line), start=1)]
        if captions:
            last = figure.axes[-1]
            last.set_xlabel("\n".join(captions[:_CAPTIONS_MAX]), color=CONFLICT, loc="left", fontsize=8)
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Date": None} if path.suffix == ".svg" else None)
