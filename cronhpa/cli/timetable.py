"""A timeline in writing: the table of `cronhpa preview`, and its JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, time
from itertools import groupby
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cronhpa.cli.lines import shown
from cronhpa.cli.moments import format_clock, format_length, format_moment, local
from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.memory import START_UP_UNKNOWN
from cronhpa.core.printable import printable
from cronhpa.core.scheduled.timeline import BoundsInterval, Kind, Mark, Timeline, window_intervals
from cronhpa.core.spec import Spec


class Subject(Struct, frozen=True):
    """
    An object whose bounds are shown. label: namespace and name. zone: which local times are shown.

    start_up: how long its pods take to be Ready, None where that is not known.
    """

    label: str
    spec: Spec
    zone: str
    timeline: Timeline
    start_up: Nanoseconds | None = None


# --- the table ---------------------------------------------------------------------------------------------------


def conflict_texts(line: Timeline) -> list[str]:
    """The different conflicts, in the order of their first: their number is their place here, from 1."""
    return list(dict.fromkeys(mark.text for mark in line.conflicts))


class _Row(Struct, frozen=True):
    """A segment with the marks that lie in it."""

    segment: BoundsInterval
    marks: tuple[Mark, ...]


# Shorter runs of days that repeat are printed: a line that stands for them would save nothing.
_SKIPPED_MIN = 4
# So often a weekday is the same for it to be usual.
_HABIT = 3


def table(subject: Subject, *, every: bool) -> Iterator[RenderableType]:
    """
    What is printed for an object: a heading, the table, the conflicts.

    every: whether days are printed, too, that are as that weekday usually is.
    """
    spec, line, zone = subject.spec, subject.timeline, subject.zone
    begin, end = format_moment(line.start, zone), format_moment(line.end, zone)
    yield Text(printable(f"{subject.label}: {spec.target.kind}/{spec.target.name}"), style="bold")
    yield Text(f"{begin} to {end} in {zone}; by its spec {spec.min_replicas} to {spec.max_replicas} replicas")
    if any(item.leading for item in line.segments) and any(item.lead is None for item in spec.schedules):
        known = START_UP_UNKNOWN if subject.start_up is None else subject.start_up
        guess = ", which is a guess until it is learned" if subject.start_up is None else ""
        yield Text(f"measured leads: a pod is taken to be Ready {format_length(known)} after it is asked for{guess}")
    texts = conflict_texts(line)
    headed = any(segment.headroom_percent for segment in line.segments)
    out = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    out.add_column("FROM", no_wrap=True)
    out.add_column("LASTS", justify="right", no_wrap=True)
    for bound in ("MIN", "MAX"):
        out.add_column(bound, justify="right", no_wrap=True)
        out.add_column("BY", no_wrap=True)
    if headed:
        out.add_column("HEADROOM", justify="right", no_wrap=True)
    out.add_column("OPEN")
    out.add_column("NOTES")
    for rows, are_usual in _runs(_rows(line), zone, every=every):
        if are_usual:
            until = format_moment(rows[-1].segment.end, zone)
            out.add_row("...", *[""] * (6 + headed), f"as usual until {until}", style="dim")
            continue
        for row in rows:
            out.add_row(
                *map(shown, _cells(row, zone, texts, headed=headed)), style="red" if row.segment.conflict else ""
            )
    yield out
    if line.is_cut:
        yield Text("It is cut here: there is more to tell than anybody reads. Ask for less with --to.", style="yellow")
    yield from _conflicts(line, texts, zone)


def _cells(row: _Row, zone: str, conflicts: list[str], *, headed: bool) -> list[str]:
    segment = row.segment
    names = [*segment.open, *(f"{name} (lead)" for name in segment.leading)]
    notes = [_note(mark, segment, zone) for mark in row.marks if mark.kind is not Kind.CONFLICT]
    if segment.conflict:
        notes.insert(0, f"conflict {conflicts.index(segment.conflict) + 1}")
    return [
        format_moment(segment.start, zone),
        format_length(segment.end - segment.start),
        str(segment.minimum),
        str(segment.minimum_by),
        str(segment.maximum),
        str(segment.maximum_by),
        *([f"{segment.headroom_percent} %" if segment.headroom_percent else ""] if headed else []),
        ", ".join(names),
        "\n".join(notes),
    ]


def _note(mark: Mark, segment: BoundsInterval, zone: str) -> str:
    """With its time where that is not the row's own; with its date where it is another day."""
    if mark.start == segment.start:
        return mark.text
    is_same_day = local(mark.start, zone).date() == local(segment.start, zone).date()
    return f"{format_clock(mark.start, zone) if is_same_day else format_moment(mark.start, zone)}: {mark.text}"


def _rows(line: Timeline) -> list[_Row]:
    marks = list(line.marks)
    rows = []
    for segment in line.segments:
        within = tuple(mark for mark in marks if mark.start < segment.end)
        rows.append(_Row(segment, within))
        marks = marks[len(within) :]
    return rows


def _runs(rows: list[_Row], zone: str, *, every: bool) -> Iterator[tuple[list[_Row], bool]]:
    """
    Runs of rows, each with whether it only repeats what was printed before.

    A row belongs to the local day on which it begins. What a weekday was several times is usual, until it usually is
    something else: clock changes in another zone move edges for half a year, a holiday is no habit.
    """
    days: dict[date, list[_Row]] = {}
    for row in rows:
        days.setdefault(local(row.segment.start, zone).date(), []).append(row)
    patterns = {day: tuple(_pattern(row, zone) for row in of_day) for day, of_day in days.items()}
    counts = Counter((day.weekday(), pattern) for day, pattern in patterns.items())
    usual: dict[int, tuple[Pattern, ...]] = {}

    def repeats(item: tuple[date, list[_Row]]) -> bool:
        weekday, pattern = item[0].weekday(), patterns[item[0]]
        if usual.get(weekday) == pattern:
            return not every
        if counts[weekday, pattern] >= _HABIT:
            usual[weekday] = pattern
        return False

    for are_usual, group in groupby(days.items(), key=repeats):
        run = [row for _, of_day in group for row in of_day]
        yield run, are_usual and len(run) >= _SKIPPED_MIN


def _pattern(row: _Row, zone: str) -> Pattern:
    """What must be equal for two rows to be alike: the local time, how long it lasts, and all that is said of it."""
    segment = row.segment
    marks = tuple((mark.start - segment.start, mark.text) for mark in row.marks)
    said = msgspec.structs.replace(segment, start=0, end=segment.end - segment.start)
    return (local(segment.start, zone).time(), said, marks)


Pattern: TypeAlias = tuple[time, BoundsInterval, tuple[tuple[Nanoseconds, str], ...]]


def _conflicts(line: Timeline, texts: list[str], zone: str) -> Iterator[Text]:
    for number, text in enumerate(texts, start=1):
        times = [mark.start for mark in line.conflicts if mark.text == text]
        count = "once, " if len(times) == 1 else f"{len(times)} times, first "
        yield Text(printable(f"conflict {number}, {count}{format_moment(times[0], zone)}: {text}"), style="red")


# --- JSON --------------------------------------------------------------------------------------------------------


def as_json(subjects: Iterable[Subject]) -> str:
    """A list with an object for each subject; times are RFC 3339 with the offset of the zone shown."""
    return msgspec.json.format(msgspec.json.encode([_object(subject) for subject in subjects]), indent=2).decode()


def _object(subject: Subject) -> dict[str, Any]:
    line, zone = subject.timeline, subject.zone
    return {
        "name": subject.label,
        "timeZone": zone,
        "from": _time(line.start, zone),
        "to": _time(line.end, zone),
        "podStartupSeconds": None if subject.start_up is None else subject.start_up // SECOND,
        "isCut": line.is_cut,
        "segments": [_interval(item, zone) for item in line.segments],
        "windows": [
            {"schedule": item.name, "from": _time(item.start, zone), "to": _time(item.end, zone), "leads": item.leads}
            for item in window_intervals(line)
        ],
        "marks": [_mark(item, zone) for item in line.marks],
    }


def _interval(item: BoundsInterval, zone: str) -> dict[str, Any]:
    return {
        "from": _time(item.start, zone),
        "to": _time(item.end, zone),
        "minReplicas": item.minimum,
        "minReplicasBy": str(item.minimum_by),
        "maxReplicas": item.maximum,
        "maxReplicasBy": str(item.maximum_by),
        "headroomPercent": item.headroom_percent,
        "open": item.open,
        "leading": item.leading,
        "conflict": item.conflict or None,
    }


def _mark(item: Mark, zone: str) -> dict[str, Any]:
    return {
        "kind": str(item.kind),
        "from": _time(item.start, zone),
        "to": None if item.end is None else _time(item.end, zone),
        "schedules": item.schedules,
        "text": item.text,
    }


def _time(at: Nanoseconds, zone: str) -> str:
    return local(at, zone).isoformat(timespec="seconds")
