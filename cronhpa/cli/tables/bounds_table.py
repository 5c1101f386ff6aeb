"""
A timeline as text: the table of `cronhpa preview`, and its JSON.

A table fits 80 columns: notes and long lists of schedules have lines of their own.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from cronhpa.cli.tables.time_format import (
    format_clock,
    format_length,
    format_local,
    format_moment,
    format_offset,
    local,
)
from cronhpa.core.model.decision import Source, SourceRef
from cronhpa.core.model.instant import SECOND, Nanoseconds, to_datetime
from cronhpa.core.model.memory import START_UP_UNKNOWN
from cronhpa.core.model.observation import Crowd
from cronhpa.core.model.printable import printable
from cronhpa.core.model.spec import Mode, Spec
from cronhpa.core.reasons import crowd_reason
from cronhpa.core.schedules.timeline import OVERRIDE, BoundsInterval, Mark, MarkKind, Timeline, window_intervals


class BoundsSubject(Struct, frozen=True):
    """An object whose bounds are shown."""

    label: str
    """Namespace and name."""
    spec: Spec
    zone: str
    """The zone of the local times that are shown."""
    timeline: Timeline
    start_up: Nanoseconds | None = None
    """How long its pods take to become Ready, None while unknown."""
    crowd: Crowd | None = None
    """The crowd at its next start, None while unknown."""


class StyledLine(Struct, frozen=True):
    """A line of text, printable, and the style of it on a terminal."""

    text: str
    style: str = ""


class BoundsRow(Struct, frozen=True):
    """A row of the table: interval, minimum, maximum, their sources, and the notes below it."""

    start: Nanoseconds
    end: Nanoseconds
    minimum: str
    maximum: str
    by: str
    notes: tuple[str, ...] = ()
    style: str = ""
    pattern: object = None
    """Rows of different days with equal patterns are alike."""


# --- the table ---------------------------------------------------------------------------------------------------


def conflict_texts(line: Timeline) -> list[str]:
    """The distinct conflicts in the order of their first occurrence. A conflict's number is its place, from 1."""
    return list(dict.fromkeys(mark.text for mark in line.conflicts))


# Shorter runs of repeated days are printed: the line that replaces them would save nothing.
_SKIPPED_MIN = 4
# A weekday is usual after so many equal occurrences.
_HABIT = 3
_GAP = "  "
_INDENT = "    "


def table(subject: BoundsSubject, *, every: bool, width: int) -> Iterator[StyledLine]:
    """
    The lines for an object: a heading, the table, the conflicts.

    every: whether to print also the days that are as usual for their weekday.
    """
    spec, line = subject.spec, subject.timeline
    bounds = f"{spec.min_replicas} to {spec.max_replicas} replicas by its spec"
    yield from wrapped(f"{subject.label}: {spec.target.kind}/{spec.target.name}, {bounds}", width, style="bold")
    yield from span(subject, width)
    if any(segment.leading for segment in line.segments) and any(schedule.lead is None for schedule in spec.schedules):
        start_up = START_UP_UNKNOWN if subject.start_up is None else subject.start_up
        guess = ", a guess until it is measured" if subject.start_up is None else ""
        yield from wrapped(f"leads: a pod is Ready {format_length(start_up)} after it is asked for{guess}", width)
        if subject.crowd is not None and subject.crowd.delay(subject.crowd.start) and subject.crowd.start > line.start:
            at = to_datetime(subject.crowd.start).astimezone(ZoneInfo(subject.zone))
            yield from wrapped(f"crowd at {at:%a %Y-%m-%d %H:%M}: {crowd_reason(subject.crowd)}", width)
    if spec.fallback is not None:
        wait = f" for {format_length(spec.fallback.after)}" if spec.fallback.after else ""
        text = f"fallback: at least {spec.fallback.replicas} once a metric is unknown{wait}: not shown here"
        yield from wrapped(text, width)
    if spec.forecast is not None:
        does = "asks for more within MAX by the load to come" if spec.forecast.mode is Mode.ACTIVE else "only reports"
        yield from wrapped(f"forecast: it {does}: not shown here, see cronhpa backtest", width)
    texts = conflict_texts(line)
    moments = TimeFormat.of(subject)
    rows = [_row(segment, marks, subject, texts, moments) for segment, marks in _with_marks(line)]
    yield from rows_as_lines(rows, subject, every=every, width=width)
    if line.is_cut:
        text = "It is cut here: there is more to tell than anybody reads. Ask for less with --to."
        yield from wrapped(text, width, style="yellow")
    yield from told_conflicts(subject, texts, width)


def span(subject: BoundsSubject, width: int) -> Iterator[StyledLine]:
    """The begin and the end of the timeline, and its zone."""
    line, moments = subject.timeline, TimeFormat.of(subject)
    offset = f" (UTC{format_offset(line.start, subject.zone)})" if moments.is_short else ""
    yield from wrapped(f"{moments.told(line.start)} to {moments.told(line.end)}, {subject.zone}{offset}", width)


class TimeFormat(Struct, frozen=True):
    """Formats times. If all have the same offset from UTC, the heading states it, and the times omit it."""

    zone: str
    is_short: bool

    @classmethod
    def of(cls, subject: BoundsSubject) -> TimeFormat:
        line, zone = subject.timeline, subject.zone
        times = (*(segment.start for segment in line.segments), *(mark.start for mark in line.marks), line.end)
        return cls(zone, len({local(at, zone).utcoffset() for at in times}) == 1)

    def told(self, at: Nanoseconds) -> str:
        return (format_local if self.is_short else format_moment)(at, self.zone)

    def clock(self, at: Nanoseconds) -> str:
        text = format_clock(at, self.zone)
        return text.partition(" ")[0] if self.is_short else text


def rows_as_lines(
    rows: Sequence[BoundsRow], subject: BoundsSubject, *, every: bool, width: int
) -> Iterator[StyledLine]:
    """The rows in columns, a line for each run of days that is as usual."""
    zone, moments = subject.zone, TimeFormat.of(subject)
    cells = [("FROM", "LASTS", "MIN", "MAX")]
    cells += [(moments.told(row.start), format_length(row.end - row.start), row.minimum, row.maximum) for row in rows]
    first, *others = (max(len(texts[column]) for texts in cells) for column in range(4))

    def columns(texts: tuple[str, ...]) -> str:
        rights = (text.rjust(size) for text, size in zip(texts[1:], others, strict=True))
        return _GAP.join((texts[0].ljust(first), *rights))

    begins = len(columns(cells[0])) + len(_GAP)
    yield StyledLine(f"{columns(cells[0])}{_GAP}BY" if any(row.by for row in rows) else columns(cells[0]), "dim")
    texts_of = dict(zip((row.start for row in rows), cells[1:], strict=True))
    for run, are_usual in _runs(rows, zone, every=every):
        if are_usual:
            yield StyledLine(f"... as usual until {moments.told(run[-1].end)}", "dim")
            continue
        for row in run:
            by = printable(row.by)
            is_beside = len(by) <= width - begins
            yield StyledLine(f"{columns(texts_of[row.start])}{_GAP}{by if is_beside else ''}".rstrip(), row.style)
            if not is_beside:
                yield from wrapped(f"by {by}", width, indent=_INDENT, style=row.style)
            for note in row.notes:
                yield from wrapped(note, width, indent=_INDENT, style=row.style)


def wrapped(text: str, width: int, *, indent: str = "", style: str = "") -> Iterator[StyledLine]:
    """A text wrapped at a width; the second and later lines are indented further."""
    further = indent + "  "
    # A name is not broken at its hyphens: it is there to be copied.
    lines = textwrap.wrap(
        printable(text), width, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False
    )
    return (StyledLine(line, style) for line in lines)


def who(segment: BoundsInterval, spec: Spec) -> str:
    """
    The schedules that are open or lead, each with the bounds that it sets; "" if the spec alone sets them.

    `day` sets both bounds, `day (min)` one of them; schedules without an effect come last.
    """
    effects = [
        (name, _effects(name, segment, spec, leads=leads))
        for names, leads in ((segment.open, False), (segment.leading, True))
        for name in names
    ]
    acting = ", ".join(name if words == _BOUNDS else f"{name} ({', '.join(words)})" for name, words in effects if words)
    idle = ", ".join(name for name, words in effects if not words)
    return "; ".join(part for part in (acting, f"no effect: {idle}" if idle else "") if part)


_BOUNDS = ["min", "max"]


def _effects(name: str, segment: BoundsInterval, spec: Spec, *, leads: bool) -> list[str]:
    """The bounds that a schedule sets, its headroom, and whether it only leads."""
    references = {str(SourceRef(Source.SCHEDULE, name)), *(("Override",) if name == OVERRIDE else ())}
    sources = zip(_BOUNDS, (segment.minimum_by, segment.maximum_by), strict=True)
    words = [word for word, by in sources if str(by) in references]
    headroom = next((schedule.headroom_percent for schedule in spec.schedules if schedule.name == name), 0)
    if headroom and headroom == segment.headroom_percent:
        words.append(f"+{headroom} % load")
    return [*words, "lead"] if leads and words else words


def _row(
    segment: BoundsInterval, marks: Sequence[Mark], subject: BoundsSubject, conflicts: list[str], moments: TimeFormat
) -> BoundsRow:
    notes = [_note(mark, segment, moments) for mark in marks if mark.kind is not MarkKind.CONFLICT]
    if segment.conflict:
        notes.insert(0, f"conflict {conflicts.index(segment.conflict) + 1}")
    # The pattern: the local time, the length, and everything that is printed about the segment.
    relative = msgspec.structs.replace(segment, start=0, end=segment.end - segment.start)
    relative_marks = tuple((mark.start - segment.start, mark.text) for mark in marks)
    return BoundsRow(
        start=segment.start,
        end=segment.end,
        minimum=str(segment.minimum),
        maximum=str(segment.maximum),
        by=who(segment, subject.spec),
        notes=tuple(notes),
        style="red" if segment.conflict else "",
        pattern=(local(segment.start, subject.zone).time(), relative, relative_marks),
    )


def _note(mark: Mark, segment: BoundsInterval, moments: TimeFormat) -> str:
    """The text of a mark, with its time if that is not the row's, and with its date if it is another day."""
    if mark.start == segment.start:
        return mark.text
    days = {local(at, moments.zone).date() for at in (mark.start, segment.start)}
    return f"{(moments.clock if len(days) == 1 else moments.told)(mark.start)}: {mark.text}"


def _with_marks(line: Timeline) -> Iterator[tuple[BoundsInterval, tuple[Mark, ...]]]:
    """The segments, each with the marks that lie in it."""
    first = 0
    for segment in line.segments:
        last = first
        while last < len(line.marks) and line.marks[last].start < segment.end:
            last += 1
        yield segment, line.marks[first:last]
        first = last


def _runs(rows: Sequence[BoundsRow], zone: str, *, every: bool) -> Iterator[tuple[list[BoundsRow], bool]]:
    """
    Runs of rows, each with whether it only repeats rows that were printed before.

    A row belongs to the local day on which it begins. A pattern that a weekday has _HABIT times or more is usual from
    its first day on, until another such pattern comes: clock changes in another zone move edges for half a year, but a
    holiday is no habit.
    """
    days: dict[date, list[BoundsRow]] = {}
    for row in rows:
        days.setdefault(local(row.start, zone).date(), []).append(row)
    patterns = {day: tuple(row.pattern for row in of_day) for day, of_day in days.items()}
    counts = Counter((day.weekday(), pattern) for day, pattern in patterns.items())
    usual: dict[int, tuple[object, ...]] = {}

    def repeats(dated_rows: tuple[date, list[BoundsRow]]) -> bool:
        weekday, pattern = dated_rows[0].weekday(), patterns[dated_rows[0]]
        if usual.get(weekday) == pattern:
            return not every
        if counts[weekday, pattern] >= _HABIT:
            usual[weekday] = pattern
        return False

    for are_usual, group in groupby(days.items(), key=repeats):
        run = [row for _, of_day in group for row in of_day]
        yield run, are_usual and len(run) >= _SKIPPED_MIN


def told_conflicts(subject: BoundsSubject, texts: Sequence[str], width: int) -> Iterator[StyledLine]:
    """A line for each of these conflicts, with its number and how often it occurs."""
    moments = TimeFormat.of(subject)
    for number, text in enumerate(texts, start=1):
        times = [mark.start for mark in subject.timeline.conflicts if mark.text == text]
        count = "once, " if len(times) == 1 else f"{len(times)} times, first "
        yield from wrapped(f"conflict {number}, {count}{moments.told(times[0])}: {text}", width, style="red")


# --- JSON --------------------------------------------------------------------------------------------------------


def as_json(subjects: Iterable[BoundsSubject]) -> str:
    """A list with an object for each subject; times are RFC 3339 with the offset of the zone shown."""
    return msgspec.json.format(msgspec.json.encode([_object(subject) for subject in subjects]), indent=2).decode()


def _object(subject: BoundsSubject) -> dict[str, Any]:
    line, zone = subject.timeline, subject.zone
    return {
        "name": subject.label,
        "timeZone": zone,
        "from": _time(line.start, zone),
        "to": _time(line.end, zone),
        "podStartupSeconds": None if subject.start_up is None else subject.start_up // SECOND,
        "isCut": line.is_cut,
        "segments": [_interval(segment, zone) for segment in line.segments],
        "windows": [
            {
                "schedule": interval.name,
                "from": _time(interval.start, zone),
                "to": _time(interval.end, zone),
                "leads": interval.leads,
            }
            for interval in window_intervals(line)
        ],
        "marks": [_mark(mark, zone) for mark in line.marks],
    }


def _interval(interval: BoundsInterval, zone: str) -> dict[str, Any]:
    return {
        "from": _time(interval.start, zone),
        "to": _time(interval.end, zone),
        "minReplicas": interval.minimum,
        "minReplicasBy": str(interval.minimum_by),
        "maxReplicas": interval.maximum,
        "maxReplicasBy": str(interval.maximum_by),
        "headroomPercent": interval.headroom_percent,
        "open": interval.open,
        "leading": interval.leading,
        "conflict": interval.conflict or None,
    }


def _mark(mark: Mark, zone: str) -> dict[str, Any]:
    return {
        "kind": str(mark.kind),
        "from": _time(mark.start, zone),
        "to": None if mark.end is None else _time(mark.end, zone),
        "schedules": mark.schedules,
        "text": mark.text,
    }


def _time(at: Nanoseconds, zone: str) -> str:
    return local(at, zone).isoformat(timespec="seconds")
