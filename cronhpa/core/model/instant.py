"""
Instants and durations: integer nanoseconds, instants counted from the Unix epoch in UTC.

Rules compare for equality at the edge of a window, a readiness delay or a policy period, where float seconds fail.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeAlias

Nanoseconds: TypeAlias = int

MILLISECOND: Nanoseconds = 10**6
SECOND: Nanoseconds = 10**9
MINUTE: Nanoseconds = 60 * SECOND
HOUR: Nanoseconds = 60 * MINUTE
DAY: Nanoseconds = 24 * HOUR
# Later than any instant.
FOR_EVER: Nanoseconds = 1 << 80

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND, "us": 10**3, "µs": 10**3, "ns": 1}


def from_datetime(moment: datetime) -> Nanoseconds:
    """The instant of an aware datetime, exact to its microsecond."""
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds * 1_000


# The range of a UTC datetime, which RFC 3339 can write.
_FIRST = from_datetime(datetime.min.replace(tzinfo=UTC))
_END = from_datetime(datetime.max.replace(tzinfo=UTC, microsecond=0)) + SECOND


def to_datetime(instant: Nanoseconds) -> datetime:
    """The UTC datetime of an instant; digits below a microsecond are cut."""
    return datetime.fromtimestamp(instant // SECOND, tz=UTC).replace(microsecond=instant % SECOND // 1_000)


def parse_instant(text: str) -> Nanoseconds:
    """
    The instant of an RFC 3339 text, exact to the nanosecond.

    Raises ValueError for another text, a text without an offset, and an instant outside the years 1 to 9999 in UTC.
    """
    head, digits, zone = text, "", ""
    if "." in text:
        head, rest = text.split(".", 1)
        stop = next((i for i, char in enumerate(rest) if not char.isascii() or not char.isdigit()), len(rest))
        digits, zone = rest[:stop], rest[stop:]
        if not digits:
            raise ValueError(f"{text!r}: digits must follow the point")
    moment = datetime.fromisoformat(head + zone)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r}: an offset such as Z must follow the time")
    instant = from_datetime(moment) + int(digits[:9].ljust(9, "0") or "0")
    if not _FIRST <= instant < _END:
        raise ValueError(f"{text!r}: in UTC it lies outside the years 1 to 9999")
    return instant


def format_instant(instant: Nanoseconds) -> str:
    """RFC 3339 in UTC to the second, as the Kubernetes API writes times."""
    return f"{_to_the_second(instant // SECOND)}Z"


def format_instant_exact(instant: Nanoseconds) -> str:
    """RFC 3339 in UTC with nine digits behind the point: reads back to the same instant."""
    return f"{_to_the_second(instant // SECOND)}.{instant % SECOND:09d}Z"


# The statuses of one reconciliation share a few instants: an edge, the current second, a transition.
@lru_cache(maxsize=4096)
def _to_the_second(seconds: int) -> str:
    # Not strftime: it writes the year 1, Go's zero time, without its zeros.
    return to_datetime(seconds * SECOND).replace(tzinfo=None).isoformat(timespec="seconds")


def parse_duration(text: str) -> Nanoseconds:
    """
    The length of a Go duration text such as `1m0s`, `1.5h` or `300ms`.

    Raises ValueError for another text.
    """
    rest, sign = text, 1
    if rest[:1] in {"+", "-"}:
        sign = -1 if rest[0] == "-" else 1
        rest = rest[1:]
    if rest == "0":
        return 0
    total = 0
    if not rest:
        raise ValueError(f"{text!r} is no duration: write for example 1m30s")
    while rest:
        stop = next((i for i, char in enumerate(rest) if not (char.isascii() and char.isdigit()) and char != "."), 0)
        number, rest = rest[:stop], rest[stop:]
        stop = next((i for i, char in enumerate(rest) if char.isdigit() or char == "."), len(rest))
        unit, rest = rest[:stop], rest[stop:]
        whole, _, part = number.partition(".")
        if unit not in _UNITS or not (whole + part):
            raise ValueError(f"{text!r} is no duration: write for example 1m30s")
        total += int(whole or "0") * _UNITS[unit] + (int(part) * _UNITS[unit] // 10 ** len(part) if part else 0)
    return sign * total
