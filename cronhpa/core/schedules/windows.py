"""
Windows: open or closed at an instant, and until when.

open(t): let s be the latest start <= t. With `end`: open if s is kept and no end lies in (s, t]. Without: open if s is
kept and t < s + duration. `occurrences` computes starts and ends and drops starts; `wall_clock` computes instants.

The days of windows are cached; objects with equal windows share them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from datetime import date, datetime
from functools import lru_cache
from itertools import pairwise
from zlib import crc32

from msgspec import Struct

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, Nanoseconds
from cronhpa.core.model.spec import CronWindow, OnceWindow
from cronhpa.core.schedules import cron
from cronhpa.core.schedules.occurrences import PlainDays, next_date, occurrences_on, start_date
from cronhpa.core.schedules.wall_clock import (
    ONE_DAY,
    dates_near_change,
    steady_offset,
    to_instant,
    to_instants,
    utc_date,
    utc_midnight,
)

# The end of a window that its own starts keep open (hourly, for two hours) is unknown if the search finds none within
# this many dates with starts, or this many years. Dates with very many starts count several times: 33 of them end the
# search where each minute is a start, because these take as long.
_DATES_MAX = 366
_STARTS_OF_DATE = 144
_YEARS_MAX = 41
_OVERLAP_DATES_MAX = 64
_LOOK_BACK = 8 * DAY


class OpenState(Struct, frozen=True, gc=False):
    """Whether a window is open, and the instant at which that changes; None if that instant is not known."""

    is_open: bool
    until: Nanoseconds | None


class _WindowDay(Struct, frozen=True, gc=False):
    """A day of a window. Its state is `is_open` until the first edge, and changes at each edge."""

    begin: Nanoseconds
    """Begin of the day."""
    is_open: bool
    edges: array[int]
    """Nanoseconds after the begin, eight bytes each, as a window may have an edge a minute."""
    following: Nanoseconds | None
    """The first edge after the day."""

    def at(self, now: Nanoseconds) -> OpenState:
        passed = bisect_right(self.edges, now - self.begin)
        until = self.begin + self.edges[passed] if passed < len(self.edges) else self.following
        return OpenState(self.is_open ^ bool(passed % 2), until)


def state(window: CronWindow | OnceWindow, now: Nanoseconds) -> OpenState:
    """The state of a window; `cron.problem`, `calendars.problem` and `zone_problem` must be None for its texts."""
    if isinstance(window, OnceWindow):
        opens, closes = once(window)
        if now < opens:
            return OpenState(is_open=False, until=opens)
        return OpenState(is_open=now < closes, until=closes if now < closes else None)
    phase = _phase(window.start, window.end, window.duration, window.zone)
    return _window_day(window, (now + phase) // DAY * DAY - phase).at(now)


def occurrence(window: CronWindow | OnceWindow, now: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds] | None:
    """
    Start and end of the occurrence that is open, else of the next one; None if there is none, or no end is known.

    The start of one that has been open for more than eight days is taken to be eight days before its end.
    """
    current = state(window, now)
    if isinstance(window, OnceWindow):
        opens, closes = once(window)
        return (opens, closes) if now < closes else None
    if current.until is None:
        return None
    if not current.is_open:
        end = state(window, current.until).until
        return None if end is None else (current.until, end)
    return _start(window, current.until), current.until


# 900 bytes each.
@lru_cache(maxsize=1024)
def _start(window: CronWindow, end: Nanoseconds) -> Nanoseconds:
    """The start of the occurrence that ends at `end`."""
    at = end - 1
    while (before := state(window, at)).is_open and before.until == end:
        if end - at > _LOOK_BACK:
            return at
        at -= HOUR
    # An hour back there may be an occurrence before this one, and others between them.
    while before.until is not None and before.until != end:
        at = before.until
        before = state(window, at)
    return at


# 700 bytes each.
@lru_cache(maxsize=4096)
def once(window: OnceWindow) -> tuple[Nanoseconds, Nanoseconds]:
    """The instants at which a planned event opens and closes."""
    return (
        to_instant(datetime.fromisoformat(window.opens), window.zone, is_end=False),
        to_instant(datetime.fromisoformat(window.closes), window.zone, is_end=True),
    )


def never_opens(window: CronWindow, now: Nanoseconds) -> bool:
    """Whether a window is closed and stays so: its exceptions leave no start within ten years."""
    current = state(window, now)
    return not current.is_open and current.until is None


def opens_again(window: CronWindow | OnceWindow, now: Nanoseconds) -> bool:
    """Whether a window is open or opens later. It takes less than `state`, which looks for an end as well."""
    if isinstance(window, OnceWindow):
        return now < once(window)[1]
    # Two dates on, a start is later in every zone. Without exceptions there always is one.
    later = start_date(window, utc_date(now) + 2 * ONE_DAY, is_kept=True)
    return later is not None or state(window, now) != OpenState(is_open=False, until=None)


def never_closes(window: CronWindow, now: Nanoseconds) -> bool:
    """Whether a window is open and none of the dates that `state` looks at, 366 with few starts, closes it."""
    current = state(window, now)
    return current.is_open and current.until is None


def overlaps_itself(window: CronWindow, now: Nanoseconds) -> Nanoseconds | None:
    """
    The first start from the UTC day of `now` on that comes before the duration of the previous start has passed.

    None for a window with an `end`, which may be open at its starts, and if the next 64 dates with starts bring none.
    """
    return None if window.duration is None else _overlap(window, window.duration, utc_date(now))


@lru_cache(maxsize=1024)
def _overlap(window: CronWindow, duration: Nanoseconds, today: date) -> Nanoseconds | None:
    minutes = cron.minutes(window.start)
    is_spaced = all((later - one) * MINUTE >= duration for one, later in pairwise(minutes))
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
            if before is not None and before < start < before + duration and start >= utc_midnight(today):
                return start
            before = start
        day = start_date(window, day + ONE_DAY, is_kept=True)
    return None


# --- from edge to edge -------------------------------------------------------------------------------------------


# 700 bytes each.
@lru_cache(maxsize=2048)
def _phase(start: str, end: str | None, duration: Nanoseconds | None, zone: str) -> Nanoseconds:
    """
    How long before midnight the days of a window begin. It differs by window, so that no reconciliation computes all
    days.
    """
    return crc32(f"{start}|{end}|{duration}|{zone}".encode()) * DAY >> 32


# 12 kB each with an edge a minute, 400 bytes with two a day. One or two days of a window are in use at a time, so there
# is room for a thousand different windows.
@lru_cache(maxsize=2048)
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
    weight = 1 + len(cron.minutes(window.start)) // _STARTS_OF_DATE
    while day is not None and day <= last and visited < _DATES_MAX:
        visited += weight
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
