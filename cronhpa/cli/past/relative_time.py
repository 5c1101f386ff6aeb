"""Past times as people type them on the command line: `yesterday 08:02`, `last tuesday 9:00`, `2h ago`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from cronhpa.cli.tables.time_format import format_length, format_moment, local, parse_length, parse_moment
from cronhpa.core.model.instant import HOUR, Nanoseconds
from cronhpa.core.schedules.wall_clock import to_instant

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SAID = re.compile(
    r"(?:(?P<day>today|yesterday|(?:last )?(?:" + "|".join(f"{day[:3]}(?:{day[3:]})?" for day in _DAYS) + r"))(?: |$))?"
    r"(?P<clock>(?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?)?",
    re.ASCII,
)
_AGO = re.compile(r"(?P<length>[0-9a-z ]+) ago", re.ASCII)
# parse_length takes the first letter of each unit.
_ONE = r"([0-9]+(?= ?[a-z])|an?(?= )) ?(seconds?|secs?|minutes?|mins?|hours?|days?|weeks?|[smhdw])"
_PART = re.compile(_ONE, re.ASCII)
_WORDS = re.compile(rf"{_ONE}(?: (?:and )?{_ONE})*", re.ASCII)
# The zone that is furthest behind UTC: when the local time of UTC passes there, this much later.
_ZONES_AHEAD = 14 * HOUR
_WEEK = 7


def parse_past_moment(text: str, zone: str, now: Nanoseconds, *, is_end: bool = False) -> Nanoseconds:
    """
    The instant that a text means, looking back from `now`.

    Accepted are
    - `now`;
    - a time of day: the latest such time;
    - `today`, `yesterday` or a weekday with a time of day, or alone for its begin; a weekday is the latest one, with
      `last` the latest one before today;
    - a length and `ago`;
    - a local date or time, or an RFC 3339 text.

    is_end: take the second one of a local time that the clocks repeat. Raises ValueError for any other text, and for a
    time that lies ahead.
    """
    moment = _parsed(text, zone, now, f"local time of {zone}", is_end=is_end)
    if moment > now:
        raise ValueError(_ahead(text, moment, zone, now))
    return moment


def check_past_moment(text: str, now: Nanoseconds) -> None:
    """Raises ValueError for a text that is a past time in no time zone, for where the object's zone is not known."""
    moment = _parsed(text, "UTC", now, "local time of the object's zone")
    if moment > now + _ZONES_AHEAD:
        raise ValueError(_ahead(text, moment, "UTC", now))


def _ahead(text: str, moment: Nanoseconds, zone: str, now: Nanoseconds) -> str:
    ahead = f"{format_moment(moment, zone)}, which lies {format_length(moment - now)} ahead"
    return f'"{text}" is {ahead}: name a time that has passed'


def _parsed(text: str, zone: str, now: Nanoseconds, problem: str, *, is_end: bool = False) -> Nanoseconds:
    """As parse_past_moment, also for times ahead. problem: what an error says of a time without an offset."""
    phrase = " ".join(text.lower().split())
    if phrase == "now":
        return now
    ago = _AGO.fullmatch(phrase)
    try:
        if ago:
            return now - _length(ago["length"])
        words = _SAID.fullmatch(phrase)
        if words and phrase:
            return _said(words["day"], words["clock"], zone, now, is_end=is_end)
        return parse_moment(text.strip(), zone, now, is_end=is_end)
    except (ValueError, OverflowError) as error:
        examples = '"08:02", "yesterday 08:02", "last tuesday 9:00", "2h ago", "2026-11-23T18:00" '
        raise ValueError(
            f'"{text}" is no time: write for example {examples}({problem}), "2026-11-23T17:00:00Z"'
        ) from error


def _length(text: str) -> Nanoseconds:
    """The length of `2h`, or of words such as `5 minutes`, `an hour`, `1 day 2 hours`. Raises ValueError."""
    words = _WORDS.fullmatch(text)
    if words is None:
        return parse_length(text)
    parts = _PART.findall(text)
    return sum(parse_length(f"{1 if count in {'a', 'an'} else count}{unit[0]}") for count, unit in parts)


def _said(day: str | None, clock: str | None, zone: str, now: Nanoseconds, *, is_end: bool) -> Nanoseconds:
    today = local(now, zone).replace(tzinfo=None)
    hour, minute, second = (*(int(part) for part in (clock or "0:00").split(":")), 0)[:3]
    wall = today.replace(hour=hour, minute=minute, second=second, microsecond=0)

    def instant(moment: datetime) -> Nanoseconds:
        return to_instant(moment, zone, is_end=is_end)

    if day is None:
        return instant(wall) if instant(wall) <= now else instant(wall - timedelta(days=1))
    if day in {"today", "yesterday"}:
        return instant(wall - timedelta(days=day == "yesterday"))
    name = day.removeprefix("last ")
    weekday = next(number for number, full in enumerate(_DAYS) if full.startswith(name))
    back = (today.weekday() - weekday) % _WEEK
    if back == 0 and (day != name or instant(wall) > now):
        back = _WEEK
    return instant(wall - timedelta(days=back))
