"""
Windows decided a second time, minute by minute, by nothing but their definition.

Slow and plain on purpose, and without a line of the project's: what it says is compared with cronhpa/core/scheduled.
Only numbers, `*`, ranges, steps and lists are read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
MINUTE = timedelta(minutes=1)


def values(field, low, high):
    """The values that a field means; None for `*`."""
    if field == "*":
        return None
    found = set()
    for item in field.split(","):
        part, _, step = item.partition("/")
        first, _, last = (f"{low}-{high}" if part == "*" else part).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return {0 if high == 7 and number == 7 else number for number in found}


def matcher(text):
    """A function of a wall time: whether the cron text names it."""
    allowed = [values(field, *bounds) for field, bounds in zip(text.split(), _BOUNDS, strict=True)]
    _, _, day, _, weekday = allowed

    def matches(wall):
        # Sunday is 0 in cron and 6 in Python.
        now = (wall.minute, wall.hour, wall.day, wall.month, (wall.weekday() + 1) % 7)
        minute, hour, on_day, month, on_weekday = (
            numbers is None or number in numbers for number, numbers in zip(now, allowed, strict=True)
        )
        either = day is not None and weekday is not None
        return minute and hour and month and (on_day or on_weekday if either else on_day and on_weekday)

    return matches


class Minutes:
    """All minutes of a stretch of time in a zone: each with the wall time that a clock there shows."""

    def __init__(self, zone, begin, end):
        info = ZoneInfo(zone)
        count = int((end - begin) / MINUTE)
        self.instants = [begin.astimezone(UTC) + index * MINUTE for index in range(count)]
        self.walls = [instant.astimezone(info).replace(tzinfo=None) for instant in self.instants]
        self._showing = defaultdict(list)
        for instant, wall in zip(self.instants, self.walls, strict=True):
            self._showing[wall].append(instant)

    def named_by(self, text, *, is_end):
        """The instants that a cron text means: a start the first of a fold, an end the last, a gap its end."""
        matches = matcher(text)
        found = set()
        wall = self.walls[0]
        while wall <= self.walls[-1]:
            if matches(wall):
                shown = self._showing.get(wall)
                found.add(self._after_gap(wall) if shown is None else shown[-1] if is_end else shown[0])
            wall += MINUTE
        return sorted(found)

    def _after_gap(self, wall):
        return next(instant for instant, shown in zip(self.instants, self.walls, strict=True) if shown > wall)

    def open_at(self, start, end=None, minutes=None):
        """Whether the window is open, minute by minute."""
        starts = self.named_by(start, is_end=False)
        ends = None if end is None else self.named_by(end, is_end=True)
        return [self._is_open(instant, starts, ends, minutes) for instant in self.instants]

    @staticmethod
    def _is_open(instant, starts, ends, minutes):
        passed = bisect_right(starts, instant)
        if not passed:
            return False
        began = starts[passed - 1]
        if ends is None:
            return instant < began + minutes * MINUTE
        # No end after the start that is at or before the instant.
        following = bisect_left(ends, began + timedelta(microseconds=1))
        return following == len(ends) or ends[following] > instant
