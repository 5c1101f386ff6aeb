"""
The bounds over a span of time: intervals of constant bounds, and marks for events that a person wants to see coming.

Nothing is decided here. Each interval has the bounds that `bounds.resolve` gives at its begin. The walk goes from edge
to edge, so the cost of a year is its number of edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from itertools import chain, groupby, pairwise
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.model.decision import Lead, SourceRef, WindowState
from cronhpa.core.model.instant import DAY, Nanoseconds, to_datetime
from cronhpa.core.model.observation import Crowd
from cronhpa.core.model.spec import CronWindow, OnceWindow, Schedule, Spec
from cronhpa.core.schedules import calendars, cron, wall_clock
from cronhpa.core.schedules.bounds import Bounds, holds_until, resolve
from cronhpa.core.schedules.conflicts import conflicts

# A window that opens every other minute has 262,800 edges a year, more than anyone reads or waits for.
INTERVALS_MAX = 20_000
OVERRIDE = "override"
"""How the status names an override among the schedules."""


class BoundsInterval(Struct, frozen=True):
    """The bounds from `start` to `end`, with their sources."""

    start: Nanoseconds
    end: Nanoseconds
    minimum: int
    maximum: int
    minimum_by: SourceRef
    maximum_by: SourceRef
    headroom_percent: int
    open: tuple[str, ...]
    """The schedules whose windows are open, and the override while it is in force."""
    leading: tuple[str, ...]
    """The schedules whose bounds count before their start."""
    conflict: str
    """Bounds of equal rank that contradict each other, in words."""


class MarkKind(StrEnum):
    """The event of a mark."""

    CLOCK_CHANGE = "ClockChange"
    EXCLUDED = "Excluded"  # a day on which a window does not open
    INCLUDED = "Included"  # one of the few days on which a window opens
    CONFLICT = "Conflict"
    SELF_CONFLICT = "SelfConflict"  # a window that can never open, or starts again before it is over
    UNREADABLE = "Unreadable"


class Mark(Struct, frozen=True):
    """An event within a timeline, in words."""

    kind: MarkKind
    start: Nanoseconds
    end: Nanoseconds | None
    """None for an event at one instant."""
    text: str
    schedules: tuple[str, ...] = ()
    """The names concerned."""


class WindowInterval(Struct, frozen=True):
    """A window, or its lead, between two instants; cut where the timeline begins and ends."""

    name: str
    start: Nanoseconds
    end: Nanoseconds
    leads: bool


class Timeline(Struct, frozen=True):
    """The bounds from `start` to `end`. The segments leave no gap; the marks are in order of time."""

    start: Nanoseconds
    end: Nanoseconds
    segments: tuple[BoundsInterval, ...]
    marks: tuple[Mark, ...]
    is_cut: bool
    """Whether the timeline ends early, at INTERVALS_MAX intervals."""

    @property
    def conflicts(self) -> tuple[Mark, ...]:
        """The intervals in which bounds contradict each other."""
        return tuple(mark for mark in self.marks if mark.kind is MarkKind.CONFLICT)

    @property
    def is_consistent(self) -> bool:
        """Whether the timeline has no conflict."""
        return all(mark.kind not in {MarkKind.CONFLICT, MarkKind.SELF_CONFLICT} for mark in self.marks)


def timeline(
    spec: Spec,
    start: Nanoseconds,
    end: Nanoseconds,
    *,
    zones: Iterable[str] = (),
    start_up: Nanoseconds | None = None,
    leads: tuple[Lead, ...] = (),
    crowd: Crowd | None = None,
) -> Timeline:
    """
    The bounds from `start` to `end`; `start` must lie before `end`.

    zones: their clock changes are marked, besides those of the schedules' zones. start_up, leads, crowd: as for
    `resolve`, at `start`; the start-up time is assumed to stay the same.
    """
    assert start < end, "a timeline has a length"
    segments: list[BoundsInterval] = []
    is_cut = False
    for segment in _walk(spec, start, end, start_up, leads, crowd):
        if segments and _is_alike(segments[-1], segment):
            segments[-1] = replace(segments[-1], end=segment.end)
        elif len(segments) == INTERVALS_MAX:
            end, is_cut = segments[-1].end, True
            break
        else:
            segments.append(segment)
    marks = chain(
        _conflicts(segments),
        _self_conflicts(spec, start),
        _clock_changes(spec, start, end, zones),
        _exceptions(spec, start, end),
        _unreadable(spec, start),
    )
    return Timeline(start, end, tuple(segments), tuple(sorted(marks, key=lambda mark: mark.start)), is_cut)


def window_intervals(timeline: Timeline) -> list[WindowInterval]:
    """The intervals in which windows are open or lead, in order of their start."""
    out: list[WindowInterval] = []
    last: dict[tuple[str, bool], int] = {}
    for segment in timeline.segments:
        for name, leads in (*((name, False) for name in segment.open), *((name, True) for name in segment.leading)):
            at = last.get((name, leads))
            if at is not None and out[at].end == segment.start:
                out[at] = replace(out[at], end=segment.end)
            else:
                last[name, leads] = len(out)
                out.append(WindowInterval(name, segment.start, segment.end, leads))
    return out


def _walk(
    spec: Spec,
    start: Nanoseconds,
    end: Nanoseconds,
    start_up: Nanoseconds | None,
    leads: tuple[Lead, ...],
    crowd: Crowd | None,
) -> Iterator[BoundsInterval]:
    at = start
    while at < end:
        bounds = resolve(spec, at, start_up, leads, crowd)
        leads = bounds.leads
        until = min(end, holds_until(spec, bounds, at))
        yield _interval(spec, bounds, at, until)
        at = until


def _interval(spec: Spec, bounds: Bounds, start: Nanoseconds, end: Nanoseconds) -> BoundsInterval:
    is_open = [state.name for state in bounds.windows if state.state is WindowState.OPEN]
    if spec.override is not None and start < spec.override.until:
        is_open.append(OVERRIDE)
    return BoundsInterval(
        start=start,
        end=end,
        minimum=bounds.minimum,
        maximum=bounds.maximum,
        minimum_by=bounds.minimum_by,
        maximum_by=bounds.maximum_by,
        headroom_percent=bounds.headroom_percent,
        open=tuple(is_open),
        leading=tuple(state.name for state in bounds.windows if state.state is WindowState.LEADING),
        conflict=bounds.conflict,
    )


def _is_alike(one: BoundsInterval, other: BoundsInterval) -> bool:
    return replace(one, start=0, end=0) == replace(other, start=0, end=0)


# --- marks -------------------------------------------------------------------------------------------------------


def _conflicts(segments: Iterable[BoundsInterval]) -> Iterator[Mark]:
    """One mark for each interval in which the same bounds contradict each other."""
    mark: Mark | None = None
    for segment in segments:
        if mark is not None and (mark.end, mark.text) == (segment.start, segment.conflict):
            mark = replace(mark, end=segment.end)
            continue
        if mark is not None:
            yield mark
        mark = Mark(MarkKind.CONFLICT, segment.start, segment.end, segment.conflict) if segment.conflict else None
    if mark is not None:
        yield mark


def _self_conflicts(spec: Spec, start: Nanoseconds) -> Iterator[Mark]:
    # The segments already have the contradictions between schedules, at each occurrence.
    for conflict in conflicts(spec, start):
        if conflict.reason != "Contradiction":
            yield Mark(MarkKind.SELF_CONFLICT, start, None, conflict.text)


def _unreadable(spec: Spec, start: Nanoseconds) -> Iterator[Mark]:
    for schedule in spec.schedules:
        if schedule.problem is not None:
            text = f"{schedule.name} cannot be read: {schedule.problem}"
            yield Mark(MarkKind.UNREADABLE, start, None, text, (schedule.name,))


def _exceptions(spec: Spec, start: Nanoseconds, end: Nanoseconds) -> Iterator[Mark]:
    """The days whose starts `exclude` drops, and those that `only` keeps; consecutive days share a mark."""
    for schedule in spec.schedules:
        window = schedule.window
        if schedule.problem is not None or schedule.suspend or not isinstance(window, CronWindow):
            continue
        days_named = ((*_exception(window, day), day) for day in _start_dates(window, start, end))
        for (kind, reason), group in groupby(days_named, key=lambda named: named[:2]):
            days = [day for _, _, day in group]
            if kind is None:
                continue
            first, last = (_first_start(window, day) for day in (days[0], days[-1]))
            verb = "does not open" if kind is MarkKind.EXCLUDED else "opens"
            until = "" if first == last else f" until {days[-1]:%a} {days[-1]}"
            text = f"{schedule.name} {verb}{until}: {reason}"
            yield Mark(kind, first, None if first == last else last, text, (schedule.name,))


def _exception(window: CronWindow, day: date) -> tuple[MarkKind | None, str]:
    """Whether the exceptions drop or keep the starts on a date, and the name of the date."""
    if window.exclude is not None:
        dropped = calendars.reason(window.exclude, day)
        if dropped is not None:
            return MarkKind.EXCLUDED, dropped
    included = None if window.only is None else calendars.reason(window.only, day)
    return (None, "") if included is None else (MarkKind.INCLUDED, included)


def _start_dates(window: CronWindow, start: Nanoseconds, end: Nanoseconds) -> Iterator[date]:
    """The dates on which a window with exceptions has starts, the first of them within the span."""
    if window.exclude is None and window.only is None:
        return
    info = ZoneInfo(window.zone)
    day = cron.date_from(window.start, to_datetime(start).astimezone(info).date())
    while day is not None and _first_start(window, day) < end:
        if _first_start(window, day) >= start:
            yield day
        day = cron.date_from(window.start, day + timedelta(days=1))


def _first_start(window: CronWindow, day: date) -> Nanoseconds:
    wall = datetime.combine(day, time()) + timedelta(minutes=cron.minutes(window.start)[0])
    return wall_clock.to_instant(wall, window.zone, is_end=False)


def _clock_changes(spec: Spec, start: Nanoseconds, end: Nanoseconds, zones: Iterable[str]) -> Iterator[Mark]:
    schedules = [schedule for schedule in spec.schedules if schedule.problem is None and not schedule.suspend]
    for zone in sorted({*zones, *(schedule.window.zone for schedule in schedules)}):
        for change in clock_changes(zone, start, end):
            moved = [schedule for schedule in schedules if schedule.window.zone == zone and _touches(schedule, change)]
            yield Mark(
                MarkKind.CLOCK_CHANGE, change.at, None, _told(change, moved), tuple(schedule.name for schedule in moved)
            )


class ClockChange(Struct, frozen=True):
    """The instant at which the clocks of a zone go from the local time `before` to `after`."""

    zone: str
    at: Nanoseconds
    before: datetime
    after: datetime

    @property
    def is_gap(self) -> bool:
        return self.before < self.after


def clock_changes(zone: str, start: Nanoseconds, end: Nanoseconds) -> Iterator[ClockChange]:
    """The clock changes of a zone after `start` and before `end`."""
    for day in range(start // DAY, (end - 1) // DAY + 1):
        for (_, before), (at, after) in pairwise(wall_clock.offsets_on(zone, day)):
            if start < at < end:
                yield ClockChange(zone, at, _wall(at + before), _wall(at + after))


def _wall(shown: Nanoseconds) -> datetime:
    """The wall time of an instant that encodes it as if in UTC."""
    return to_datetime(shown).replace(tzinfo=None)


def _touches(schedule: Schedule, change: ClockChange) -> bool:
    """Whether a start or an end lies in local time that the clock change skips or repeats."""
    first, behind = min(change.before, change.after), max(change.before, change.after)
    if isinstance(schedule.window, OnceWindow):
        walls = (datetime.fromisoformat(text) for text in (schedule.window.opens, schedule.window.closes))
        return any(first <= wall < behind for wall in walls)
    texts = (text for text in (schedule.window.start, schedule.window.end) if text is not None)
    before = first - timedelta(minutes=1)
    return any(next(iter(cron.forwards(text, before)), behind) < behind for text in texts)


def _told(change: ClockChange, moved: list[Schedule]) -> str:
    is_whole = (change.before.second, change.after.second) == (0, 0)
    before, after = (f"{wall:%H:%M}" if is_whole else f"{wall:%H:%M:%S}" for wall in (change.before, change.after))
    text = f"{change.zone}: the clocks go from {before} to {after}"
    names = ", ".join(schedule.name for schedule in moved)
    if names and change.is_gap:
        text += f"; an edge of {names} is skipped and moves to {after}"
    elif names:
        text += f"; an edge of {names} comes twice: a start is the first, an end the second"
    return text
