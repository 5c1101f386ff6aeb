"""
Windows: open or closed at an instant, and until when. Clock changes are decided here and only here.

- A wall time in a spring gap moves to the first instant that exists.
- A wall time in an autumn fold occurs twice: a start is the first occurrence, an end is the second.
- A start on a date that `exclude` names, or that `only` does not name, is dropped: it opens nothing and acts as an end.
  The date is the written one, even if a gap moves the start past midnight.
- open(t): let s be the latest start <= t. With `end`: open if s is kept and no end lies in (s, t]. Without: open if s
  is kept and t < s + duration. Of several starts at one instant, one kept start is enough.
- If an end is written later than a start and a gap moves both to one instant, the end closes the window at once: a
  window inside a gap is empty on that day.

The cache holds what was computed from the arguments alone, by window and day. It is dropped with the window; objects
with equal windows share it (`parse_spec` makes equal windows one object).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import chain, pairwise
from typing import TypeAlias
from zlib import crc32
from zoneinfo import ZoneInfo, reset_tzpath

from msgspec import Struct

from cronhpa.core.cache import OwnedCache
from cronhpa.core.instant import DAY, MINUTE, Nanoseconds, from_datetime, to_datetime
from cronhpa.core.scheduled import calendars, cron
from cronhpa.core.spec import CronWindow, OnceWindow

# A window that its own starts keep open (hourly, for two hours) has no known end if so many dates with starts, or so
# many years, bring none.
_DATES_MAX = 366
_YEARS_MAX = 41
# How far ahead a start is searched that the exceptions keep.
_EXCEPTION_YEARS = 10
_OVERLAP_DATES_MAX = 64
_ONE_DAY = timedelta(days=1)
_EPOCH = date(1970, 1, 1).toordinal()

# Zones come from the locked tzdata package, not from the machine: the operator, its workers and the commands must
# agree, and a machine also has files that are no zones, such as `localtime`.
reset_tzpath(to=())

# Offsets from UTC, ascending: the instants at which one begins and ends, and how far the clock is ahead.
_Clock: TypeAlias = tuple[tuple[Nanoseconds, Nanoseconds, Nanoseconds], ...]


class State(Struct, frozen=True, gc=False):
    """Whether a window is open, and the instant at which that changes; None if that instant is not known."""

    is_open: bool
    until: Nanoseconds | None


class _Run(Struct, frozen=True, gc=False):
    """Consecutive starts without a close between them, from the first to the last; or one end."""

    first: Nanoseconds
    last: Nanoseconds
    opens: bool


class _Stretch(Struct, frozen=True, gc=False):
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


class _Known(Struct):
    """
    What was computed of a window: `phase`, see `_phase`; its last days by number; the date of the last search for
    starts within its own duration, and the first one found.
    """

    phase: Nanoseconds
    days: dict[int, _Stretch] = {}
    overlap: tuple[date, Nanoseconds | None] | None = None


# One day for now, one for the time behind the next edge, and two for starts ahead.
_DAYS_KEPT = 4
# Bytes of a window's entry, and of a day without its edges.
_KNOWN_WEIGHT, _STRETCH_WEIGHT, _EDGE_WEIGHT = 500, 300, 8
# 50,000 windows with two edges a day each, or a day of 5,000 with an edge a minute.
_KNOWN: OwnedCache[CronWindow, _Known] = OwnedCache(64 * 2**20)
_ONCE: OwnedCache[OnceWindow, tuple[Nanoseconds, Nanoseconds]] = OwnedCache(16 * 2**20)
_ONCE_WEIGHT = 350


def state(window: CronWindow | OnceWindow, now: Nanoseconds) -> State:
    """The state of a window that can be read (see `cron.problem`, `calendars.problem` and `zone_problem`)."""
    if isinstance(window, OnceWindow):
        opens, closes = once(window)
        if now < opens:
            return State(is_open=False, until=opens)
        return State(is_open=now < closes, until=closes if now < closes else None)
    known = _known(window)
    day = (now + known.phase) // DAY
    stretch = known.days.get(day)
    if stretch is None:
        stretch = _stretch(window, day * DAY - known.phase)
        # A new dictionary: a thread may be reading the old one.
        days = {**known.days, day: stretch}
        _keep(window, _Known(known.phase, dict([*days.items()][-_DAYS_KEPT:]), known.overlap))
    return stretch.at(now)


def once(window: OnceWindow) -> tuple[Nanoseconds, Nanoseconds]:
    """The instants at which a planned event opens and closes."""
    found = _ONCE.get(window)
    if found is None:
        found = (
            to_instant(datetime.fromisoformat(window.opens), window.zone, is_end=False),
            to_instant(datetime.fromisoformat(window.closes), window.zone, is_end=True),
        )
        _ONCE.put(window, found, _ONCE_WEIGHT)
    return found


def never_opens(window: CronWindow, now: Nanoseconds) -> bool:
    """Whether a window is closed and stays so: its exceptions leave no start within ten years."""
    found = state(window, now)
    return not found.is_open and found.until is None


def never_closes(window: CronWindow, now: Nanoseconds) -> bool:
    """Whether a window is open and a year of its starts and ends would not close it."""
    found = state(window, now)
    return found.is_open and found.until is None


def overlaps_itself(window: CronWindow, now: Nanoseconds) -> Nanoseconds | None:
    """
    The first start from the UTC day of `now` on that comes before the duration of the previous start has passed.

    None for a window with an `end`, which may be open at its starts, and if the next 64 dates with starts bring none.
    """
    if window.duration is None:
        return None
    known, today = _known(window), _date(now)
    if known.overlap is None or known.overlap[0] != today:
        known = _Known(known.phase, known.days, (today, _overlap(window, today)))
        _keep(window, known)
    assert known.overlap is not None
    return known.overlap[1]


def _overlap(window: CronWindow, today: date) -> Nanoseconds | None:
    assert window.duration is not None
    minutes = cron.minutes(window.start)
    is_spaced = all((later - one) * MINUTE >= window.duration for one, later in pairwise(minutes))
    before: Nanoseconds | None = None
    day = cron.date_until(window.start, today - _ONE_DAY)
    day = _start_date(window, today if day is None else day, is_kept=True)
    for _ in range(_OVERLAP_DATES_MAX):
        if day is None:
            return None
        # Without a clock change the starts of one date are as far apart as they are written.
        is_plain = is_spaced and len(_clock(window.zone, day)) == 1
        for start in _instants(
            minutes[:: max(len(minutes) - 1, 1)] if is_plain else minutes, window.zone, day, is_end=False
        ):
            # A gap may move two starts to one instant.
            if before is not None and before < start < before + window.duration and start >= _utc(today):
                return start
            before = start
        day = _start_date(window, day + _ONE_DAY, is_kept=True)
    return None


# Half a kilobyte each: the name of a zone has 64 characters at most.
@lru_cache(maxsize=1024)
def zone_problem(zone: str) -> str | None:
    """What is wrong with the name of a time zone; None when the database has it."""
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError):
        return f'"{zone}" is not an IANA time zone: use a name such as "Europe/Berlin"'
    return None


# --- from edge to edge -------------------------------------------------------------------------------------------


def _known(window: CronWindow) -> _Known:
    return _KNOWN.get(window) or _Known(_phase(window))


def _keep(window: CronWindow, known: _Known) -> None:
    edges = sum(len(stretch.edges) for stretch in known.days.values())
    _KNOWN.put(window, known, _KNOWN_WEIGHT + _STRETCH_WEIGHT * len(known.days) + _EDGE_WEIGHT * edges)


def _phase(window: CronWindow) -> Nanoseconds:
    """How long before midnight the days of a window begin: windows differ, so that no tick computes the days of all."""
    return crc32(f"{window.start}|{window.end}|{window.duration}|{window.zone}".encode()) * DAY >> 32


def _stretch(window: CronWindow, begin: Nanoseconds) -> _Stretch:
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
    return _Stretch(begin, is_open, edges, following)


def _edges(window: CronWindow, now: Nanoseconds) -> Iterator[Nanoseconds]:
    """The edges from shortly before `now` on, ascending. The window is closed before the first of them."""
    # The state follows from the latest start, whatever came before it. Three days: its instant lies before `now` in any
    # zone.
    origin = cron.date_until(window.start, _date(now) - 3 * _ONE_DAY)
    day = None if origin is None else _cluster(window.zone, origin)[0]
    day = _next_date(window, day or _date(now) - 3 * _ONE_DAY, is_open=False)
    is_open, closes, visited = False, 0, 0
    last = _date(now) + _YEARS_MAX * 365 * _ONE_DAY
    # Runs of a date without a clock change, by (kept start, start, end): most dates of a window are alike.
    plain: dict[tuple[bool, bool, bool], tuple[_Run, ...]] = {}
    while day is not None and day <= last and visited < _DATES_MAX:
        visited += 1
        runs, day = _runs_on(window, day, plain)
        for run in runs:
            if (
                is_open
                and window.duration is not None
                and (closes < run.first or (closes == run.first and not run.opens))
            ):
                yield closes
                is_open, visited = False, 0
            if run.opens != is_open:
                yield run.first
                is_open, visited = run.opens, 0
            if run.opens and window.duration is not None:
                closes = run.last + window.duration
        day = _next_date(window, day, is_open=is_open)
    if day is None and is_open and window.duration is not None:
        yield closes


def _date(now: Nanoseconds) -> date:
    return date.fromordinal(_EPOCH + now // DAY)


def _next_date(window: CronWindow, day: date, *, is_open: bool) -> date | None:
    """The first date from `day` on at which the window may open or close, or an open one may start again."""
    if not is_open:
        return _start_date(window, day, is_kept=True)
    if window.duration is not None:
        return cron.date_from(window.start, day)
    assert window.end is not None
    closing = (cron.date_from(window.end, day), _start_date(window, day, is_kept=False))
    return min((found for found in closing if found is not None), default=None)


def _start_date(window: CronWindow, day: date, *, is_kept: bool) -> date | None:
    """The first date from `day` on with starts that the exceptions keep; without `is_kept`, with starts they drop."""
    if window.exclude is None and window.only is None:
        return cron.date_from(window.start, day) if is_kept else None
    last = day + _EXCEPTION_YEARS * 365 * _ONE_DAY
    found: date | None = day
    while found is not None:
        day = found
        found = cron.date_from(window.start, day)
        if found is None or found > last or _is_kept(window, found) == is_kept:
            break
        found = _kept_date(window, found, last) if is_kept else _dropped_date(window, found, last)
    return None if found is None or found > last else found


def _is_kept(window: CronWindow, day: date) -> bool:
    is_among = window.only is None or calendars.contains(window.only, day)
    return is_among and not (window.exclude is not None and calendars.contains(window.exclude, day))


def _kept_date(window: CronWindow, day: date, last: date) -> date | None:
    """The first date from `day` to `last` that the exceptions keep, whether it has starts or not."""
    found: date | None = day
    while found is not None and not _is_kept(window, found):
        day = found
        found = day if window.only is None else calendars.first_in(window.only, day, last)
        if found is not None and window.exclude is not None:
            found = calendars.first_outside(window.exclude, found, last)
    return found


def _dropped_date(window: CronWindow, day: date, last: date) -> date | None:
    """The first date from `day` to `last` that the exceptions drop, whether it has starts or not."""
    found = (
        None if window.only is None else calendars.first_outside(window.only, day, last),
        None if window.exclude is None else calendars.first_in(window.exclude, day, last),
    )
    return min((item for item in found if item is not None), default=None)


# --- what happens on a date --------------------------------------------------------------------------------------


def _runs_on(
    window: CronWindow, day: date, plain: dict[tuple[bool, bool, bool], tuple[_Run, ...]]
) -> tuple[Iterable[_Run], date]:
    """
    The runs of a date, ascending, and the date after it. Near a clock change: the runs of all dates near it.

    plain: runs of dates without a clock change, counted from their midnight; new ones are added.
    """
    clock = _clock(window.zone, day)
    if len(clock) > 1:
        first, last = _cluster(window.zone, day)
        return _runs_near_change(window, first, last), last + _ONE_DAY
    is_start, is_end = _is_named(window.start, day), _is_named(window.end, day)
    midnight = _utc(day) - clock[0][2]
    is_kept = is_start and _is_kept(window, day)
    runs = plain.get((is_kept, is_start, is_end))
    if runs is None:
        runs = _runs_of_plain_day(window, is_kept=is_kept, is_start=is_start, is_end=is_end)
        plain[is_kept, is_start, is_end] = runs
    return (_Run(midnight + run.first, midnight + run.last, run.opens) for run in runs), day + _ONE_DAY


def _runs_of_plain_day(window: CronWindow, *, is_kept: bool, is_start: bool, is_end: bool) -> tuple[_Run, ...]:
    """The runs of a date without a clock change near it, in nanoseconds from its midnight."""
    starts = [minute * MINUTE for minute in cron.minutes(window.start)] if is_start else []
    ends = [minute * MINUTE for minute in cron.minutes(window.end)] if is_end and window.end is not None else []
    return _runs(starts if is_kept else [], ends if is_kept else [*ends, *starts], window.duration)


def _runs_near_change(window: CronWindow, first: date, last: date) -> tuple[_Run, ...]:
    """The runs of all these dates together, because a fold mixes starts and ends of two dates."""
    dropped: list[Nanoseconds] = []
    # By instant, the latest wall time that means it: later entries replace earlier ones.
    kept: dict[Nanoseconds, Nanoseconds] = {}
    ends: dict[Nanoseconds, Nanoseconds] = {}
    day = first
    while day <= last:
        if _is_named(window.start, day):
            starts = _by_instant(window.start, window.zone, day, is_end=False)
            if _is_kept(window, day):
                kept |= starts
            else:
                dropped += starts
        if window.end is not None and _is_named(window.end, day):
            ends |= _by_instant(window.end, window.zone, day, is_end=True)
        day += _ONE_DAY
    opening = [at for at, wall in kept.items() if ends.get(at, wall) <= wall]
    return _runs(opening, [*dropped, *ends], window.duration)


def _by_instant(text: str, zone: str, day: date, *, is_end: bool) -> dict[Nanoseconds, Nanoseconds]:
    """The instants that a cron text means on a date, each with the latest wall time that means it, as if in UTC."""
    minutes, midnight = cron.minutes(text), _utc(day)
    instants = _instants(minutes, zone, day, is_end=is_end)
    return {at: midnight + minute * MINUTE for at, minute in zip(instants, minutes, strict=True)}


def _is_named(text: str | None, day: date) -> bool:
    return text is not None and day.day in cron.days_of(text, day.year, day.month)


def _runs(starts: list[Nanoseconds], closing: list[Nanoseconds], duration: Nanoseconds | None) -> tuple[_Run, ...]:
    """Starts and ends in order, without those that change nothing. A start hides an end at the same instant."""
    runs: list[_Run] = []
    opening = set(starts)
    for at in sorted(opening.union(closing)):
        opens = at in opening
        if runs and runs[-1].opens == opens and (duration is None or not opens or at - runs[-1].last <= duration):
            runs[-1] = _Run(runs[-1].first, at if opens else runs[-1].last, opens)
        else:
            runs.append(_Run(at, at, opens))
    return tuple(runs)


# --- clocks ------------------------------------------------------------------------------------------------------


def to_instant(wall: datetime, zone: str, *, is_end: bool) -> Nanoseconds:
    """The instant that a wall time means in a zone, by the rules at the top of this file."""
    return _shown(from_datetime(wall.replace(tzinfo=UTC)), _clock(zone, wall.date()), is_end=is_end)


def _instants(minutes: Sequence[int], zone: str, day: date, *, is_end: bool) -> list[Nanoseconds]:
    """The instants that minutes of a date mean in a zone."""
    clock, midnight = _clock(zone, day), _utc(day)
    offsets = [offset for _, _, offset in clock]
    shift = max(offsets) - min(offsets)
    for begin, behind, offset in clock:
        first = midnight - offset
        if begin + shift <= first and first + DAY + shift <= behind:  # no part of the date is skipped or repeated
            return [first + minute * MINUTE for minute in minutes]
    return [_shown(midnight + minute * MINUTE, clock, is_end=is_end) for minute in minutes]


def _shown(wall: Nanoseconds, clock: _Clock, *, is_end: bool) -> Nanoseconds:
    """The instant at which a clock shows a wall time that is given as if in UTC."""
    if is_end:  # the last offset that has begun by then; in a gap, the instant at which that offset ends
        return next(min(wall - offset, behind) for begin, behind, offset in reversed(clock) if wall - offset >= begin)
    return next(max(wall - offset, begin) for begin, behind, offset in clock if wall - offset < behind)


# 400 bytes each.
@lru_cache(maxsize=4096)
def _cluster(zone: str, day: date) -> tuple[date, date]:
    """The first and the last date of the run of dates near a clock change; the date itself if none is near."""
    first = last = day
    while len(_clock(zone, first)) > 1 and len(_clock(zone, first - _ONE_DAY)) > 1:
        first -= _ONE_DAY
    while len(_clock(zone, last)) > 1 and len(_clock(zone, last + _ONE_DAY)) > 1:
        last += _ONE_DAY
    return first, last


# 700 bytes each, near a clock change; three dates of each of 2,000 zones.
@lru_cache(maxsize=8192)
def _clock(zone: str, day: date) -> _Clock:
    """The offsets of a zone from two days before a local date to two days after it."""
    midnight = _utc(day) // DAY
    offsets: list[tuple[Nanoseconds, Nanoseconds]] = []
    for begin, offset in chain.from_iterable(offsets_on(zone, midnight + near) for near in range(-2, 3)):
        if not offsets or offsets[-1][1] != offset:
            offsets.append((begin, offset))
    ends = (*(begin for begin, _ in offsets[1:]), _utc(day) + 3 * DAY)
    return tuple((begin, behind, offset) for (begin, offset), behind in zip(offsets, ends, strict=True))


# 650 bytes each.
@lru_cache(maxsize=8192)
def offsets_on(zone: str, day: int) -> tuple[tuple[Nanoseconds, Nanoseconds], ...]:
    """The offset of a zone at the beginning of a UTC day, and those that begin until its end: instants and offsets."""
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


def _utc(day: date) -> Nanoseconds:
    return (day.toordinal() - _EPOCH) * DAY


def _change_between(info: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The instant in (low, high] at which the zone's offset changes, by bisection to the second."""
    offset = low.astimezone(info).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        low, high = (middle, high) if middle.astimezone(info).utcoffset() == offset else (low, middle)
    return high
