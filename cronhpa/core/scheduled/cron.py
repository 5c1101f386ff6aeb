"""
Cron texts: which are accepted, and which wall times match. Wall times only; time zones are decided in windows.py.

Five fields with names, ranges, steps, lists, `L`, `#`, 7 as Sunday, and `@hourly` to `@yearly`. Day of month and day of
week both restricted mean either of them, as in every cron.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache

from croniter import croniter
from croniter.croniter import CroniterError

EXAMPLE = 'write for example "0 8 * * mon-fri"'
LENGTH_MAX = 100
_SHORTHANDS = {"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"}
_ALLOWED = set("0123456789*/,-#lL") | set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NUMBERS = {name: str(number) for number, name in (*enumerate(_MONTHS, start=1), *enumerate(_WEEKDAYS))}
_NAMES = {*_NUMBERS, "l"}
_RANGE = re.compile(r"(?<!\w)(\w+)-(\w+)(?:/[0-9]+)?(?!\w)", re.ASCII)
_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
# 29 February on a given weekday comes back after 40 years at the latest (across 2100).
_YEARS = 41
_TUESDAY = datetime(2024, 1, 2)  # noqa: DTZ001 - wall times carry no zone here


@lru_cache(maxsize=4096)
def problem(text: str) -> str | None:
    """What is wrong with a cron text, with the field and an example that works; None when it can be read and fires."""
    shown = text if len(text) <= LENGTH_MAX else text[:LENGTH_MAX] + "..."
    if len(text) > LENGTH_MAX:
        return f'"{shown}" has {len(text)} characters, at most {LENGTH_MAX} are read'
    if text.startswith("@"):
        return None if text in _SHORTHANDS else f'"{text}" is not known: use one of {", ".join(sorted(_SHORTHANDS))}'
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f'"{shown}" has {len(fields)} fields, five are read ({", ".join(_FIELDS)}): {EXAMPLE}'
    for name, field in zip(_FIELDS, fields, strict=True):
        found = _problem_of_field(name, field)
        if found:
            return f'"{shown}": {found}: {EXAMPLE}'
    try:
        croniter.expand(_without_single_ranges(text))
    except (CroniterError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f'"{shown}" cannot be read ({error}): {EXAMPLE}'
    try:
        _iterate(text, _TUESDAY).get_next(datetime)
    except CroniterError:
        return f'"{shown}" names a date that never comes'
    return None


def _problem_of_field(name: str, field: str) -> str | None:
    strange = next((char for char in field if char not in _ALLOWED), None)
    if strange is not None:
        return f"the {name} {field!r} has {strange!r}, which is not supported"
    word = ""
    for char in field + " ":
        if char.isalpha():
            word += char
            continue
        if word and word.lower() not in _NAMES:
            return f"the {name} {field!r} has {word!r}, which is no name of a month or weekday"
        word = ""
    return None


def backwards(text: str, wall: datetime) -> Iterator[datetime]:
    """The matching wall times at or before `wall`, latest first."""
    matches = _iterate(text, wall + timedelta(seconds=1))
    while True:
        try:
            yield matches.get_prev(datetime)
        except CroniterError:
            return


def forwards(text: str, wall: datetime) -> Iterator[datetime]:
    """The matching wall times after `wall`, earliest first."""
    matches = _iterate(text, wall)
    while True:
        try:
            yield matches.get_next(datetime)
        except CroniterError:
            return


def _iterate(text: str, wall: datetime) -> croniter:
    return croniter(_without_single_ranges(text), wall, max_years_between_matches=_YEARS)


@lru_cache(maxsize=4096)
def _without_single_ranges(text: str) -> str:
    """The text with each range of one value, `8-8` or `mon-1`, as that value: croniter takes such a range for `*`."""
    return _RANGE.sub(lambda found: found[1] if _number(found[1]) == _number(found[2]) else found[0], text)


def _number(word: str) -> str:
    return _NUMBERS.get(word.lower(), word.lstrip("0") or "0")
