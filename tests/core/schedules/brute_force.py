"""
Windows decided a second time, minute by minute, by nothing but their definition.

Simple on purpose, and independent of the project's code: tests compare it with cronhpa/core/schedules. It reads
cron texts itself, takes from the zone only the offset at each quarter of an hour, and knows of clock changes only that
some minutes of a wall clock are shown twice and some never.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMES = dict(zip(_WEEKDAYS, range(7), strict=True)) | dict(zip(_MONTHS, range(1, 13), strict=True))


def count(moment):
    """Minutes since 1970 of a moment in UTC, or of a wall time as if it were."""
    return (moment.replace(tzinfo=UTC) - EPOCH) // MINUTE


# --- cron texts --------------------------------------------------------------------------------------------------


def number(word):
    return _NAMES[word] if word in _NAMES else int(word)


def values(field, low, high):
    """The numbers that a field names: ranges go around where they end below their beginning."""
    matching = set()
    for listed in field.split(","):
        part, _, step = listed.partition("/")
        first, dash, last = (f"{low}-{high}" if part == "*" else part).partition("-")
        first = number(first)
        last = (high if last == "l" else number(last)) if dash else high if step else first
        if last < first:
            last += 7 if high == 7 else high - low + 1
        for value in range(first, last + 1, int(step or 1)):
            matching.add(value % 7 if high == 7 else low + (value - low) % (high - low + 1))
    return matching


class Wall:
    """The minutes of a wall clock from one date to another, each with what a cron text may ask of it."""

    def __init__(self, first, behind):
        """first, behind: minutes since 1970 of a midnight."""
        self.minutes = np.arange(first, behind)
        days = self.minutes // 1440
        dates = days.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        self.days = days
        self.minute = self.minutes % 60
        self.hour = self.minutes // 60 % 24
        self.day = (dates - months).astype(int) + 1
        self.month = months.astype(int) % 12 + 1
        self.weekday = (days + 4) % 7  # 1 January 1970 was a Thursday, 4 of cron's days
        self.length = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(int)

    def named_by(self, text):
        """A mask of the minutes that a cron text names."""
        minute, hour, day, month, weekday = text.lower().split()
        on_time = np.isin(self.minute, list(values(minute, 0, 59))) & np.isin(self.hour, list(values(hour, 0, 23)))
        on_time &= np.isin(self.month, list(values(month, 1, 12)))
        on_day, on_weekday = self._on_day(day), self._on_weekday(weekday)
        both = day != "*" and weekday != "*"
        return on_time & (on_day | on_weekday if both else on_day & on_weekday)

    def _on_day(self, field):
        mask = np.zeros(len(self.minutes), bool)
        for listed in field.split(","):
            mask |= self.day == self.length if listed == "l" else np.isin(self.day, list(values(listed, 1, 31)))
        return mask

    def _on_weekday(self, field):
        mask = np.zeros(len(self.minutes), bool)
        for listed in field.split(","):
            if listed.startswith("l"):
                mask |= (self.weekday == number(listed[1:]) % 7) & (self.day > self.length - 7)
            elif "#" in listed:
                which, _, nth = listed.partition("#")
                mask |= (self.weekday == number(which) % 7) & ((self.day + 6) // 7 == int(nth))
            else:
                mask |= np.isin(self.weekday, list(values(listed, 0, 7)))
        return mask


# --- windows -----------------------------------------------------------------------------------------------------


class Minutes:
    """All minutes of a stretch of time in a zone: each with the wall time that a clock there shows."""

    def __init__(self, zone, begin, end):
        """begin, end: aware moments at a quarter of an hour."""
        info = ZoneInfo(zone)
        quarters = np.arange(count(begin.astimezone(UTC)), count(end.astimezone(UTC)), 15)
        offsets = np.array([_offset(info, int(quarter)) for quarter in quarters])
        for at in quarters[1:][np.diff(offsets) != 0]:
            # A clock that changed between two quarters would be taken to change at the second of them.
            assert _offset(info, int(at) - 1) != _offset(info, int(at)), (zone, at)
        self.instants = np.arange(quarters[0], quarters[0] + 15 * len(quarters))
        self.shown = self.instants + np.repeat(offsets, 15)
        # Whole dates, and no minute of them before the first or after the last that is shown.
        first, behind = int(self.shown.min()) // 1440 * 1440, int(self.shown.max()) // 1440 * 1440 + 1440
        self.wall = Wall(first, behind)
        indices = np.arange(len(self.instants))
        nowhere = len(self.instants)
        self._first = np.full(behind - first, nowhere)
        self._last = np.full(behind - first, -1)
        np.minimum.at(self._first, self.shown - first, indices)
        np.maximum.at(self._last, self.shown - first, indices)
        # A minute that is never shown means the first that is shown after it: the nearest one to its right.
        never = self._last < 0
        after = np.minimum.accumulate(np.where(never, nowhere, self._first)[::-1])[::-1]
        self._first[never] = after[never]
        self._last[never] = after[never]

    def meant(self, mask, *, is_end):
        """A mask of the instants that these minutes of the wall mean: a start the first of a fold, an end the last."""
        minutes = (self._last if is_end else self._first)[mask]
        out = np.zeros(len(self.instants) + 1, bool)
        out[minutes] = True
        # What lies before the first minute shown, or after the last, is not seen.
        out[0] = False
        return out[:-1]

    def written(self, mask, *, is_end):
        """For each instant the latest of these minutes of the wall that means it, -1 where none does."""
        indices = (self._last if is_end else self._first)[mask]
        out = np.full(len(self.instants) + 1, -1)
        np.maximum.at(out, indices, self.wall.minutes[mask])
        return out[:-1]

    def open_at(self, start, end=None, minutes=None, exclude=(), only=None):
        """
        Whether the window is open, minute by minute.

        exclude, only: local dates. The window must have had a start within the stretch before what is looked at.
        """
        named = self.wall.named_by(start)
        is_kept = ~np.isin(self.wall.days, [day.toordinal() - EPOCH.toordinal() for day in exclude])
        if only is not None:
            is_kept &= np.isin(self.wall.days, [day.toordinal() - EPOCH.toordinal() for day in only])
        began = _latest(self.meant(named & is_kept, is_end=False))
        ended = _latest(self.meant(named & ~is_kept, is_end=False))
        is_open = began >= 0
        if end is not None:
            is_end = self.wall.named_by(end)
            ended = np.maximum(ended, _latest(self.meant(is_end, is_end=True)))
            # At one instant the minute that is written later has the last word.
            written = self.written(is_end, is_end=True) <= self.written(named & is_kept, is_end=False)
            is_open &= written[began]
        is_open &= ended <= began
        if minutes is not None:
            is_open &= np.arange(len(began)) < began + minutes
        return is_open


def _latest(mask):
    """For each index the last one up to it at which the mask holds, -1 where there is none."""
    return np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))


def _offset(info, minute):
    return (EPOCH + minute * MINUTE).astimezone(info).utcoffset() // MINUTE
