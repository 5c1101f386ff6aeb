"""
The instants of wall times in a time zone. Clock changes are decided here and only here.

- A wall time in a spring gap moves to the first instant that exists.
- A wall time in an autumn fold occurs twice: a start is the first occurrence, an end is the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import TypeAlias
from zoneinfo import ZoneInfo, reset_tzpath

from cronhpa.core.model.instant import DAY, MINUTE, Nanoseconds, from_datetime, to_datetime

ONE_DAY = timedelta(days=1)
_EPOCH = date(1970, 1, 1).toordinal()

# Zones come from the locked tzdata package, not from the machine: the operator, its workers and the commands must
# agree, and a machine also has files that are no zones, such as `localtime`.
reset_tzpath(to=())

# Offsets from UTC, ascending: (begin, end, offset), with the instants between which the offset holds.
_Clock: TypeAlias = tuple[tuple[Nanoseconds, Nanoseconds, Nanoseconds], ...]


# Half a kilobyte each: the name of a zone has 64 characters at most.
@lru_cache(maxsize=1024)
def zone_problem(zone: str) -> str | None:
    """The problem of a time zone's name; None if the database has the zone."""
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError):
        return f'"{zone}" is not an IANA time zone: use a name such as "Europe/Berlin"'
    return None


def known_zone(stated: object) -> str:
    """The zone that an object states; UTC without one, and where it is not known: an API server may have newer ones."""
    return stated if isinstance(stated, str) and stated and zone_problem(stated) is None else "UTC"


def utc_date(now: Nanoseconds) -> date:
    return date.fromordinal(_EPOCH + now // DAY)


def utc_midnight(day: date) -> Nanoseconds:
    return (day.toordinal() - _EPOCH) * DAY


def steady_offset(zone: str, day: date) -> Nanoseconds | None:
    """The offset of a zone from UTC around a date; None near a clock change."""
    clock = _clock(zone, day)
    return clock[0][2] if len(clock) == 1 else None


def to_instant(wall: datetime, zone: str, *, is_end: bool) -> Nanoseconds:
    """The instant that a wall time means in a zone, by the rules at the top of this file."""
    return _shown(from_datetime(wall.replace(tzinfo=UTC)), _clock(zone, wall.date()), is_end=is_end)


def to_instants(minutes: Sequence[int], zone: str, day: date, *, is_end: bool) -> list[Nanoseconds]:
    """The instants that minutes of a date mean in a zone."""
    begin = steady_midnight(zone, day)
    if begin is not None:
        return [begin + minute * MINUTE for minute in minutes]
    clock, midnight = _clock(zone, day), utc_midnight(day)
    return [_shown(midnight + minute * MINUTE, clock, is_end=is_end) for minute in minutes]


def steady_midnight(zone: str, day: date) -> Nanoseconds | None:
    """The instant at which a date begins, if no part of it is skipped or repeated; else None."""
    clock, midnight = _clock(zone, day), utc_midnight(day)
    offsets = [offset for _, _, offset in clock]
    shift = max(offsets) - min(offsets)
    for begin, behind, offset in clock:
        first = midnight - offset
        if begin + shift <= first and first + DAY + shift <= behind:
            return first
    return None


def _shown(wall: Nanoseconds, clock: _Clock, *, is_end: bool) -> Nanoseconds:
    """The instant at which a clock shows a wall time that is given as if in UTC."""
    if is_end:  # the last offset that has begun by then; in a gap, the instant at which that offset ends
        return next(min(wall - offset, behind) for begin, behind, offset in reversed(clock) if wall - offset >= begin)
    return next(max(wall - offset, begin) for begin, behind, offset in clock if wall - offset < behind)


# 400 bytes each.
@lru_cache(maxsize=4096)
def dates_near_change(zone: str, day: date) -> tuple[date, date]:
    """The first and the last date of the run of dates near a clock change; the date itself if none is near."""
    first = last = day
    while len(_clock(zone, first)) > 1 and len(_clock(zone, first - ONE_DAY)) > 1:
        first -= ONE_DAY
    while len(_clock(zone, last)) > 1 and len(_clock(zone, last + ONE_DAY)) > 1:
        last += ONE_DAY
    return first, last


# 700 bytes each, near a clock change; three dates of each of 2,000 zones.
@lru_cache(maxsize=8192)
def _clock(zone: str, day: date) -> _Clock:
    """The offsets of a zone from two days before a local date to two days after it."""
    midnight = utc_midnight(day) // DAY
    offsets: list[tuple[Nanoseconds, Nanoseconds]] = []
    for begin, offset in chain.from_iterable(offsets_on(zone, midnight + near) for near in range(-2, 3)):
        if not offsets or offsets[-1][1] != offset:
            offsets.append((begin, offset))
    ends = (*(begin for begin, _ in offsets[1:]), utc_midnight(day) + 3 * DAY)
    return tuple((begin, behind, offset) for (begin, offset), behind in zip(offsets, ends, strict=True))


# 650 bytes each.
@lru_cache(maxsize=8192)
def offsets_on(zone: str, day: int) -> tuple[tuple[Nanoseconds, Nanoseconds], ...]:
    """The offsets of a zone on a UTC day, as (instant from which it holds, offset): first that of the day's begin."""
    info = ZoneInfo(zone)
    low = to_datetime(day * DAY)
    clock = [(day * DAY, _offset(low, info))]
    # Six hours: no zone has ever changed its offset and changed it back within them.
    for _ in range(4):
        high = low + timedelta(hours=6)
        if _offset(high, info) != clock[-1][1]:
            at = _change_between(info, low, high)
            clock.append((from_datetime(at), _offset(at, info)))
        low = high
    return tuple(clock)


def _offset(moment: datetime, info: ZoneInfo) -> Nanoseconds:
    return (moment.astimezone(info).utcoffset() or timedelta()) // timedelta(microseconds=1) * 1_000


def _change_between(info: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The instant in (low, high] at which the zone's offset changes, by bisection to the second."""
    offset = low.astimezone(info).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        low, high = (middle, high) if middle.astimezone(info).utcoffset() == offset else (low, middle)
    return high
