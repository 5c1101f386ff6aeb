"""
iCalendar (RFC 5545) in, single occurrences out.

A feed is taken as a whole or not at all: with an event left out, an `exclude` would open a window on a closed day.
What takes unbounded time or memory is refused where it can be seen, and bounded by `ics_process` where it cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from cronhpa.core.model.calendar import CalendarEvent
from cronhpa.core.model.instant import DAY, Nanoseconds, to_datetime
from cronhpa.core.model.printable import printable, shortened
from cronhpa.core.model.spec import Span
from cronhpa.core.schedules.wall_clock import zone_problem

BYTES_MAX = 4 * 2**20
"""The largest calendar that is read: some 8,000 events."""
EVENTS_MAX = 10_000
"""The most events that a calendar may have, each recurring one counted once."""
OCCURRENCES_MAX = 5_000
"""The most occurrences within the days that are read."""
SPAN_DAYS = 500
"""What is read: 72 to 100 days before today, for forecasts, and 400 to 428 days ahead."""
_PAST_DAYS, _BLOCK_DAYS = 72, 28
_TITLE_MAX = 80
_SHOWN_MAX = 60
_TEXT = "%Y-%m-%dT%H:%M"
_TOO_OFTEN = ("SECONDLY", "MINUTELY")
_MINUTE = timedelta(minutes=1)
# Bounds that an event states, on lines of their own; some programs write descriptions as HTML.
_LINES = re.compile(r"<[^<>]*>|[\r\n]+")
_BOUND = re.compile(r"\s*(minReplicas|headroomPercent)\s*[:=]\s*([0-9]{1,9})\s*")
_HEADROOM_MAX = 1000
# An event may last for centuries; beyond these nobody plans.
_EARLIEST, _LATEST = datetime(1970, 1, 1), datetime(2200, 1, 1)  # noqa: DTZ001 - local times
_TIMED = ("DTSTART", "DTEND", "RDATE", "EXDATE", "RECURRENCE-ID")
_ONCE = ("DTSTART", "DTEND", "DURATION", "RECURRENCE-ID", "UID", "SEQUENCE", "STATUS")
_NUMBERED = ("RRULE", "DURATION", "SEQUENCE", *_TIMED)
_CALENDAR_ZONE = "X-WR-TIMEZONE"


class IcsError(ValueError):
    """Why a calendar cannot be read: where, what was found, and what is accepted."""


def around(now: Nanoseconds) -> Span:
    """
    The days for which an operator reads calendars.

    They change every four weeks: with each day that comes and goes the specs would be others, and be fitted anew.
    """
    begin = now - now % (_BLOCK_DAYS * DAY) - _PAST_DAYS * DAY
    return Span(begin, begin + SPAN_DAYS * DAY)


def read_ics(text: bytes, span: Span) -> tuple[CalendarEvent, ...]:
    """The occurrences of a calendar within a span, by their beginning. Raises IcsError."""
    if len(text) > BYTES_MAX:
        raise IcsError(f"it has more than {BYTES_MAX >> 20} MiB: name a calendar with fewer events")
    begin, end = to_datetime(span.begin), to_datetime(span.end)
    calendars = _without_cancelled(_calendars(text))
    found = {event for calendar in calendars for event in _events(calendar, begin, end)}
    if len(found) > OCCURRENCES_MAX:
        raise IcsError(_too_many(begin, end))
    return tuple(sorted(found, key=lambda event: (event.opens, event.closes, event.title, event.zone)))


def _too_many(begin: datetime, end: datetime) -> str:
    days = (end - begin).days
    return (
        f"its events occur more than {OCCURRENCES_MAX} times within {days} days: use a calendar of days and sales, "
        "not of appointments"
    )


def _calendars(text: bytes) -> list[Any]:
    import icalendar  # noqa: PLC0415 - for whoever has calendars alone: 200 modules

    try:
        calendars: list[Any] = icalendar.Calendar.from_ical(text.decode("utf-8-sig"), multiple=True)
    except UnicodeDecodeError as error:
        raise IcsError(f"byte {error.start}: {error.reason}: UTF-8 text is accepted") from None
    except MemoryError:
        raise
    except OSError:  # its text has a path of ours
        raise IcsError("a time zone has no name but a long text: use an IANA name such as Europe/Berlin") from None
    except Exception as error:  # noqa: BLE001 - what a library stumbles over costs this calendar, and no more
        raise IcsError(f"it is no iCalendar text: {_said(error)}: it begins with BEGIN:VCALENDAR") from None
    if not calendars or any(calendar.name != "VCALENDAR" for calendar in calendars):
        raise IcsError("it holds no whole calendar: one begins with BEGIN:VCALENDAR and ends with END:VCALENDAR")
    return calendars


def _without_cancelled(calendars: list[Any]) -> list[Any]:
    """
    The calendars without those of METHOD:CANCEL, and without what these cancel: events, or single instances of one.

    RFC 5546, 3.2.5: a cancellation need not state DTSTART, and states STATUS only if it is for all attendees.
    """
    kept, cancelled = list[Any](), dict[str, list[Any]]()
    for calendar in calendars:
        if str(_first(calendar.get("METHOD"))).upper() != "CANCEL":
            kept.append(calendar)
            continue
        for event in calendar.walk("VEVENT"):
            _check_once(event)
            cancelled.setdefault(str(event.get("UID", "")), []).append(event)
    for calendar in kept if cancelled else ():
        for event in calendar.walk("VEVENT"):
            _check_once(event)
            for cancellation in cancelled.get(str(event.get("UID", "")), ()):
                if _sequence(event) <= _sequence(cancellation):
                    _cancel(calendar, event, cancellation)
    return kept


def _cancel(calendar: Any, event: Any, cancellation: Any) -> None:
    of, instance = cancellation.get("RECURRENCE-ID"), event.get("RECURRENCE-ID")
    if of is None or (instance is not None and instance.dt == of.dt):
        event["STATUS"] = "CANCELLED"
    elif instance is None:
        of_series = {name: event[name] for name in ("UID", "SEQUENCE") if name in event}
        calendar.add_component(type(event)({**of_series, "RECURRENCE-ID": of, "DTSTART": of, "STATUS": "CANCELLED"}))


def _sequence(event: Any) -> int:
    return int(event.get("SEQUENCE", 0))


def _events(calendar: Any, begin: datetime, end: datetime) -> Iterator[CalendarEvent]:
    import recurring_ical_events  # noqa: PLC0415 - as above

    events = calendar.walk("VEVENT")
    if len(events) > EVENTS_MAX:
        raise IcsError(f"it has {len(events)} events: {EVENTS_MAX} are accepted")
    for event in events:
        _check(event)
    _check_zone(calendar)
    _tell_apart(events)
    try:
        query = recurring_ical_events.of(calendar)
        occurrences = query.between(begin, end)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        raise IcsError(f"its events cannot be expanded: {_said(error)}") from None
    if len(occurrences) > OCCURRENCES_MAX:
        raise IcsError(_too_many(begin, end))
    for occurrence in occurrences:
        event = _event(occurrence)
        if event is not None:
            yield event


def _check(event: Any) -> None:
    """Raises IcsError for an event whose times would be guessed, and for one that recurs without measure."""
    _check_once(event)
    where = _named(event)
    if event.get("DTSTART") is None:
        raise IcsError(f"{where}: DTSTART is missing: an event says when it begins")
    if event.get("EXRULE") is not None:
        raise IcsError(f"{where}: EXRULE is not read: state the dates that are left out as EXDATE")
    for rule in _listed(event.get("RRULE")):
        _check_rule(where, rule)
    for name in _TIMED:
        for value in _listed(event.get(name)):
            zone = value.params.get("TZID")
            if zone is not None and any(_is_floating(at) for at in _moments(value)):
                raise IcsError(
                    f"{where}: {name}: the time zone {_shown(zone)} is not known: use an IANA name such as"
                    " Europe/Berlin, or send its VTIMEZONE"
                )
    _check_length(where, event)


def _named(event: Any) -> str:
    return f"event {_shown(_first(event.get('SUMMARY')) or event.get('UID') or 'without a name')}"


def _check_once(event: Any) -> None:
    """Raises IcsError for lines that cannot be read, and for one that stands there twice."""
    where = _named(event)
    for name, problem in event.errors:
        if name in {None, *_NUMBERED}:
            raise IcsError(f"{where}: {name or 'a line'}: {_said(problem)}")
    for name in _ONCE:
        if isinstance(event.get(name), list):
            raise IcsError(f"{where}: {name} stands there {len(event[name])} times: once is accepted")


def _check_rule(where: str, rule: Any) -> None:
    from dateutil.rrule import rrulestr  # noqa: PLC0415 - as above

    frequency = str(next(iter(rule.get("FREQ", ())), ""))
    if frequency in _TOO_OFTEN:
        raise IcsError(f"{where}: RRULE recurs {frequency}: HOURLY and longer is accepted")
    # Without an end: that of a zone is not understood without the event's begin.
    plain = {name: value for name, value in rule.items() if name != "UNTIL"}
    try:
        rrulestr(type(rule)(plain).to_ical().decode())
        is_kept = all(int(every) >= 1 for every in rule.get("INTERVAL", ()))
    except (ValueError, TypeError, KeyError) as error:
        raise IcsError(f"{where}: RRULE: {_said(error)}: a rule of RFC 5545 is accepted") from None
    if not is_kept:
        raise IcsError(f"{where}: RRULE: INTERVAL is below 1: 1 and more is accepted")


def _check_length(where: str, event: Any) -> None:
    """Raises IcsError for an event that ends before it begins: a library takes the time in between."""
    begin, end, duration = event["DTSTART"].dt, event.get("DTEND"), event.get("DURATION")
    if end is not None and _kind(begin) != _kind(end.dt):
        raise IcsError(f"{where}: DTSTART is {_kind(begin)}, DTEND is {_kind(end.dt)}: two of one kind are accepted")
    if (end is not None and end.dt < begin) or (duration is not None and duration.dt < timedelta()):
        raise IcsError(f"{where}: it ends before it begins: a DTEND behind DTSTART is accepted")


def _kind(at: date | datetime) -> str:
    if not isinstance(at, datetime):
        return "a date"
    return "a time without a zone" if at.tzinfo is None else "a time with a zone"


def _check_zone(calendar: Any) -> None:
    """Names the zone of a calendar's floating times as IANA does; raises IcsError for one that nobody knows."""
    from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON  # noqa: PLC0415 - as above

    zones = _listed(calendar.pop(_CALENDAR_ZONE, None))
    names = {WINDOWS_TO_OLSON.get(name, name) for zone in zones if (name := str(zone).strip())}
    for name in names:
        if len(names) > 1 or zone_problem(name) is not None:
            shown = _shown(", ".join(sorted(names)))
            raise IcsError(f"{_CALENDAR_ZONE}: {shown}: one IANA name such as Europe/Berlin is accepted")
        calendar.add(_CALENDAR_ZONE, name)


def _tell_apart(events: list[Any]) -> None:
    """
    Gives events that share a UID by mistake one each.

    Real calendars have such: of a UID only the event with the highest SEQUENCE would be kept.
    """
    seen: set[tuple[str, int]] = set()
    for number, event in enumerate(events):
        if event.get("RECURRENCE-ID") is not None:
            continue
        key = (str(event.get("UID", "")), _sequence(event))
        if key in seen:
            event["UID"] = f"{key[0]}#{number}"
        seen.add(key)


def _moments(value: Any) -> Iterator[Any]:
    """The times of a property: one, those of a list, both of a period."""
    for entry in getattr(value, "dts", (value,)):
        yield from entry.dt if isinstance(entry.dt, tuple) else (entry.dt,)


def _is_floating(at: Any) -> bool:
    return isinstance(at, datetime) and at.tzinfo is None


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _first(value: Any) -> Any:
    """Of a property that stands there several times, such as in several languages."""
    return next(iter(_listed(value)), None)


def _event(occurrence: Any) -> CalendarEvent | None:
    """The occurrence; None for one that is cancelled, or takes no time."""
    if str(occurrence.get("STATUS", "")).upper() == "CANCELLED":
        return None
    begin, end = occurrence["DTSTART"].dt, occurrence["DTEND"].dt
    if begin == end and not isinstance(begin, datetime):
        # Programs that write an end which does belong to the event mean its day, as calendars show it.
        end += timedelta(days=1)
    is_zoned = isinstance(begin, datetime) and begin.tzinfo is not None
    opens, closes = max(_wall(begin), _EARLIEST), min(_end(begin, end), _LATEST)
    # To the minute, never shorter.
    closes += (_MINUTE - timedelta(seconds=closes.second, microseconds=closes.microsecond)) % _MINUTE
    opens = opens.replace(second=0, microsecond=0)
    if opens >= closes:
        return None
    title = shortened(printable(" ".join(str(_first(occurrence.get("SUMMARY")) or "").split())), _TITLE_MAX)
    bounds = dict(_bounds(str(_first(occurrence.get("DESCRIPTION")) or "")))
    return CalendarEvent(
        title,
        f"{opens:{_TEXT}}",
        f"{closes:{_TEXT}}",
        "UTC" if is_zoned else "",
        bounds.get("minReplicas"),
        min(bounds.get("headroomPercent", 0), _HEADROOM_MAX),
    )


def _bounds(description: str) -> Iterator[tuple[str, int]]:
    for line in _LINES.split(description):
        bound = _BOUND.fullmatch(line)
        if bound is not None:
            yield bound[1], int(bound[2])


def _wall(at: date | datetime) -> datetime:
    """A date's midnight; a time as its clock shows it, or in UTC if it has a zone."""
    if not isinstance(at, datetime):
        return datetime(at.year, at.month, at.day)  # noqa: DTZ001 - a local time
    return at if at.tzinfo is None else at.astimezone(UTC).replace(tzinfo=None)


def _end(begin: date | datetime, end: date | datetime) -> datetime:
    """As `_wall`; but what begins in an hour that its zone skips, and would end by then, takes its time."""
    opens, closes = _wall(begin), _wall(end)
    if isinstance(begin, datetime) and isinstance(end, datetime) and begin.tzinfo == end.tzinfo and closes <= opens:
        return opens + (end.replace(tzinfo=None) - begin.replace(tzinfo=None))
    return closes


def _said(error: object) -> str:
    return _shown(" ".join(str(error).split()) or type(error).__name__)


def _shown(text: object) -> str:
    return shortened(printable(str(text)), _SHOWN_MAX)
