"""
Windows: open or closed at an instant, and until when.

open(t): let s be the latest start <= t. With `end`: open if s is kept and no end lies in (s, t]. Without: open if s is
kept and t < s + duration. `occurrences` computes starts and ends and drops starts; `wall_clock` computes instants.

The cache holds results that depend on window and day only. Its entries are deleted with the window; objects with equal
windows share them (`parse_spec` makes equal windows one object).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from datetime import date, datetime
from itertools import pairwise
from zlib import crc32

from msgspec import Struct

from cronhpa.core.cache import OwnedCache
from cronhpa.core.instant import DAY, MINUTE, Nanoseconds
from cronhpa.core.scheduled import cron
from cronhpa.core.scheduled.occurrences import PlainDays, next_date, occurrences_on, start_date
from cronhpa.core.scheduled.wall_clock import (
    ONE_DAY,
    dates_near_change,
    steady_offset,
    to_instant,
    to_instants,
    utc_date,
    utc_midnight,
)
from cronhpa.core.spec import CronWindow, OnceWindow

# The end of a window that its own starts keep open (hourly, for two hours) is unknown if the search finds none within
# this many dates with starts, or this many years.
_DATES_MAX = 366
_YEARS_MAX = 41
_OVERLAP_DATES_MAX = 64


class State(Struct, frozen=True, gc=False):
    """Whether a window is open, and the instant at which that changes; None if that instant is not known."""

    is_open: bool
    until: Nanoseconds | None


class _WindowDay(Struct, frozen=True, gc=False):
    """
    A day of a window. Its state is `is_open` until the first edge, and changes at each edge.

    begin: of the day. edges: nanoseconds after it, eight bytes each, as a window may have an edge a minute. following:
    the first edge after the day.
    """

    begin: Nanoseconds
    is_open: bool
    edges: array[int]
    following: Nanoseconds | None

    def at(self, now: Nanoseconds) -> State:
        passed = bisect_right(self.edges, now - self.begin)
        until = self.begin + self.edges[passed] if passed < len(self.edges) else self.following
        return State(self.is_open ^ bool(passed % 2), until)


class _Computed(Struct):
    """
    What was computed of a window: `phase`, see `_phase`; its last days by number; the date of the last search for
    starts within its own duration, and the first one found.
    """

    phase: Nanoseconds
    days: dict[int, _WindowDay] = {}
    overlap: tuple[date, Nanoseconds | None] | None = None


# One day for now, one for the time behind the next edge, and two for starts ahead.
_DAYS_KEPT = 4
# Bytes of a window's entry, and of a day without its edges.
_COMPUTED_WEIGHT, _DAY_WEIGHT, _EDGE_WEIGHT = 500, 300, 8
# 50,000 windows with two edges a day each, or a day of 5,000 with an edge a minute.
_COMPUTED: OwnedCache[CronWindow, _Computed] = OwnedCache(64 * 2**20)
_ONCE: OwnedCache[OnceWindow, tuple[Nanoseconds, Nanoseconds]] = OwnedCache(16 * 2**20)
_ONCE_WEIGHT = 350


def state(window: CronWindow | OnceWindow, now: Nanoseconds) -> State:
    """The state of a window; `cron.problem`, `calendars.problem` and `zone_problem` must be None for its texts."""
    if isinstance(window, OnceWindow):
        opens, closes = once(window)
        if now < opens:
            return State(is_open=False, until=opens)
        return State(is_open=now < closes, until=closes if now < closes else None)
    computed = _computed(window)
    day = (now + computed.phase) // DAY
    day_of_window = computed.days.get(day)
    if day_of_window is None:
        day_of_window = _window_day(window, day * DAY - computed.phase)
        # A new dictionary: a thread may be reading the old one.
        days = {**computed.days, day: day_of_window}
        _keep(window, _Computed(computed.phase, dict([*days.items()][-_DAYS_KEPT:]), computed.overlap))
    return day_of_window.at(now)


def once(window: OnceWindow) -> tuple[Nanoseconds, Nanoseconds]:
    """The instants at which a planned event opens and closes."""
    instants = _ONCE.get(window)
    if instants is None:
        instants = (
            to_instant(datetime.fromisoformat(window.opens), window.zone, is_end=False),
            to_instant(datetime.fromisoformat(window.closes), window.zone, is_end=True),
        )
        _ONCE.put(window, instants, _ONCE_WEIGHT)
    return instants


def never_opens(window: CronWindow, now: Nanoseconds) -> bool:
    """Whether a window is closed and stays so: its exceptions leave no start within ten years."""
    current = state(window, now)
    return not current.is_open and current.until is None


def never_closes(window: CronWindow, now: Nanoseconds) -> bool:
    """Whether a window is open and a year of its starts and ends would not close it."""
    current = state(window, now)
    return current.is_open and current.until is None


def overlaps_itself(window: CronWindow, now: Nanoseconds) -> Nanoseconds | None:
    """
    The first start from the UTC day of `now` on that comes before the duration of the previous start has passed.

    None for a window with an `end`, which may be open at its starts, and if the next 64 dates with starts bring none.
    """
    if window.duration is None:
        return None
    computed, today = _computed(window), utc_date(now)
    if computed.overlap is None or computed.overlap[0] != today:
        computed = _Computed(computed.phase, computed.days, (today, _overlap(window, today)))
        _keep(window, computed)
    assert computed.overlap is not None
    return computed.overlap[1]


def _overlap(window: CronWindow, today: date) -> Nanoseconds | None:
    assert window.duration is not None
    minutes = cron.minutes(window.start)
    is_spaced = all((later - one) * MINUTE >= window.duration for one, later in pairwise(minutes))
    before: Nanoseconds | None = None
    day = cron.date_until(window.start, today - ONE_DAY)
    day = start_date(window, today if day is None else day, is_kept=True)
    for _ in range(_OVERLAP_DATES_MAX):
        if day is None:
            return None
        # Without a clock change the starts of one date are as far apart as they are written.
        is_plain = is_spaced and steady_offset(window.zone, day) is not None
        for start in to_instants(
            minutes[:: max(len(minutes) - 1, 1)] if is_plain else minutes, window.zone, day, is_end=False
        ):
            # A gap may move two starts to one instant.
            if before is not None and before < start < before + window.duration and start >= utc_midnight(today):
                return start
            before = start
        day = start_date(window, day + ONE_DAY, is_kept=True)
    return None


# --- from edge to edge -------------------------------------------------------------------------------------------


def _computed(window: CronWindow) -> _Computed:
    return _COMPUTED.get(window) or _Computed(_phase(window))


def _keep(window: CronWindow, computed: _Computed) -> None:
    edges = sum(len(day_of_window.edges) for day_of_window in computed.days.values())
    _COMPUTED.put(window, computed, _COMPUTED_WEIGHT + _DAY_WEIGHT * len(computed.days) + _EDGE_WEIGHT * edges)


def _phase(window: CronWindow) -> Nanoseconds:
    """How long before midnight the days of a window begin. It differs by window, so that no turn computes all days."""
    return crc32(f"{window.start}|{window.end}|{window.duration}|{window.zone}".encode()) * DAY >> 32


def _window_day(window: CronWindow, begin: Nanoseconds) -> _WindowDay:
    """The day of a window that begins then."""
    is_open = False
    edges = array("q")
    following: Nanoseconds | None = None
    for edge in _edges(window, begin):
        if edge >= begin + DAY:
            following = edge
            break
        if edge > begin:
            edges.append(edge - begin)
        else:
            is_open = not is_open
    return _WindowDay(begin, is_open, edges, following)


def _edges(window: CronWindow, now: Nanoseconds) -> Iterator[Nanoseconds]:
    """The edges from shortly before `now` on, ascending. The window is closed before the first of them."""
    # Only the latest start at or before `now` matters. A start three days ago lies before `now` in any zone.
    origin = cron.date_until(window.start, utc_date(now) - 3 * ONE_DAY)
    day = None if origin is None else dates_near_change(window.zone, origin)[0]
    day = next_date(window, day or utc_date(now) - 3 * ONE_DAY, is_open=False)
    is_open, closes, visited = False, 0, 0
    last = utc_date(now) + _YEARS_MAX * 365 * ONE_DAY
    plain: PlainDays = {}
    while day is not None and day <= last and visited < _DATES_MAX:
        visited += 1
        occurrences, day = occurrences_on(window, day, plain)
        for occurrence in occurrences:
            if (
                is_open
                and window.duration is not None
                and (closes < occurrence.first or (closes == occurrence.first and not occurrence.opens))
            ):
                yield closes
                is_open, visited = False, 0
            if occurrence.opens != is_open:
                yield occurrence.first
                is_open, visited = occurrence.opens, 0
            if occurrence.opens and window.duration is not None:
                closes = occurrence.last + window.duration
        day = next_date(window, day, is_open=is_open)
    if day is None and is_open and window.duration is not None:
        yield closes
