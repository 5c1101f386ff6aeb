"""
Windows against brute force at the clock changes of the zone database: `make brute-force` takes all of 2024 to 2040.

Around each change, each minute of 36 hours: open or closed, and when that changes. The windows take turns, so that each
zone meets each of them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from core.schedules.brute_force import MINUTE, Minutes
from cronhpa.core.model import instant
from cronhpa.core.model.spec import CronWindow, DateRange, Days
from cronhpa.core.schedules import windows

FIRST, LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2041, 1, 1, tzinfo=UTC)
AROUND = timedelta(hours=18)
EACH = 4  # windows at each change


class Text(NamedTuple):
    """
    A window as brute force reads it. days_back: how long before each instant a start lies at the latest.

    exclude, only: dates, counted from the local date of the change.
    """

    start: str
    end: str | None = None
    minutes: int | None = None
    exclude: tuple[int, ...] = ()
    only: tuple[int, ...] | None = None
    days_back: int = 10


TEXTS = (
    Text("0 8 * * 1-5", "0 18 * * *"),
    Text("30 2 * * *", "45 2 * * *"),
    Text("0 1 * * *", "0 3 * * *"),
    Text("0 0 * * *", "30 1 * * 0,6"),
    Text("15 */2 * * *", "45 1-23/3 * * *"),
    Text("30 1 * * 0", "0 2 * * 1"),
    Text("0 2 * * *", "0 2 * * *"),
    Text("30 23 * * *", "30 0 * * *"),
    Text("0 22 * * *", "30 2 * * *"),
    Text("15 2 * * *", "0 8 * * *"),
    Text("*/7 0-5 * * *", "*/11 0-5 * * *"),
    Text("* 1-2 * * *", "59 2 * * *"),
    Text("30 2 * * *", minutes=90),
    Text("*/30 1-3 * * *", minutes=20),
    Text("*/30 1-3 * * *", minutes=30),
    Text("0 22 * * 6", minutes=480),
    Text("59 23 * * *", minutes=3),
    Text("* * * * *", minutes=1),
    Text("*/5 * * * *", minutes=5),
    Text("0 * * * *", minutes=59),
    Text("0 0 * * *", minutes=1440),
    Text("30 1 * * *", minutes=1470),
    Text("0 8 * * *", "0 18 * * *", exclude=(0,)),
    Text("30 2 * * *", "30 3 * * *", exclude=(0,)),
    Text("30 2 * * *", minutes=1500, exclude=(0,)),
    Text("30 1 * * *", minutes=2000, only=(-1, 0)),
    Text("30 23 * * *", "0 12 * * *", exclude=(-1,)),
    Text("30 23 * * *", "0 0 * * *", only=(-1,)),
    Text("0 0 * * *", minutes=30, exclude=(0,)),
    Text("15 2,14 * * *", "0 3 * * *", exclude=(1,), only=(-1, 0, 1)),
    Text("*/15 * * * *", minutes=15, exclude=(-1, 1)),
    Text("*/20 0-6 * * *", "10-59/20 0-6 * * *", exclude=(0,)),
    Text("30 22-4/3 * * *", minutes=45),
    Text("0 2 * * fri-mon/2", "30 3 * * *"),
    Text("30 1 L * *", minutes=120, days_back=40),
    Text("30 2 * * L0", "0 9 * * *", days_back=40),
    Text("30 1 * * 0#1,0#2", minutes=100, days_back=40),
    Text("0 3 1 * 0#2", "0 2 * * *", days_back=40),
    Text("30 2 25-L * sun", minutes=45),
    Text("0 1 * mar,apr,sep,oct,nov *", "0 2 * * *", days_back=40),
    # Inside any gap, also one of half an hour; and up to its end.
    Text("10 * * * *", "20 * * * *"),
    Text("50 1-2 * * *", "10,20 2-3 * * *", exclude=(1,)),
    Text("30 2 * * *", "0 3 * * *"),
)


class Found(NamedTuple):
    """What was compared at one change: instants, and those that differ, in words."""

    instants: int
    differences: tuple[str, ...]


def changes(zone: str) -> Iterator[datetime]:
    """The moments from 2024 to 2040, to the quarter of an hour, at which the clocks of a zone change."""
    info = ZoneInfo(zone)
    step, quarter = timedelta(hours=3), timedelta(minutes=15)
    at, offset = FIRST, FIRST.astimezone(info).utcoffset()
    while at < LAST:
        following = (at + step).astimezone(info).utcoffset()
        if following != offset:
            yield next(
                at + n * quarter for n in range(1, 13) if (at + n * quarter).astimezone(info).utcoffset() != offset
            )
        at, offset = at + step, following


def compared(zone: str, at: datetime, texts: tuple[Text, ...]) -> Found:
    """Each minute of 18 hours before and after a moment, by our state and by brute force."""
    minutes = Minutes(zone, at - AROUND - max(text.days_back for text in texts) * timedelta(days=1), at + AROUND)
    around = 2 * AROUND // MINUTE
    instants = [int(minute) * instant.MINUTE for minute in minutes.instants[-around:]]
    local = at.astimezone(ZoneInfo(zone)).date()
    differences: list[str] = []
    for text in texts:
        exclude, only = (
            None if days is None else tuple(local + timedelta(days=number) for number in days)
            for days in (text.exclude, text.only)
        )
        expected = minutes.open_at(text.start, text.end, text.minutes, exclude, only)[-around:]
        duration = None if text.minutes is None else text.minutes * instant.MINUTE
        window = CronWindow(text.start, zone, text.end, duration, _days(exclude), _days(only))
        states = [windows.state(window, now) for now in instants]
        differences += (
            f"{zone} {instant.format_instant(now)} {text}: open is {state.is_open}, by brute force {wanted}"
            for now, state, wanted in zip(instants, states, expected.tolist(), strict=True)
            if state.is_open != wanted
        )
        edges = {instants[0] + (int(index) + 1) * instant.MINUTE for index in np.flatnonzero(np.diff(expected))}
        named = {state.until for state in states if state.until is not None and state.until <= instants[-1]}
        differences += (f"{zone} {text}: an edge at {edge}" for edge in edges ^ named)
    return Found(len(texts) * around, tuple(differences))


def _days(dates: tuple[date, ...] | None) -> Days | None:
    if dates is None:
        return None
    return Days(tuple(DateRange(day, day) for day in dates)) if dates else None


def turns(zone: str) -> Iterator[tuple[datetime, tuple[Text, ...]]]:
    """The changes of a zone, or one moment of a zone without any, with the windows whose turn it is."""
    moments = list(changes(zone)) or [datetime(2028, 2, 29, tzinfo=UTC)]
    turn = sum(zone.encode()) * EACH
    for number, at in enumerate(moments):
        first = (turn + number * EACH) % len(TEXTS)
        yield at, (TEXTS + TEXTS)[first : first + EACH]


def _of_zone(zone: str) -> tuple[str, int, int, list[str]]:
    comparisons = [compared(zone, at, texts) for at, texts in turns(zone)]
    return (
        zone,
        len(comparisons),
        sum(comparison.instants for comparison in comparisons),
        [text for comparison in comparisons for text in comparison.differences],
    )


def main() -> int:
    """Every zone; the last line counts. Ends with 1 where anything differs."""
    begun = time.monotonic()
    zones = sorted(available_timezones())
    transitions = instants = differences = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for done, (zone, of_zone, seen, differing) in enumerate(pool.map(_of_zone, zones, chunksize=4), start=1):
            transitions, instants, differences = transitions + of_zone, instants + seen, differences + len(differing)
            for text in islice(differing, 5):
                print(f"  differs: {text}")
            if done % 50 == 0:
                print(
                    f"  {done} of {len(zones)} zones, {zone}: {instants:,} instants, {differences} differences, "
                    f"{time.monotonic() - begun:.0f} s",
                    flush=True,
                )
    print(
        f"{len(zones)} zones, {transitions:,} transitions from {FIRST:%Y} to {LAST.year - 1}, {len(TEXTS)} windows: "
        f"{instants:,} instants compared, {differences} differences, {time.monotonic() - begun:.0f} s"
    )
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
