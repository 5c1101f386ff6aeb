"""
Days of load as blobs: 288 steps in 24 bits of precision each, 1440 minutes in 8 bits each.

A blob of steps begins with a byte for its form: little-endian doubles or floats, NaN for a gap. This release writes
floats: three days share a page of 4096 bytes, where a day of doubles fills a page.
A blob of minutes has a byte a minute: the minute's share of its step's maximum in 255ths, 0 for a gap.

Pure: no database, no clock.
"""

from __future__ import annotations

import math
import sys
from array import array
from typing import TYPE_CHECKING, TypeVar

from cronhpa.core.model.instant import DAY, MINUTE
from cronhpa.history.database.series import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

N = TypeVar("N", int, float)

STEPS_PER_DAY = DAY // STEP
MINUTES_PER_DAY = DAY // MINUTE
_MINUTES_PER_STEP = STEP // MINUTE
# The share of a minute that has its step's whole maximum.
WHOLE_STEP = 255
_DOUBLES, _FLOATS = b"\0", b"\1"


class DayMaxima:
    """
    The maxima of one series on one UTC day.

    highs: 288 steps, NaN for a gap. shares: 1440 minutes in 255ths of their step's maximum; None without any minute.

    Mutable, because compaction raises one step at a time for thousands of days at once.
    """

    __slots__ = ("highs", "shares")

    def __init__(self, highs: array[float], shares: bytearray | None) -> None:
        self.highs = highs
        self.shares = shares

    @classmethod
    def empty(cls) -> DayMaxima:
        return cls(array("d", [math.nan]) * STEPS_PER_DAY, None)

    @classmethod
    def unpack(cls, highs: bytes, shares: bytes | None) -> DayMaxima:
        """Raises ValueError for a blob of another form or length."""
        return cls(unpack_steps(highs), None if shares is None else bytearray(shares))

    def raise_step(self, step: int, high: float) -> None:
        """Raise a step's maximum. The shares of its minutes shrink, so that the minutes keep their loads."""
        before = self.highs[step]
        if before >= high:
            return
        self.highs[step] = high
        if self.shares is not None and before >= 0:
            for minute in range(step * _MINUTES_PER_STEP, (step + 1) * _MINUTES_PER_STEP):
                if self.shares[minute]:
                    self.shares[minute] = max(1, round(self.shares[minute] * before / high))

    def raise_minute(self, minute: int, high: float) -> None:
        """Raise a minute's maximum, and that of its step."""
        step = minute // _MINUTES_PER_STEP
        self.raise_step(step, high)
        if self.shares is None:
            self.shares = bytearray(MINUTES_PER_DAY)
        step_high = self.highs[step]
        share = max(1, round(WHOLE_STEP * high / step_high)) if step_high > 0 else WHOLE_STEP
        self.shares[minute] = max(self.shares[minute], share)


def pack_steps(highs: array[float]) -> bytes:
    return _FLOATS + little_endian(array("f", highs)).tobytes()


def unpack_steps(blob: bytes) -> array[float]:
    """The maxima of 288 steps, NaN for a gap. Raises ValueError for a blob of another form or length."""
    typecode, numbers = kept_steps(blob)
    highs: array[float] = array(typecode)
    highs.frombytes(numbers)
    return array("d", little_endian(highs))


def kept_steps(blob: bytes) -> tuple[str, memoryview]:
    """The typecode of a blob of steps, d or f, and its 288 little-endian numbers; raises as `unpack_steps`."""
    form = blob[:1]
    if form not in {_DOUBLES, _FLOATS}:
        raise ValueError(f"a day is written in form {form!r}: this release reads {_DOUBLES!r} and {_FLOATS!r}")
    typecode, numbers = "d" if form == _DOUBLES else "f", memoryview(blob)[1:]
    width = array(typecode).itemsize
    if len(numbers) != STEPS_PER_DAY * width:
        raise ValueError(f"a day has {len(numbers) / width:g} steps: {STEPS_PER_DAY} are needed")
    return typecode, numbers


def unpack_minutes(shares: bytes, highs: array[float]) -> array[float]:
    """The maxima of 1440 minutes, NaN for a gap, from a blob of minutes and the maxima of its 288 steps."""
    units = [high / WHOLE_STEP for high in highs for _ in range(_MINUTES_PER_STEP)]
    return array("d", [unit * share if share else math.nan for unit, share in zip(units, shares, strict=True)])


def merged_steps(own: bytes, other: bytes) -> bytes:
    """A blob of steps with the maxima of another one in its gaps. Raises as `unpack_steps`."""
    pairs = zip(unpack_steps(own), unpack_steps(other), strict=True)
    return pack_steps(array("d", [instead if math.isnan(high) else high for high, instead in pairs]))


def merged_minutes(own: bytes, other: bytes) -> bytes:
    """
    A blob of minutes with the shares of another one in the steps of which it has no minute. Raises ValueError for a
    blob of another length.
    """
    if not len(own) == len(other) == MINUTES_PER_DAY:
        raise ValueError(f"days have {len(own)} and {len(other)} minutes: {MINUTES_PER_DAY} are needed")
    merged = bytearray(own)
    for begin in range(0, MINUTES_PER_DAY, _MINUTES_PER_STEP):
        step = slice(begin, begin + _MINUTES_PER_STEP)
        if not any(merged[step]):
            merged[step] = other[step]
    return bytes(merged)


def join(
    days: Sequence[tuple[int, array[float]]], rows: Sequence[tuple[int, float]], per_day: int
) -> tuple[int, array[float]]:
    """
    (time of the first maximum, maxima of every time) from whole days and single rows, NaN for a gap.

    Times count steps or minutes since the Unix epoch; a day has `per_day` of them. Days and rows are in order of time.
    Where a day and a row have a value for one time, the larger value wins.
    """
    starts = [*(day * per_day for day, _ in days[:1]), *(at for at, _ in rows[:1])]
    ends = [*((day + 1) * per_day for day, _ in days[-1:]), *(at + 1 for at, _ in rows[-1:])]
    if not starts:
        return 0, array("d")
    begin = min(starts)
    highs = array("d", [math.nan]) * (max(ends) - begin)
    for day, day_highs in days:
        highs[day * per_day - begin : (day + 1) * per_day - begin] = day_highs
    for at, high in rows:
        before = highs[at - begin]
        highs[at - begin] = high if math.isnan(before) else max(high, before)
    return begin, highs


def trim(begin: int, highs: array[float], first: int, end: int) -> tuple[int, array[float]]:
    """
    The part of the maxima in [first, end), without the gaps at both ends, and the time of its first maximum.

    begin: the time of the first of `highs`. An empty array starts at `first`.
    """
    low, high = max(first - begin, 0), min(end - begin, len(highs))
    while low < high and math.isnan(highs[low]):
        low += 1
    while low < high and math.isnan(highs[high - 1]):
        high -= 1
    if low >= high:
        return first, array("d")
    return begin + low, highs[low:high]


def little_endian(values: array[N]) -> array[N]:
    """The same numbers in little-endian byte order, or back from it."""
    if sys.byteorder == "little":
        return values
    swapped = array(values.typecode, values)
    swapped.byteswap()
    return swapped
