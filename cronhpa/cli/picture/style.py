"""
Shared by all pictures: colours that contrast with white, the x of an instant, date axes, labels that do not overlap.

The background is drawn white: on a dark page the picture is a white card, and not dark text on dark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from matplotlib.axes import Axes
from matplotlib.dates import DateFormatter, DayLocator, HourLocator, MinuteLocator, WeekdayLocator, num2date
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import Bbox
from msgspec import Struct

from cronhpa.cli.tables.time_format import local
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, Nanoseconds, from_datetime
from cronhpa.core.model.printable import printable, shortened
from cronhpa.core.schedules.timeline import Mark, MarkKind, Timeline

PAPER = "#ffffff"
FLOOR, CAP = "#1b6ca8", "#b8470f"
CONFLICT, CLOCK = "#c81e1e", "#6a3d9a"
EXCEPTION = "#4d4d4d"
_WEEKEND = "#f4f4f4"
GRID = "#e3e3e3"
INCHES_WIDE = 13.0
DOTS_PER_INCH = 130
# Labels of more marks would not fit.
MARKS_NAMED_MAX = 24
# The longest part of a name that is drawn: a longer one would fill the picture.
NAME_MAX = 40
_TITLE_MAX = 110
# The most labels of dates on an axis.
_DATES_MAX = 14
_DAYS_LABELLED_MAX = 16
_MINUTES = (1, 2, 5, 10, 15, 30, 60)

RC: Any = {
    "font.size": 9,
    # Labels are placed at the size of a PNG. Without hinting a text has the same relative width at any size.
    "figure.dpi": DOTS_PER_INCH,
    "text.hinting": "none",
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",  # text stays text: it can be searched and read aloud
    "svg.hashsalt": "cronhpa",  # the same timeline, the same bytes
    "text.parse_math": False,  # a name with two dollar signs is a name
    "hatch.linewidth": 0.6,
}


def x_of(at: Nanoseconds) -> float:
    """The x of an instant: matplotlib counts days since 1970 in UTC; the ticks know the zone."""
    return at / DAY


def named(text: str) -> str:
    """A name as it is drawn: in one line, without control characters, and no longer than fits."""
    return shortened(printable(text), NAME_MAX)


def entitle(figure: Figure, label: str, rest: str) -> None:
    """Sets the title: the object, then a description of the picture."""
    title = f"{shortened(printable(label), _TITLE_MAX - len(rest))}    {rest}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")


def save(figure: Figure, path: Path) -> None:
    """Writes the picture in the format of the suffix. Raises OSError if the file cannot be written."""
    figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Date": None} if path.suffix == ".svg" else None)


# --- marks of a timeline -----------------------------------------------------------------------------------------


def exceptions_of(line: Timeline) -> list[Mark]:
    """The days that `exclude` takes out and `only` leaves."""
    return [mark for mark in line.marks if mark.kind in {MarkKind.EXCLUDED, MarkKind.INCLUDED}]


def why(mark: Mark) -> str:
    """The reason of an exception, such as `Christmas Day (DE-BY)`."""
    return mark.text.partition(": ")[2]


def mark_clock_changes(line: Timeline, labels: Labels, *axes: Axes) -> None:
    """Lines through all axes, named in the first."""
    changes = [mark for mark in line.marks if mark.kind is MarkKind.CLOCK_CHANGE]
    for number, mark in enumerate(changes):
        for one in axes:
            one.axvline(x_of(mark.start), color=CLOCK, linewidth=1.1, linestyle=(0, (4, 2)), zorder=7)
        if number < MARKS_NAMED_MAX:
            text = mark.text.partition(";")[0].replace(": ", "\n", 1)
            labels.at_top(axes[0], text, x_of(mark.start), CLOCK)


def weekends(begin: Nanoseconds, end: Nanoseconds, zone: str, *every: Axes) -> None:
    """Shade the local weekends between two instants in all axes."""
    day = local(begin, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    while day < local(end, zone):
        if day.isoweekday() == 6:  # noqa: PLR2004 - Saturday
            begins, ends = x_of(from_datetime(day)), x_of(from_datetime(day + timedelta(days=2)))
            for axes in every:
                axes.axvspan(begins, ends, facecolor=_WEEKEND, linewidth=0, zorder=0)
        day += timedelta(days=1)


def time_axis(axes: Axes, begin: Nanoseconds, end: Nanoseconds, zone: str) -> None:
    """
    Labels local times, each with its weekday.

    Up to 12 hours minutes are labelled, up to 2 days hours, up to 16 days days, else Mondays.
    """
    info, span = ZoneInfo(zone), end - begin
    if span <= 12 * HOUR:
        apart = next(minutes for minutes in _MINUTES if span <= 12 * minutes * MINUTE)
        axes.xaxis.set_major_locator(MinuteLocator(range(0, 60, apart), tz=info))
        axes.xaxis.set_major_formatter(DateFormatter("%H:%M\n%a %d %b", tz=info))
    elif span <= 2 * DAY:
        axes.xaxis.set_major_locator(HourLocator(interval=max(1, span // (12 * HOUR)), tz=info))
        axes.xaxis.set_major_formatter(DateFormatter("%H:%M\n%a %d %b", tz=info))
    elif span <= _DAYS_LABELLED_MAX * DAY:
        axes.xaxis.set_major_locator(DayLocator(tz=info))
        axes.xaxis.set_major_formatter(DateFormatter("%a\n%d %b", tz=info))
        axes.xaxis.set_minor_locator(HourLocator(byhour=[6, 12, 18], tz=info))
    else:
        mondays(axes, span, info)


def mondays(axes: Axes, span: Nanoseconds, info: ZoneInfo | None = None) -> None:
    """Labels as many Mondays as fit, at equal distances, with the year where it changes."""
    weeks = ceil(span / (7 * DAY) / _DATES_MAX)
    axes.xaxis.set_major_locator(WeekdayLocator(byweekday=0, interval=max(weeks, 1), tz=info))
    years: list[int] = []

    def told(x: float, position: int | None) -> str:
        day = num2date(x, tz=info)
        if not position:
            years.clear()
        is_new = day.year not in years
        years.append(day.year)
        return f"{day:%a}\n{day:%d %b}" + (f"\n{day:%Y}" if is_new else "")

    axes.xaxis.set_major_formatter(FuncFormatter(told))
    if span <= 10 * 7 * DAY:
        axes.xaxis.set_minor_locator(DayLocator(tz=info))


def fill_steps(
    axes: Axes, x: Sequence[float], low: Sequence[float], high: Sequence[float], where: Sequence[bool], **looks: Any
) -> None:
    """
    Fills between two lines of steps where `where` is true; each value holds from its x to the next.

    matplotlib's own `where` leaves out the last step of each stretch.
    """
    begin = 0
    while begin < len(x) - 1:
        end = begin
        while end < len(x) - 1 and where[end]:
            end += 1
        if end > begin:
            edges = x[begin : end + 1]
            lows, highs = ([*values[begin:end], values[end - 1]] for values in (low, high))
            axes.fill_between(edges, lows, highs, step="post", linewidth=0, **looks)
        begin = end + 1


# --- labels ------------------------------------------------------------------------------------------------------

# The least distance of labels, and the height of a line, in points.
_APART, _LINE = 1.5, 11.0
_LINES_MAX = 6


class _Label(Struct):
    """A text at a point, and the spots to try in turn: offsets in points, with their alignments."""

    text: Annotation
    spots: Sequence[tuple[float, float, str, str]]


class Labels:
    """
    Texts beside points that do not overlap: texts that were added first are placed first.

    A text without a place is left out; an axis, a legend or the table has it, too.
    """

    def __init__(self) -> None:
        self._labels: list[_Label] = []

    def heading(self, axes: Axes, text: str) -> None:
        """A heading in the upper left corner. Add it first, so that it has its place."""
        self._add(
            axes, text, (0.0, 1.0), ("axes fraction", "axes fraction"), "black", "bold", [(6.0, -3.0, "left", "top")]
        )

    def at_top(self, axes: Axes, text: str, x: float, color: str) -> None:
        """A label beside a vertical line, at its top or some lines below it."""
        spots = [
            (3.0 * sign, -2.0 - _LINE * line, ha, "top")
            for line in range(_LINES_MAX)
            for sign, ha in ((1, "left"), (-1, "right"))
        ]
        self._add(axes, text, (x, 1.0), ("data", "axes fraction"), color, "normal", spots)

    def beside(self, axes: Axes, text: str, at: tuple[float, float], color: str, *, weight: str = "normal") -> None:
        """A label above or below a point of a curve."""
        spots = [(3.0, 2.0, "left", "bottom"), (3.0, -3.0, "left", "top"), (-3.0, 2.0, "right", "bottom")]
        self._add(axes, text, at, ("data", "data"), color, weight, spots)

    def upright(self, axes: Axes, text: str, at: tuple[float, float], color: str) -> None:
        """A label along a column, from its foot or from some inches above it."""
        spots = [(0.0, inches * 72, "center", "bottom") for inches in (0.0, 1.2, 2.4)]
        annotation = self._add(axes, text, at, ("data", "data"), color, "normal", spots)
        annotation.set(rotation=90, fontsize=6.5, bbox={"facecolor": PAPER, "alpha": 0.85, "linewidth": 0, "pad": 0.8})

    def _add(
        self,
        axes: Axes,
        text: str,
        at: tuple[float, float],
        coordinates: tuple[str, str],
        color: str,
        weight: str,
        spots: Sequence[tuple[float, float, str, str]],
    ) -> Annotation:
        annotation = axes.annotate(
            "\n".join(printable(line) for line in text.split("\n")), at, xycoords=coordinates, xytext=spots[0][:2],
            textcoords="offset points", fontsize=7.5, color=color, fontweight=weight, zorder=8, annotation_clip=False,
        )  # fmt: skip
        annotation.set_in_layout(False)
        self._labels.append(_Label(annotation, spots))
        return annotation

    def place(self, figure: Figure) -> None:
        """Moves each label to its first spot within its axes that overlaps no earlier label, or hides it."""
        figure.draw_without_rendering()
        renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]  # of Agg, which measures for both formats
        taken: list[Bbox] = []
        for label in self._labels:
            for x, y, ha, va in label.spots:
                label.text.set_position((x, y))
                label.text.set(ha=ha, va=va)
                box = label.text.get_window_extent(renderer).padded(_APART)
                if self._is_within(label.text.axes, box) and not any(box.overlaps(other) for other in taken):
                    taken.append(box)
                    break
            else:
                label.text.set_visible(False)

    @staticmethod
    def _is_within(axes: Any, box: Bbox) -> bool:
        whole = axes.bbox
        return bool(whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 - _APART <= box.y0 and box.y1 <= whole.y1)

    def shown(self) -> Iterator[Annotation]:
        """The labels that have a place."""
        return (label.text for label in self._labels if label.text.get_visible())
