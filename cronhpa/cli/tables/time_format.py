"""Times and lengths as people write them on the command line, in a zone of their choice."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfoNotFoundError

from cronhpa.core.model.instant import DAY, MINUTE, Nanoseconds, parse_duration, parse_instant
from cronhpa.core.model.local_time import format_clock, format_length, format_local, format_moment, format_offset, local
from cronhpa.core.schedules.wall_clock import to_instant, zone_problem

__all__ = [
    "format_clock",
    "format_length",
    "format_local",
    "format_moment",
    "format_offset",
    "local",
    "parse_length",
    "parse_moment",
]

_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]", re.ASCII)
_DAYS = re.compile(r"([0-9]{1,5})(d|w)", re.ASCII)
# From today on it ends in a year that can be written.
_LONGEST = 99_999 * 7 * DAY


def parse_moment(text: str, zone: str, now: Nanoseconds, *, is_end: bool = False) -> Nanoseconds:
    """
    The instant of `now` (its minute), a time of day (the next after `now`), a local date or time, or an RFC 3339 text.

    is_end: take the second one of a local time that the clocks repeat. Raises ValueError for any other text.
    """
    if text == "now":
        return now - now % MINUTE
    try:
        if _TIME_OF_DAY.fullmatch(text):
            today = local(now, zone)
            hour, minute = (int(part) for part in text.split(":"))
            wall = today.replace(hour=hour, minute=minute, second=0, microsecond=0, tzinfo=None)
            moment = to_instant(wall, zone, is_end=is_end)
            return moment if moment > now else to_instant(wall + timedelta(days=1), zone, is_end=is_end)
        moment_of_text = datetime.fromisoformat(text)
        if moment_of_text.tzinfo is not None:
            return parse_instant(text)
        return to_instant(moment_of_text, zone, is_end=is_end)
    except ZoneInfoNotFoundError as error:  # an API server of a newer release may know it
        raise ValueError(f'"{text}": {zone_problem(zone)}, or an offset, such as "2026-11-23T17:00:00Z"') from error
    except (ValueError, OverflowError) as error:
        example = f'"2026-11-23T18:00" (local time of {zone}), "2026-11-23T17:00:00Z", "2026-11-23" or "18:00"'
        raise ValueError(f'"{text}" is no time: write for example {example}') from error


def parse_length(text: str) -> Nanoseconds:
    """
    The length of `90m`, `2h`, `1h30m`, `7d` or `2w`; a day is 24 hours.

    Raises ValueError for any other text, and for a length that is not above zero or is above 1900 years.
    """
    days = _DAYS.fullmatch(text)
    try:
        length = int(days[1]) * (DAY if days[2] == "d" else 7 * DAY) if days else parse_duration(text)
    except ValueError:
        length = 0
    if not 0 < length <= _LONGEST:
        raise ValueError(f'"{text}" is no length of time: write for example 90m, 2h, 1h30m, 7d or 2w')
    return length
