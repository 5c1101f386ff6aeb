"""
Calendars: the dates that `exclude` and `only` name. `occurrences` applies them to windows.

Holidays are the public ones of the `holidays` library, on the days on which they are observed. The library is imported
when the dates of a holiday are first needed: importing it is slow and takes memory, which a cluster without holidays
saves. Codes are checked without it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from datetime import date, timedelta
from difflib import get_close_matches
from functools import lru_cache

from cronhpa.core.model.spec import Days, Holidays
from cronhpa.core.schedules.holiday_codes import COUNTRIES, PARTS

_DAY = timedelta(days=1)
# Common names of a country that are not its code.
_ALIASES = {"UK": "GB"}
_COUNTRIES = COUNTRIES.split(",")


# A kilobyte each: two codes of at most 64 characters, and a sentence.
@lru_cache(maxsize=1024)
def problem(public_holidays: Holidays) -> tuple[str, str] | None:
    """The field with an unknown code, and a sentence that lists similar codes; None if both codes are known."""
    country, part = public_holidays.country, public_holidays.subdivision
    if country not in _COUNTRIES:
        meant = _ALIASES.get(country) or f"an ISO 3166 code such as {_near(country, _COUNTRIES, 'DE, US')}"
        return "country", f'"{country}" is not known: use {meant}'
    parts = PARTS.get(country, "").split(",")
    if part is None or part in parts:
        return None
    if country not in PARTS:
        return "subdivision", f'"{part}" is not known: {country} has no parts with holidays of their own, leave it out'
    return "subdivision", f'"{part}" is not known in {country}: use a code such as {_near(part, parts, parts[0])}'


def contains(days: Days, day: date) -> bool:
    """Whether a date is among the days, whose holidays are known (see `problem`)."""
    return any(span.first <= day <= span.last for span in days.ranges) or any(
        _is_holiday(public_holidays, day) for public_holidays in days.holidays
    )


def reason(days: Days, day: date) -> str | None:
    """Why a date is among the days: the holiday or the range, in words; None if it is not among them."""
    for public_holidays in days.holidays:
        name = _names_in(public_holidays, day.year).get(day)
        if name is not None:
            place = "-".join(part for part in (public_holidays.country, public_holidays.subdivision) if part)
            return f"{name} ({place})"
    span = next((span for span in days.ranges if span.first <= day <= span.last), None)
    if span is None or span.title:
        return None if span is None else span.title
    return f"{span.first}" if span.first == span.last else f"{span.first} to {span.last}"


def first_in(days: Days, day: date, last: date) -> date | None:
    """The first date from `day` to `last` that is among the days."""
    dates = [max(span.first, day) for span in days.ranges if span.last >= day]
    dates += [
        holiday
        for public_holidays in days.holidays
        if (holiday := _next_holiday(public_holidays, day, last)) is not None
    ]
    first = min(dates, default=last + _DAY)
    return first if first <= last else None


def first_outside(days: Days, day: date, last: date) -> date | None:
    """The first date from `day` to `last` that is not among the days."""
    while day <= last:
        ends = [span.last for span in days.ranges if span.first <= day <= span.last]
        if not ends and not contains(days, day):
            return day
        day = min(max(ends, default=day), last) + _DAY
    return None


def _is_holiday(public_holidays: Holidays, day: date) -> bool:
    dates, number = _holidays_in(public_holidays, day.year), day.toordinal()
    at = bisect_left(dates, number)
    return at < len(dates) and dates[at] == number


def _next_holiday(public_holidays: Holidays, day: date, last: date) -> date | None:
    for year in range(day.year, last.year + 1):
        dates = _holidays_in(public_holidays, year)
        at = bisect_left(dates, day.toordinal())
        if at < len(dates):
            return date.fromordinal(dates[at])
    return None


# A kilobyte each: no country has more than a hundred public holidays a year. 4,096 are all countries for 16 years.
@lru_cache(maxsize=4096)
def _holidays_in(public_holidays: Holidays, year: int) -> array[int]:
    """The public holidays of a year as ordinals of `date.toordinal`, ascending."""
    import holidays  # noqa: PLC0415 - see the top of this file

    dates = holidays.country_holidays(public_holidays.country, subdiv=public_holidays.subdivision, years=year)
    return array("i", sorted(day.toordinal() for day in dates if day.year == year))


# 15 kB each.
@lru_cache(maxsize=128)
def _names_in(public_holidays: Holidays, year: int) -> dict[date, str]:
    """The names of the holidays, in English if the library has that. Only people read them; no decision does."""
    import holidays  # noqa: PLC0415 - see the top of this file

    return dict(
        holidays.country_holidays(
            public_holidays.country, subdiv=public_holidays.subdivision, years=year, language="en_US"
        ).items()
    )


def _near(given: str, codes: Sequence[str], otherwise: str) -> str:
    """At most five known codes that are similar to the given one; only codes of its first letter are compared."""
    spelt = {code.lower(): code for code in codes if code.lower().startswith(given.lower()[:1])}
    near = get_close_matches(given.lower(), spelt, n=5, cutoff=0.5)
    near += [low for low in spelt if low not in near]
    return ", ".join(spelt[low] for low in near[:5]) or otherwise
