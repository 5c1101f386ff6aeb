"""
Windows: open or closed at an instant, and until when. Clock changes are decided here and only here.

- A wall time that a spring gap skips moves to the first instant that exists.
- A wall time that an autumn fold repeats means the first of its two instants for a start, the second for an end.
- A window is open at t if its latest start at or before t has no end after it that is at or before t.

Nothing is remembered between calls but the days that were worked out, which depend on the arguments alone: identical
windows of different objects share them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from msgspec import Struct

from cronhpa.core.instant import DAY, Nanoseconds, from_datetime, to_datetime
from cronhpa.core.scheduled import cron
from cronhpa.core.spec import CronWindow, OnceWindow

# A window whose starts keep it open for ever (hourly, for two hours) has no end worth naming. Of the day itself all
# edges are found; beyond it this many instants are tried.
_RENEWALS_MAX = 64


class State(Struct, frozen=True):
    """Whether a window is open, and the instant at which that changes; None: not within what is worth naming."""

    is_open: bool
    until: Nanoseconds | None


class _Day(Struct, frozen=True):
    """States from the beginning of one UTC day: state i holds from edges[i - 1] to edges[i]."""

    is_open: bool
    edges: tuple[Nanoseconds, ...]
    following: Nanoseconds | None


def state(window: CronWindow | OnceWindow, now: Nanoseconds) -> State:
    """The state of a window that can be read (see `cron.problem` and `zone_problem`)."""
    if isinstance(window, OnceWindow):
        opens, closes = once(window)
        if now < opens:
            return State(is_open=False, until=opens)
        return State(is_open=now < closes, until=closes if now < closes else None)
    day = _day(window, now // DAY)
    passed = bisect_right(day.edges, now)
    until = day.edges[passed] if passed < len(day.edges) else day.following
    return State(is_open=day.is_open ^ bool(passed % 2), until=until)


def once(window: OnceWindow) -> tuple[Nanoseconds, Nanoseconds]:
    """The instants at which a planned event opens and closes."""
    return (
        to_instant(datetime.fromisoformat(window.opens), window.zone, is_end=False),
        to_instant(datetime.fromisoformat(window.closes), window.zone, is_end=True),
    )


@lru_cache(maxsize=2048)
def zone_problem(zone: str) -> str | None:
    """What is wrong with the name of a time zone; None when the database has it."""
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError):
        return f'"{zone}" is not an IANA time zone: use a name such as "Europe/Berlin"'
    return None


@lru_cache(maxsize=65_536)
def _day(window: CronWindow, day: int) -> _Day:
    at = day * DAY
    is_open = _is_open(window, at)
    edges: list[Nanoseconds] = []
    current = is_open
    while True:
        edge = _next_change(window, at, is_open=current)
        if edge is None or edge >= (day + 1) * DAY:
            return _Day(is_open=is_open, edges=tuple(edges), following=edge)
        edges.append(edge)
        at, current = edge, not current


def _is_open(window: CronWindow, now: Nanoseconds) -> bool:
    start = _latest(window.start, window.zone, now, is_end=False)
    if start is None:
        return False
    if window.duration is not None:
        return now < start + window.duration
    assert window.end is not None
    end = _latest(window.end, window.zone, now, is_end=True)
    return end is None or end <= start


def _next_change(window: CronWindow, now: Nanoseconds, *, is_open: bool) -> Nanoseconds | None:
    """The first instant after `now` at which a window that is open or closed at `now` is the other."""
    if not is_open:
        for start in _candidates(window.start, window.zone, now, is_end=False):
            if _is_open(window, start):
                return start
        return None
    if window.duration is None:
        assert window.end is not None
        for end in _candidates(window.end, window.zone, now, is_end=True):
            if not _is_open(window, end):
                return end
        return None
    opened = _latest(window.start, window.zone, now, is_end=False)
    assert opened is not None
    closes = opened + window.duration
    for renewal in _candidates(window.start, window.zone, now, is_end=False):
        if renewal > closes:
            return closes
        closes = renewal + window.duration
    return None


def _latest(text: str, zone: str, now: Nanoseconds, *, is_end: bool) -> Nanoseconds | None:
    """The latest instant at or before `now` that a cron text means in a zone."""
    # By the rules above a later wall time is never an earlier instant, so the first that fits is the latest.
    walls = cron.backwards(text, _wall(now, zone) + _shift_on(zone, now // DAY))
    return next((at for at in (to_instant(wall, zone, is_end=is_end) for wall in walls) if at <= now), None)


def _instants(text: str, zone: str, now: Nanoseconds, *, is_end: bool) -> Iterator[Nanoseconds]:
    """The instants after `now` that a cron text means in a zone, ascending, each once."""
    last = now
    for wall in cron.forwards(text, _wall(now, zone) - _shift_on(zone, now // DAY)):
        instant = to_instant(wall, zone, is_end=is_end)
        if instant > last:
            last = instant
            yield instant


def _candidates(text: str, zone: str, now: Nanoseconds, *, is_end: bool) -> Iterator[Nanoseconds]:
    """All of the instants after `now` on its UTC day, and some after it."""
    tomorrow = (now // DAY + 1) * DAY
    later = 0
    for instant in _instants(text, zone, now, is_end=is_end):
        yield instant
        later += instant >= tomorrow
        if later == _RENEWALS_MAX:
            return


def _wall(now: Nanoseconds, zone: str) -> datetime:
    return to_datetime(now).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@lru_cache(maxsize=65_536)
def _shift_on(zone: str, day: int) -> timedelta:
    """How far the zone's clock moves within a day of this UTC day."""
    info = ZoneInfo(zone)
    noon = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day, hours=12)
    offsets = [(noon + timedelta(hours=6 * i)).astimezone(info).utcoffset() or timedelta() for i in range(-8, 9)]
    return max(offsets) - min(offsets)


@lru_cache(maxsize=65_536)
def to_instant(wall: datetime, zone: str, *, is_end: bool) -> Nanoseconds:
    """The instant that a wall time means in a zone, by the rules at the top of this file."""
    info = ZoneInfo(zone)
    first = wall.replace(tzinfo=info, fold=0)
    second = wall.replace(tzinfo=info, fold=1)
    before, after = first.astimezone(UTC), second.astimezone(UTC)
    if after < before:  # a gap: read with the old offset it lies behind the change, with the new one before it
        return from_datetime(change_between(info, after, before))
    return from_datetime(after if is_end else before)


def change_between(info: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The instant in (low, high] at which the zone's offset changes, by bisection to the second."""
    offset = low.astimezone(info).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        low, high = (middle, high) if middle.astimezone(info).utcoffset() == offset else (low, middle)
    return high
