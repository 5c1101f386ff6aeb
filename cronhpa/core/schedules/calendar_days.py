"""
Named calendars become plain dates and plain schedules of the objects that name them: nothing below knows them.

`exclude` and `only` take the days that an event covers whole, midnight to midnight in the zone of the schedule. Events
that `schedulesFrom` matches become schedules, called `Calendar/NAME/TITLE/START`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import translate
from functools import lru_cache
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.model.calendar import Calendar, CalendarEvent, Calendars
from cronhpa.core.model.decision import CALENDAR_PREFIX, CLUSTER_EVENT_PREFIX, EVENT_PREFIX
from cronhpa.core.model.instant import DAY, Nanoseconds, format_instant, from_datetime
from cronhpa.core.model.nearest import nearest
from cronhpa.core.model.planned_event import PlannedEvent
from cronhpa.core.model.spec import CalendarSchedules, CronWindow, DateRange, Days, OnceWindow, Schedule, Span, Spec
from cronhpa.core.schedules.wall_clock import ONE_DAY, to_instant
from cronhpa.core.schedules.windows import once

MAX_TITLED = 250
"""The most ranges of one calendar: a window looks at each of them."""
MAX_CALENDAR_SCHEDULES = 30
"""The most schedules that an object takes over from calendars: those that open next."""
MAX_LOOKED_THROUGH = 10_000
"""
The most events that the days of an object are taken from, and the most titles that its patterns are compared with.

Both are done where the event loop waits: 10,000 take some 40 ms, whatever titles and patterns are.
"""
MAX_RANGES = 10_000
"""
The most ranges of days that the schedules of an object take from calendars, those of each exception counted anew.

So do records of decisions and requests of fits, which write them out with 440 bytes at most: 10,000 of the object, of
the events of its namespace and of those of the cluster are 13 MB, and a record may have 16 MiB.
"""
# From the day of the reading on: that day, one more by refreshSeconds, and a lead of a day.
_SOON = 3 * DAY
# More than count, because some of them state no bounds.
_COMING_MAX = 2 * MAX_CALENDAR_SCHEDULES
_PAST = 60 * DAY
_KEYS = ("exclude", "only")
# No local day is shorter, and no shorter event covers one.
_SHORTEST_DAY = timedelta(hours=20)


def forget() -> None:
    """Call it where a calendar is another one now: what is cached would hold the former one."""
    for cached in (_covering, _is_zoned, _whole_days, _title_count, _matches):
        cached.cache_clear()


def unread(window: CronWindow | OnceWindow) -> str | None:
    """The problem of a window whose calendars are not among its days; None if it names none."""
    if isinstance(window, CronWindow):
        for key in _KEYS:
            days: Days | None = getattr(window, key)
            if days is not None and days.calendars:
                return f'{key}.calendars: "{days.calendars[0]}": this calendar is not known here'
    return None


def with_calendars(spec: Spec, calendars: Calendars) -> Spec:
    """
    The spec with the days of the calendars that it names; the spec itself if it names none.

    A schedule with a calendar that is not known, or was never read, has a `problem`: it abstains and blocks
    scale-downs. A calendar that could not be read again is told in `Spec.calendar_problems`.
    """
    if not spec.schedules_from and not any(unread(schedule.window) for schedule in spec.schedules):
        return spec
    too_many = {
        whose: _too_many_days((one for one in spec.schedules if _whose(one) == whose), calendars)
        for whose in {_whose(one) for one in spec.schedules}
    }
    stale = {_told(calendars[name]) for name in calendars_of(spec) if _is_kept(calendars.get(name))}
    made = tuple(_uniquely_named(_made(spec, calendars)))
    return replace(
        spec,
        schedules=(
            *(
                schedule_with_calendars(one, calendars, too_many[_whose(one)])
                for one in spec.schedules
                if not _is_made(one)
            ),
            *made,
        ),
        calendar_problems=tuple(sorted(stale.union(spec.calendar_problems))),
        calendar_spans=()
        if _too_many_titles(spec, calendars)
        else tuple(span for source in spec.schedules_from for span in _past(source, calendars)),
    )


def without_calendars(spec: Spec) -> Spec:
    """The spec as if the calendars that it names had no event, for whoever does not know them."""
    return with_calendars(spec, {name: Calendar(name, ()) for name in calendars_of(spec)})


def event_with_calendars(event: PlannedEvent, calendars: Calendars) -> PlannedEvent:
    """
    A planned event with the days of the calendars that it names; itself if it names none.

    One with a calendar that is not known has `problems` and no schedules.
    """
    if not any(unread(event_schedule.schedule.window) for event_schedule in event.schedules):
        return event
    too_many = _too_many_days((event_schedule.schedule for event_schedule in event.schedules), calendars)
    schedules = [
        replace(event_schedule, schedule=schedule_with_calendars(event_schedule.schedule, calendars, too_many))
        for event_schedule in event.schedules
    ]
    problems = tuple(
        f"spec.schedules[{index}].{event_schedule.schedule.problem}"
        for index, event_schedule in enumerate(schedules)
        if event_schedule.schedule.problem is not None and not event_schedule.schedule.suspend
    )
    return replace(event, schedules=() if problems else tuple(schedules), problems=(*event.problems, *problems))


def calendars_of(spec: Spec) -> set[str]:
    """The names of the calendars that a spec, as it was written, asks for."""
    days = (name for schedule in spec.schedules for name in calendars_in(schedule.window))
    return {*days, *(source.calendar for source in spec.schedules_from)}


def _is_kept(calendar: Calendar | None) -> bool:
    return calendar is not None and calendar.events is not None and bool(calendar.problem)


def _told(calendar: Calendar) -> str:
    since = "" if calendar.since is None else f"since {format_instant(calendar.since)} "
    return f'the calendar "{calendar.name}" is as it was last read: {since}{calendar.problem}'


def calendars_in(window: CronWindow | OnceWindow) -> Iterator[str]:
    """The names of the calendars that the exceptions of a window, as it was written, ask for."""
    if isinstance(window, CronWindow):
        for key in _KEYS:
            days: Days | None = getattr(window, key)
            if days is not None:
                yield from days.calendars


def schedule_with_calendars(schedule: Schedule, calendars: Calendars, too_many: str | None = None) -> Schedule:
    """
    A schedule with the days of the calendars that it names, or with a `problem`; itself if it names none, or is wrong.

    too_many: why no days are taken for it.
    """
    window = schedule.window
    if not isinstance(window, CronWindow) or unread(window) is None or is_wrong(schedule):
        return schedule
    days: dict[str, Days] = {}
    for key in _KEYS:
        stated_days: Days | None = getattr(window, key)
        if stated_days is None or not stated_days.calendars:
            continue
        ranges = list(stated_days.ranges)
        for name in stated_days.calendars:
            calendar = calendars.get(name)
            problem = calendar_problem(name, calendar, calendars) or too_many
            if calendar is None or problem is not None:
                return replace(schedule, problem=f"{key}.calendars: {problem}")
            ranges += whole_days(calendar, window.zone)
        days[key] = Days(tuple(ranges), stated_days.holidays)
    return replace(schedule, window=replace(window, **days), problem=None)


def is_wrong(schedule: Schedule) -> bool:
    """Whether something else than its calendars keeps a schedule from being read, such as an unknown time zone."""
    return schedule.problem is not None and schedule.problem != unread(schedule.window)


def calendar_problem(name: str, calendar: Calendar | None, calendars: Calendars) -> str | None:
    """Why a calendar cannot be used, in words; None if it can."""
    if calendar is None:
        known, meant = ", ".join(sorted(calendars)) or "no calendar", nearest(name, calendars)
        hint = f"did you mean {meant}?" if meant else f"the operator's settings name {known}"
        return f'"{name}": there is no such calendar: {hint}'
    if calendar.events is None:
        return f'"{name}" was never read: {calendar.problem or "it is not read yet"}'
    return None


def _whose(schedule: Schedule) -> str:
    """Whose days are counted together: those of an object's own windows displace no event of the cluster."""
    prefixes = (CLUSTER_EVENT_PREFIX, EVENT_PREFIX)
    return next((prefix for prefix in prefixes if schedule.name.startswith(prefix)), "")


def _too_many_days(schedules: Iterable[Schedule], calendars: Calendars) -> str | None:
    """The problem of schedules that take too many days from calendars together; None if they do not."""
    named = Counter(
        (calendar, _zone_of(calendar, one.window.zone))
        for one in schedules
        if not is_wrong(one)
        for name in calendars_in(one.window)
        if (calendar := calendars.get(name)) is not None
    )
    count = sum(len(_covering(calendar)) for calendar, _ in named)
    if count > MAX_LOOKED_THROUGH:
        return (
            f"the calendars named hold {count} events, those of each time zone counted anew: {MAX_LOOKED_THROUGH} are "
            "accepted: name fewer calendars or time zones"
        )
    count = sum(len(_whole_days(*of)) * times for of, times in named.items())
    if count > MAX_RANGES:
        return (
            f"the calendars named hold {count} ranges of days, those of each exclude and only counted anew: "
            f"{MAX_RANGES} are accepted: name fewer calendars, or in fewer schedules"
        )
    return None


# Eight bytes for each event.
@lru_cache(maxsize=16)
def _covering(calendar: Calendar) -> tuple[CalendarEvent, ...]:
    """The events that may cover a day."""
    return tuple(
        event
        for event in calendar.events or ()
        if datetime.fromisoformat(event.closes) - datetime.fromisoformat(event.opens) >= _SHORTEST_DAY
    )


@lru_cache(maxsize=100)
def _is_zoned(calendar: Calendar) -> bool:
    return any(event.zone for event in _covering(calendar))


def _zone_of(calendar: Calendar, zone: str) -> str:
    """The zone on which the days of a calendar depend; "" if they are the same in all."""
    return zone if _is_zoned(calendar) else ""


def whole_days(calendar: Calendar, zone: str) -> tuple[DateRange, ...]:
    """
    The days that events of a calendar cover whole in a zone, ascending.

    Each range has the title of its event; of more than MAX_TITLED ranges those that touch are one.
    """
    return _whole_days(calendar, _zone_of(calendar, zone))


# 300 bytes for each range, which all windows with the calendar share.
@lru_cache(maxsize=32)
def _whole_days(calendar: Calendar, zone: str) -> tuple[DateRange, ...]:
    ranges: dict[tuple[date, date], DateRange] = {}
    for event in _covering(calendar):
        first, last = _dates(event, zone)
        if first <= last:
            title = f"{event.title} ({calendar.name})" if event.title else calendar.name
            ranges.setdefault((first, last), DateRange(first, last, title))
    days = [ranges[dates] for dates in sorted(ranges)]
    return tuple(days if len(days) <= MAX_TITLED else _merged(days, calendar.name))


def _merged(days: list[DateRange], title: str) -> Iterator[DateRange]:
    first, last = days[0].first, days[0].last
    for span in days:
        if span.first > last + ONE_DAY:
            yield DateRange(first, last, title)
            first = span.first
        last = max(last, span.last)
    yield DateRange(first, last, title)


def _dates(event: CalendarEvent, zone: str) -> tuple[date, date]:
    """The first and the last day that an event covers whole; the last is before the first if there is none."""
    opens, closes = (datetime.fromisoformat(text) for text in (event.opens, event.closes))
    is_begin = opens.time() == time()
    if event.zone:
        begin = from_datetime(opens.replace(tzinfo=UTC))
        opens, closes = (at.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)) for at in (opens, closes))
        # Not by its wall time: a clock change may skip midnight, or show it twice.
        is_begin = begin == to_instant(datetime.combine(opens, time()), zone, is_end=False)
    return opens.date() if is_begin else opens.date() + ONE_DAY, closes.date() - ONE_DAY


def _is_made(schedule: Schedule) -> bool:
    return schedule.name.startswith(CALENDAR_PREFIX)


def _made(spec: Spec, calendars: Calendars) -> Iterator[Schedule]:
    """The schedules of all calendars that the spec names, those that open first in front; names may repeat."""
    coming: list[tuple[Nanoseconds, Schedule]] = []
    left_out: list[Nanoseconds] = []
    begin: Nanoseconds = 0
    if too_many := _too_many_titles(spec, calendars):
        yield _unreadable(spec.schedules_from[0], f"schedulesFrom: {too_many}")
        return
    for index, source in enumerate(spec.schedules_from):
        calendar = calendars.get(source.calendar)
        problem = source.bounds.problem or calendar_problem(source.calendar, calendar, calendars)
        if calendar is None or problem is not None:
            yield _unreadable(source, f"schedulesFrom[{index}]: {problem}")
            continue
        begin = max(begin, calendar.begin)
        coming += _coming(spec, source, calendar)
        left_out += (opens for _, opens, _ in _matches_of(source, calendar).coming[_COMING_MAX - 1 :])
    coming.sort(key=lambda one: (one[0], one[1].name))
    yield from (schedule for _, schedule in coming[:MAX_CALENDAR_SCHEDULES])
    left_out += (opens for opens, _ in coming[MAX_CALENDAR_SCHEDULES:])
    if any(opens < begin + _SOON for opens in left_out):
        # What is left out might raise: until it is fewer, nothing is lowered but by a cap.
        problem = f"more than {MAX_CALENDAR_SCHEDULES} events match within {_SOON // DAY} days: narrow matching"
        yield _unreadable(spec.schedules_from[0], f"schedulesFrom: {problem}")


def _unreadable(source: CalendarSchedules, problem: str) -> Schedule:
    return replace(source.bounds, name=f"{CALENDAR_PREFIX}{source.calendar}", problem=problem)


def _too_many_titles(spec: Spec, calendars: Calendars) -> str | None:
    """The problem of a spec whose patterns are compared with too many titles; None if they are not."""
    patterns = {(source.calendar, source.matching.lower()) for source in spec.schedules_from}
    count = sum(_title_count(calendar) for name, _ in patterns if (calendar := calendars.get(name)) is not None)
    if count <= MAX_LOOKED_THROUGH:
        return None
    return f"its patterns are compared with {count} titles: {MAX_LOOKED_THROUGH} are accepted: state fewer entries"


@lru_cache(maxsize=100)
def _title_count(calendar: Calendar) -> int:
    return len({event.title for event in calendar.events or ()})


class _Matches(Struct, frozen=True):
    """The events of a calendar whose titles match, in order."""

    past: tuple[Span, ...]
    """Those that are over, as far back as a forecast asks."""
    coming: tuple[tuple[CalendarEvent, Nanoseconds, Nanoseconds], ...]
    """The next ones, each with its beginning and end."""


# Half a kilobyte for each event. Objects of one template ask for the same ones; of 5,000 events it takes 10 ms or more.
@lru_cache(maxsize=64)
def _matches(calendar: Calendar, matching: str, zone: str) -> _Matches:
    past: list[Span] = []
    coming: list[tuple[CalendarEvent, Nanoseconds, Nanoseconds]] = []
    # A bracket is one: titles such as "[Sale] shoes" are usual.
    is_match = re.compile(translate(matching.replace("[", "[[]"))).match
    # An event that recurs has one title: it is looked at once.
    found = {title for title in {event.title for event in calendar.events or ()} if is_match(title.lower())}
    for event in calendar.events or ():
        if event.title not in found:
            continue
        opens, closes = once(OnceWindow(event.opens, event.closes, event.zone or zone))
        if opens >= closes:
            continue
        if closes > calendar.begin:
            coming.append((event, opens, closes))
        elif closes > calendar.begin - _PAST:
            past.append(Span(opens, closes))
        if len(coming) == _COMING_MAX:
            break
    return _Matches(tuple(past[-_COMING_MAX:]), tuple(coming))


def _matches_of(source: CalendarSchedules, calendar: Calendar) -> _Matches:
    return _matches(calendar, source.matching.lower(), source.zone)


def _past(source: CalendarSchedules, calendars: Calendars) -> tuple[Span, ...]:
    calendar = calendars.get(source.calendar)
    if calendar is None or source.bounds.problem is not None or source.bounds.suspend:
        return ()
    return _matches_of(source, calendar).past


def _coming(spec: Spec, source: CalendarSchedules, calendar: Calendar) -> Iterator[tuple[Nanoseconds, Schedule]]:
    for event, opens, _ in _matches_of(source, calendar).coming:
        bounds, floor, headroom = source.bounds, source.bounds.floor, source.bounds.headroom_percent
        if source.takes_bounds:
            # Whoever keeps the calendar raises within the object's own maximum, and lowers nothing.
            of_event = None if event.floor is None else min(event.floor, spec.max_replicas)
            floor = max((one for one in (floor, of_event) if one is not None), default=None)
            headroom = max(headroom, event.headroom_percent)
        if floor is None and bounds.cap is None and not headroom:
            continue
        name = f"{CALENDAR_PREFIX}{calendar.name}/{event.title}/{_local_start(event, source.zone)}"
        window = OnceWindow(event.opens, event.closes, event.zone or source.zone)
        yield opens, replace(bounds, name=name, window=window, floor=floor, headroom_percent=headroom)


def _local_start(event: CalendarEvent, zone: str) -> str:
    """The date of an event's start in a zone, with the time unless it is midnight."""
    opens = datetime.fromisoformat(event.opens)
    if event.zone:
        opens = opens.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
    return f"{opens:%Y-%m-%d}" if opens.time() == time() else f"{opens:%Y-%m-%dT%H:%M}"


def _uniquely_named(schedules: Iterator[Schedule]) -> Iterator[Schedule]:
    names: set[str] = set()
    for schedule in schedules:
        name, number = schedule.name, 1
        while name in names:
            number += 1
            name = f"{schedule.name}#{number}"
        names.add(name)
        yield replace(schedule, name=name)
