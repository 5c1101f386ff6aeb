"""
Named calendars become plain dates and plain schedules of the objects that name them: nothing below knows them.

`exclude` and `only` take the days that an event covers whole, midnight to midnight in the zone of the schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from functools import lru_cache
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from cronhpa.core.model.calendar import Calendar, CalendarEvent, Calendars
from cronhpa.core.model.instant import format_instant
from cronhpa.core.model.spec import CronWindow, DateRange, Days, OnceWindow, Schedule, Spec
from cronhpa.core.schedules.wall_clock import ONE_DAY

MAX_TITLED = 250
"""The most ranges of one calendar: a window looks at each of them."""
_KEYS = ("exclude", "only")


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
    if not any(unread(schedule.window) for schedule in spec.schedules):
        return spec
    kept = {_told(calendars[name]) for name in calendars_of(spec) if _is_kept(calendars.get(name))}
    return replace(
        spec,
        schedules=tuple(_resolved(schedule, calendars) for schedule in spec.schedules),
        calendar_problems=tuple(sorted(kept.union(spec.calendar_problems))),
    )


def calendars_of(spec: Spec) -> set[str]:
    """The names of the calendars that a spec, as it was written, asks for."""
    return {name for schedule in spec.schedules for name in _named(schedule.window)}


def _is_kept(calendar: Calendar | None) -> bool:
    return calendar is not None and calendar.events is not None and bool(calendar.problem)


def _told(calendar: Calendar) -> str:
    since = "" if calendar.since is None else f"since {format_instant(calendar.since)} "
    return f'the calendar "{calendar.name}" is as it was last read: {since}{calendar.problem}'


def _named(window: CronWindow | OnceWindow) -> Iterator[str]:
    if isinstance(window, CronWindow):
        for key in _KEYS:
            days: Days | None = getattr(window, key)
            if days is not None:
                yield from days.calendars


def _resolved(schedule: Schedule, calendars: Calendars) -> Schedule:
    window = schedule.window
    if not isinstance(window, CronWindow) or unread(window) is None:
        return schedule
    # Another problem of the schedule stays.
    other = None if schedule.problem == unread(window) else schedule.problem
    days: dict[str, Days] = {}
    for key in _KEYS:
        stated: Days | None = getattr(window, key)
        if stated is None or not stated.calendars:
            continue
        ranges = list(stated.ranges)
        for name in stated.calendars:
            calendar = calendars.get(name)
            problem = calendar_problem(name, calendar, calendars)
            if calendar is None or problem is not None:
                return replace(schedule, problem=other or f"{key}.calendars: {problem}")
            ranges += whole_days(calendar, window.zone)
        days[key] = Days(tuple(ranges), stated.holidays)
    return replace(schedule, window=replace(window, **days), problem=other)


def calendar_problem(name: str, calendar: Calendar | None, calendars: Calendars) -> str | None:
    """Why a calendar cannot be used, in words; None if it can."""
    if calendar is None:
        known = ", ".join(sorted(calendars)) or "no calendar"
        return f'"{name}": there is no such calendar: the operator\'s settings name {known}'
    if calendar.events is None:
        return f'"{name}" was never read: {calendar.problem or "it is not read yet"}'
    return None


# 300 bytes for each range, which all windows with the calendar share.
@lru_cache(maxsize=32)
def whole_days(calendar: Calendar, zone: str) -> tuple[DateRange, ...]:
    """
    The days that events of a calendar cover whole in a zone, ascending.

    Each range has the title of its event; of more than MAX_TITLED ranges those that touch are one.
    """
    ranges: dict[tuple[date, date], DateRange] = {}
    for event in calendar.events or ():
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
    if event.zone:
        opens, closes = (at.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)) for at in (opens, closes))
    first = opens.date() if opens.time() == time() else opens.date() + ONE_DAY
    return first, closes.date() - ONE_DAY
