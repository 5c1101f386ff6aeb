"""Instants and lengths as people read them, in a time zone: for statuses, events and commands."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, Nanoseconds, parse_instant, to_datetime

_WEEK_DAYS = 7
_YEAR = 365 * DAY
_INSTANT = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\b", re.ASCII)


def local(at: Nanoseconds, zone: str) -> datetime:
    """The datetime of an instant in a zone; in UTC where it would lie beyond the year 9999, as an end for ever may."""
    moment = to_datetime(at)
    try:
        return moment.astimezone(ZoneInfo(zone))
    except OverflowError:
        return moment


def format_moment(at: Nanoseconds, zone: str) -> str:
    """Such as `Mon 2026-11-23 08:00 +01:00`; with seconds where there are any."""
    return f"{format_local(at, zone)} {format_offset(at, zone)}"


def format_local(at: Nanoseconds, zone: str) -> str:
    """Such as `Mon 2026-11-23 08:00`, for places that show the offset beside it; with seconds unless they are zero."""
    moment = local(at, zone)
    return f"{moment:%a} {moment.date().isoformat()} {_clock(at, zone)[0]}"


def format_offset(at: Nanoseconds, zone: str) -> str:
    """Such as `+01:00`: how far the local time is ahead of UTC."""
    return _clock(at, zone)[1]


def format_clock(at: Nanoseconds, zone: str) -> str:
    """Such as `08:00 +01:00`; with seconds where there are any."""
    return " ".join(_clock(at, zone))


def _clock(at: Nanoseconds, zone: str) -> tuple[str, str]:
    """The time of day, and the offset."""
    moment = local(at, zone).replace(microsecond=0)
    clock = moment.isoformat(timespec="seconds" if moment.second else "minutes").partition("T")[2]
    digits = 8 if moment.second else 5
    return clock[:digits], clock[digits:]


def format_near(at: Nanoseconds, zone: str, now: Nanoseconds) -> str:
    """As `format_clock` on the day of `now`, as `format_moment` on another."""
    is_today = local(at, zone).date() == local(now, zone).date()
    return (format_clock if is_today else format_moment)(at, zone)


def local_times(text: str, zone: str, now: Nanoseconds) -> str:
    """The text with each instant in it, RFC 3339 in UTC to the second, as `format_near` writes it."""
    return _INSTANT.sub(lambda instant: format_near(parse_instant(instant[0]), zone, now), text)


def format_ahead(at: Nanoseconds, zone: str, now: Nanoseconds) -> str:
    """
    Such as `Mon 08:00 +01:00` within the next six days, else the date: read without knowing when or where it was
    written. Lists show objects of several zones below each other.

    Never `08:00` alone: the text would have to change at midnight.
    """
    moment, today = local(at, zone), local(now, zone)
    if 0 <= (moment.date() - today.date()).days < _WEEK_DAYS:
        return f"{moment:%a %H:%M} {format_offset(at, zone)}"
    return moment.date().isoformat()


def format_length(length: Nanoseconds) -> str:
    """The two largest units, such as `10 h`, `2 d 14 h` or `1 min 30 s`; from two years on `6 years`."""
    if length >= 2 * _YEAR:
        return f"{length // _YEAR} years"
    rest, parts = length, []
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        count, rest = divmod(rest, unit)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2]) or "0 s"
