"""
Cron expressions: those that are accepted, with their dates and minutes. Wall times only; `wall_clock` owns zones.

Accepted are five fields with names, ranges, steps, lists, `L`, `#`, 7 as Sunday, and `@hourly` to `@yearly`. If day of
month and day of week are both restricted, either of them suffices, as in every cron. A field is restricted unless it is
`*` or `*/1`.

croniter reads the fields; the dates are computed here. croniter's own iteration requires both of `fri#2` and a day of
the month, and walks through 41 years to find that 30 February never comes.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import MAXYEAR, MINYEAR, date, datetime, timedelta
from functools import lru_cache
from itertools import product

from croniter import croniter
from croniter.croniter import CroniterError
from msgspec import Struct

EXAMPLE = 'write for example "0 8 * * mon-fri"'
LENGTH_MAX = 100
SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NUMBERS = {name: number for number, name in (*enumerate(_MONTHS, start=1), *enumerate(_WEEKDAYS))}
# The longest that each month can be: 29 February exists, 30 February does not.
_LONGEST = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# 29 February on a given weekday comes back after 40 years at the latest (across 2100).
_MONTHS_MAX = 41 * 12


# --- grammar -----------------------------------------------------------------------------------------------------


def _pattern(value: str, steps: str, *others: str) -> str:
    """The pattern of one field: a list of `*`, values, ranges with steps, and the forms of `others`."""
    part = "|".join((rf"(\*|{value}(-{value})?)(/{steps})?", *others))
    return f"^({part})(,({part}))*$"


_MINUTE = "0*[0-5]?[0-9]"
_HOUR = "0*(1?[0-9]|2[0-3])"
_DAY = "0*([1-9]|[12][0-9]|3[01])"
_MONTH = f"(0*([1-9]|1[0-2])|{'|'.join(_MONTHS)})"
_WEEKDAY = f"(0*[0-7]|{'|'.join(_WEEKDAYS)})"
_NTH = f"({_WEEKDAY}#[1-5]|l0*[0-7])"


class CronField(Struct, frozen=True):
    """One of the five fields."""

    name: str
    pattern: str
    """What is accepted, in lower case, for RE2 and for Python."""
    meaning: str
    """What is accepted, for people."""
    first: int
    """The smallest value."""
    cycle: int
    """The number of values."""


FIELDS = (
    CronField("minute", _pattern(_MINUTE, "0*([1-9]|[1-5][0-9])"), "the minute is 0 to 59", 0, 60),
    CronField("hour", _pattern(_HOUR, "0*([1-9]|1[0-9]|2[0-3])"), "the hour is 0 to 23", 0, 24),
    CronField(
        "day of the month",
        _pattern(_DAY, _DAY, "l", f"{_DAY}-l"),
        "the day of the month is 1 to 31, or L for the last; W and ? are not known",
        1,
        31,
    ),
    CronField("month", _pattern(_MONTH, "0*([1-9]|1[0-2])"), "the month is 1 to 12, or jan to dec", 1, 12),
    CronField(
        "day of the week",
        # A list has either weekdays or nth weekdays: croniter reads no mixture.
        f"({_pattern(_WEEKDAY, '[1-7]')}|^{_NTH}(,{_NTH})*$)",
        "the day of the week is 0 to 7, sun to sat, mon#2 (the second) or L5 (the last Friday); W and ? are not known",
        0,
        7,
    ),
)
ACCEPTED = "values, ranges (1-5), steps within the field (*/10) and lists (1,3) are accepted"


def problem(text: str) -> str | None:
    """The problem of a cron text, with the field and a valid example; None if the text is valid and ever fires."""
    if len(text) > LENGTH_MAX:
        return f'"{text[:LENGTH_MAX]}..." has {len(text)} characters, at most {LENGTH_MAX} are read'
    return _problem(text)


# 2 kB each, text and sentence.
@lru_cache(maxsize=1024)
def _problem(text: str) -> str | None:
    if text.startswith("@"):
        return None if text in SHORTHANDS else f'"{text}" is not known: use one of {", ".join(sorted(SHORTHANDS))}'
    fields = text.lower().split()
    if len(fields) != len(FIELDS):
        return f'"{text}": five fields are read ({", ".join(field.name for field in FIELDS)}): {EXAMPLE}'
    for lowered, shown, field in zip(fields, text.split(), FIELDS, strict=True):
        if not _matcher(field.pattern).search(lowered):
            return f'"{text}": found "{shown}": {field.meaning}; {ACCEPTED}: {EXAMPLE}'
    try:
        read = _read(text)
    except (CroniterError, ValueError) as error:
        return f'"{text}" cannot be read ({error}): {EXAMPLE}'
    if read.fires:
        return None
    months = ", ".join(str(month) for month in sorted(read.months))
    longest = max(_LONGEST[month] for month in read.months)
    return f'"{text}" names a date that never comes (month {months} has at most {longest} days): {EXAMPLE}'


@lru_cache(maxsize=16)
def _matcher(pattern: str) -> re.Pattern[str]:
    # Python's `$` also matches before a final line feed; a field has none. ASCII: digits are 0 to 9.
    return re.compile(pattern, re.ASCII)


# --- meaning -----------------------------------------------------------------------------------------------------


class _Cron(Struct, frozen=True):
    minutes: Sequence[int]
    """Minutes of the day, ascending, two bytes each."""
    months: frozenset[int]
    days: frozenset[int] | None
    """Days of the month, None for all."""
    last_day: bool
    """Whether the last day of the month is named."""
    weekdays: frozenset[int] | None
    """Days of the week; 0 is Sunday, None for all."""
    nth: frozenset[tuple[int, int]]
    """(weekday, number), number 0 for the last of the month."""

    @property
    def fires(self) -> bool:
        """Whether such a date exists. A weekday always does, even a fifth one in February: 29 February falls on all."""
        if self.days is None or self.weekdays is not None or self.last_day:
            return True
        return min(self.days) <= max(_LONGEST[month] for month in self.months)


# 9 kB at most, if every minute, day of the month and nth weekday is named; usually half a kilobyte.
@lru_cache(maxsize=1024)
def _read(text: str) -> _Cron:
    """The meaning of a text that follows the grammar."""
    fields = SHORTHANDS.get(text, text).lower().split()
    plain = " ".join(_without_wraps(part, field) for part, field in zip(fields, FIELDS, strict=True))
    expanded, nth = croniter.expand(plain)
    minutes, hours, days, months, weekdays = (
        range(field.first, field.first + field.cycle) if "*" in values else values
        for values, field in zip(expanded, FIELDS, strict=True)
    )
    return _Cron(
        minutes=array("H", sorted(60 * hour + minute for hour, minute in product(hours, minutes))),
        months=frozenset(months),
        days=None if _is_any(fields[2]) else frozenset(day for day in days if day != "l"),
        last_day="l" in days,
        weekdays=None if _is_any(fields[4]) else frozenset() if nth else frozenset(weekdays),
        nth=frozenset((weekday, 0 if number == "l" else number) for weekday in nth for number in nth[weekday]),
    )


def _is_any(field: str) -> bool:
    return any(part == "*" or re.fullmatch(r"\*/0*1", part) for part in field.split(","))


_RANGE = re.compile(r"(\w+)-(\w+)(?:/(\d+))?", re.ASCII)


def _without_wraps(text: str, field: CronField) -> str:
    """
    The field, with each range that wraps around or has one value written as the list of its values.

    croniter reads `8-8` as `*`, and `22-4/3` as 22 and 2 instead of 22, 1 and 4.
    """
    return ",".join(_values(part, field) for part in text.split(","))


def _values(part: str, field: CronField) -> str:
    match = _RANGE.fullmatch(part)
    if match is None or match[2] == "l":
        return part
    first, last = (_NUMBERS.get(word, -1) if word.isalpha() else int(word) for word in match.group(1, 2))
    if first < last:
        return part
    values = range(first, first + (last - first) % field.cycle + 1, int(match[3] or 1))
    return ",".join(str((value - field.first) % field.cycle + field.first) for value in values)


# --- dates -------------------------------------------------------------------------------------------------------


def minutes(text: str) -> Sequence[int]:
    """The minutes of the day that a text names, ascending: 480 is 08:00."""
    return _read(text).minutes


def date_from(text: str, day: date) -> date | None:
    """The first date on or after `day` that a text names; None when there is none within 41 years."""
    days = days_of(text, day.year, day.month)
    at = bisect_left(days, day.day)
    if at < len(days):
        return day.replace(day=days[at])
    this = 12 * day.year + day.month - 1
    return next(
        (
            date(*month, days[0])
            for month in _months(text, range(this + 1, this + _MONTHS_MAX))
            if (days := days_of(text, *month))
        ),
        None,
    )


def date_until(text: str, day: date) -> date | None:
    """The last date on or before `day` that a text names; None when there is none within 41 years."""
    days = days_of(text, day.year, day.month)
    at = bisect_right(days, day.day)
    if at:
        return day.replace(day=days[at - 1])
    this = 12 * day.year + day.month - 1
    return next(
        (
            date(*month, days[-1])
            for month in _months(text, range(this - 1, this - _MONTHS_MAX, -1))
            if (days := days_of(text, *month))
        ),
        None,
    )


def _months(text: str, indices: range) -> Iterator[tuple[int, int]]:
    """Year and month of those among these months, counted from the year 0, that the text names."""
    months = _read(text).months
    return (
        (index // 12, index % 12 + 1)
        for index in indices
        if index % 12 + 1 in months and MINYEAR <= index // 12 <= MAXYEAR
    )


# A kilobyte each, the text included.
@lru_cache(maxsize=4096)
def days_of(text: str, year: int, month: int) -> tuple[int, ...]:
    """The days of a month that a text names, ascending."""
    cron = _read(text)
    if month not in cron.months:
        return ()
    # The weekday of the first, 0 for Sunday; Python counts from Monday.
    first, length = (monthrange(year, month)[0] + 1) % 7, monthrange(year, month)[1]
    return tuple(day for day in range(1, length + 1) if _is_named(cron, day, (first + day - 1) % 7, length))


def _is_named(cron: _Cron, day: int, weekday: int, length: int) -> bool:
    on_day = cron.days is None or day in cron.days or (cron.last_day and day == length)
    on_weekday = (
        cron.weekdays is None
        or weekday in cron.weekdays
        or (weekday, (day + 6) // 7) in cron.nth
        or (day > length - 7 and (weekday, 0) in cron.nth)
    )
    if cron.days is None or cron.weekdays is None:
        return on_day and on_weekday
    return on_day or on_weekday


def forwards(text: str, wall: datetime) -> Iterator[datetime]:
    """The wall times after `wall` that a text names, earliest first."""
    day = date_from(text, wall.date())
    while day is not None:
        begin = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - wall times carry no zone here
        yield from (moment for minute in minutes(text) if (moment := begin + timedelta(minutes=minute)) > wall)
        day = date_from(text, day + timedelta(days=1))
