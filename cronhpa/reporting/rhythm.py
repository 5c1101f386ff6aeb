"""
Windows that a recorded load suggests: rises at the same local time of most days, and events that came once.

Imports numpy: for commands and their workers only.

A rise is tested against chance: each day is rotated by a random number of steps, and the largest median rise of the
rotated days is compared with the one that was found. A load without a rhythm has rises too, but at other times each
day, so its rotated days rise as much as itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cronhpa.core.model.instant import MINUTE, SECOND, Nanoseconds
from cronhpa.core.schedules.wall_clock import to_instant

Floats = NDArray[np.float64]

STEP: Nanoseconds = 5 * MINUTE
STEPS_PER_DAY = 288
_MINUTES_PER_STEP = 5
# A rise is complete within half an hour: a slower one is followed by metrics alone.
_RISE_STEPS = 6
_DAYS_MIN = 4
_SAME_WEEKDAYS_MIN = 3
_SUPPORT_MIN = 0.8
_KNOWN_SHARE_MIN = 0.5
_RISE_SHARE_MIN = 0.2
_ROTATIONS = 200
# Ten classes of days are looked at: to lie just above the rotated loads is not enough.
_ABOVE_CHANCE_MIN = 1.25
_NEAR_MINUTES = 60
_WINDOWS_MAX = 3
# A fall ends the window once the load has stayed below the floor for an hour.
_FALL_STEPS = 12
_ONCE_FACTOR = 2.0
_ONCE_STEPS_MIN = 2
_ONCE_DAYS_MIN = 7
_ONCE_MAX = 3

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# By the number of days, so that one window for all days is preferred to two windows for some of them.
DAY_CLASSES: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("*", tuple(range(7))),
    ("mon-fri", tuple(range(5))),
    ("sat,sun", (5, 6)),
    *((name, (number,)) for number, name in enumerate(WEEKDAYS)),
)


class DayGrid(Struct, frozen=True):
    """The pods that a load needs, by local day and five-minute step."""

    zone: str
    days: tuple[date, ...]
    needed: Floats
    """(days, 288): the count for the mean load of each step; NaN where the load is not known."""


class FoundWindow(Struct, frozen=True):
    """A rise that most days of a class have at one time, as a window."""

    days: str
    """The field of a cron expression for the days of the week."""
    start_minute: int
    """Minute of the local day."""
    end_minute: int
    """Minute of the local day; at or before `start_minute` if the window ends on the next day."""
    replicas: int
    """The median over the days of the largest count within half an hour of the start."""
    zone: str
    support: tuple[date, ...]
    """The days of the class that rise then."""
    skipped: tuple[date, ...]
    """The days of the class that do not."""
    rise: float
    """The median rise, in pods."""
    rise_by_chance: float
    """The largest median rise, at any time, of 200 loads whose days are rotated at random."""


class OneTimePeak(Struct, frozen=True):
    """A peak of one day that no other day has at that time: a candidate for a planned event, not for a schedule."""

    begin: Nanoseconds
    end: Nanoseconds
    replicas: int
    usual: int
    """The largest count of the other days at that time."""


def day_grid(points: Sequence[tuple[Nanoseconds, float]], per_pod: float, zone: str) -> DayGrid:
    """
    The pods needed on each local day. points: (instant, load), in order; per_pod: the load of one pod at its target.

    An hour that a clock change repeats has the mean of both; one that it skips is not known.
    """
    instants = np.array([at for at, _ in points], np.int64)
    loads = np.array([value for _, value in points], np.float64)
    local = instants + _offsets(instants, zone)
    first = int(local[0] // (STEP * STEPS_PER_DAY))
    count = int(local[-1] // (STEP * STEPS_PER_DAY)) - first + 1
    rows = (local // STEP - first * STEPS_PER_DAY).astype(np.int64)
    # Means, since the largest of few values is smaller than the largest of many: where values are missing at the same
    # time of each day, largest values would rise there.
    sums = np.bincount(rows, loads, count * STEPS_PER_DAY)
    counts = np.bincount(rows, minlength=count * STEPS_PER_DAY)
    means = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    needed = _filled(np.ceil(means / per_pod - 1e-9))
    epoch = date(1970, 1, 1)
    days = tuple(epoch + timedelta(days=first + number) for number in range(count))
    return DayGrid(zone, days, needed.reshape(count, STEPS_PER_DAY))


def windows_of(grid: DayGrid, seed: int = 0) -> list[FoundWindow]:
    """
    The windows that a load suggests, the most days first; none where rises may be chance.

    seed: of the rotations.
    """
    found: list[FoundWindow] = []
    for name, numbers in DAY_CLASSES:
        rows = _rows(grid, numbers)
        least = _SAME_WEEKDAYS_MIN if len(numbers) == 1 else _DAYS_MIN
        if len(rows) < least:
            continue
        for window in _windows_of_class(grid, name, rows, np.random.default_rng(seed)):
            if not any(_is_alike(window, other) for other in found):
                found.append(window)
    return sorted(found, key=lambda window: -len(window.support))[:_WINDOWS_MAX]


def likely_zone(points: Sequence[tuple[Nanoseconds, float]], per_pod: float, zones: Sequence[str]) -> tuple[str, bool]:
    """
    The zone in whose local time the days are most alike, and whether the load tells it apart from the others.

    Only a clock change within the load tells zones apart; without one the first of `zones` is taken.
    """
    spreads = [_spread(day_grid(points, per_pod, zone)) for zone in zones]
    best = min(range(len(zones)), key=lambda place: (round(spreads[place], 6), place))
    tells = spreads[best] < 0.98 * spreads[0] if best else False
    return (zones[best] if tells else zones[0]), tells


def one_time_peaks(grid: DayGrid) -> list[OneTimePeak]:
    """Peaks of at least ten minutes that need twice the count that any other day needs within half an hour of them."""
    needed = grid.needed
    if len(needed) < _ONCE_DAYS_MIN:
        return []
    around = _around(needed)
    peaks: list[OneTimePeak] = []
    for row in range(len(needed)):
        others = np.delete(around, row, axis=0)
        known = ~np.all(np.isnan(others), axis=0)
        usual = np.full(STEPS_PER_DAY, np.nan)
        usual[known] = np.nanmax(others[:, known], axis=0)
        high = (needed[row] >= _ONCE_FACTOR * usual) & (needed[row] >= usual + 2)
        for begin, end in _runs(high):
            if end - begin < _ONCE_STEPS_MIN:
                continue
            peaks.append(
                OneTimePeak(
                    instant_of(grid.days[row], begin * _MINUTES_PER_STEP, grid.zone),
                    instant_of(grid.days[row], end * _MINUTES_PER_STEP, grid.zone),
                    int(np.nanmax(needed[row, begin:end])),
                    int(np.nanmax(usual[begin:end])),
                )
            )
    return sorted(peaks, key=lambda peak: peak.usual - peak.replicas)[:_ONCE_MAX]


def _windows_of_class(
    grid: DayGrid, name: str, rows: NDArray[np.int64], random: np.random.Generator
) -> list[FoundWindow]:
    needed = grid.needed[rows]
    rises, before = _rises(needed)
    medians = np.median(rises, axis=0)
    least = np.maximum(1.0, _RISE_SHARE_MIN * before)
    supports = np.mean(rises >= least, axis=0)
    candidates = np.flatnonzero((supports >= _SUPPORT_MIN) & (medians >= 1))
    if not len(candidates):
        return []
    by_chance = _largest_by_chance(needed, random)
    windows: list[FoundWindow] = []
    # Of equal rises the latest begins with the first day's rise, and all others up to half an hour before it.
    for step in sorted(candidates, key=lambda step: (-medians[step] * supports[step], -step)):
        start = int(step) * _MINUTES_PER_STEP
        if medians[step] < _ABOVE_CHANCE_MIN * by_chance or any(_is_near(start, window) for window in windows):
            continue
        has_risen = rises[:, step] >= least[:, step]
        windows.append(_window(grid, name, rows, int(step), has_risen, (float(medians[step]), by_chance)))
        if len(windows) == _WINDOWS_MAX:
            break
    return windows


def _window(
    grid: DayGrid,
    name: str,
    rows: NDArray[np.int64],
    step: int,
    has_risen: NDArray[np.bool_],
    rise: tuple[float, float],
) -> FoundWindow:
    after = _after(grid.needed[rows])[:, step]
    replicas = int(np.nanmedian(after[has_risen]))
    profile = np.nanmedian(np.nan_to_num(_after(grid.needed[rows][has_risen], _FALL_STEPS)), axis=0)
    below = np.roll(profile, -step - 1) < max(replicas * (1 - _RISE_SHARE_MIN), 1)
    # The whole day where the load never falls below the floor: a window of a day less one step.
    length = int(np.argmax(below)) + 1 if below.any() else STEPS_PER_DAY - 1
    days = [grid.days[row] for row in rows]
    start = step * _MINUTES_PER_STEP
    return FoundWindow(
        days=name,
        start_minute=start,
        end_minute=(start + length * _MINUTES_PER_STEP) % (24 * 60),
        replicas=replicas,
        zone=grid.zone,
        support=tuple(day for day, rose in zip(days, has_risen, strict=True) if rose),
        skipped=tuple(day for day, rose in zip(days, has_risen, strict=True) if not rose),
        rise=rise[0],
        rise_by_chance=rise[1],
    )


def _rows(grid: DayGrid, weekdays: Sequence[int]) -> NDArray[np.int64]:
    """The days of these weekdays of which at least half is known."""
    known = np.mean(~np.isnan(grid.needed), axis=1) >= _KNOWN_SHARE_MIN
    return np.array([row for row, day in enumerate(grid.days) if day.weekday() in weekdays and known[row]], np.int64)


def _rises(needed: Floats) -> tuple[Floats, Floats]:
    """(days, steps): the rise of the largest count from the half hour before a step to the one from it on."""
    before = np.roll(_after(needed), _RISE_STEPS, axis=1)
    rises = np.nan_to_num(_after(needed) - before, nan=0.0)
    return rises, np.nan_to_num(before, nan=0.0)


def _after(needed: Floats, steps: int = _RISE_STEPS) -> Floats:
    """The largest count from each step on for `steps` steps, around midnight within the same day."""
    out = needed.copy()
    for shift in range(1, steps):
        out = np.fmax(out, np.roll(needed, -shift, axis=1))
    return out


def _around(needed: Floats) -> Floats:
    return np.fmax(_after(needed), np.roll(_after(needed), _RISE_STEPS, axis=1))


def _largest_by_chance(needed: Floats, random: np.random.Generator) -> float:
    """The largest median rise of all loads whose days are rotated."""
    columns = np.arange(STEPS_PER_DAY)
    rises = _rises(needed)[0]
    largest = 0.0
    for _ in range(_ROTATIONS):
        shifts = random.integers(0, STEPS_PER_DAY, size=(len(needed), 1))
        rotated = np.take_along_axis(rises, (columns + shifts) % STEPS_PER_DAY, axis=1)
        largest = max(largest, float(np.max(np.median(rotated, axis=0))))
    return largest


def _is_near(start_minute: int, window: FoundWindow) -> bool:
    apart = abs(start_minute - window.start_minute)
    return min(apart, 24 * 60 - apart) < _NEAR_MINUTES


def _is_alike(one: FoundWindow, other: FoundWindow) -> bool:
    """Whether a window adds nothing: an earlier one starts within the hour on all of its days."""
    return _is_near(one.start_minute, other) and set(one.support) <= {*other.support, *other.skipped}


def _spread(grid: DayGrid) -> float:
    """The mean deviation of the days from their median, by weekday class."""
    parts = [np.empty(0)]
    for numbers in (tuple(range(5)), (5, 6)):
        needed = grid.needed[_rows(grid, numbers)]
        known = needed[:, ~np.isnan(needed).all(axis=0)]
        parts.append(np.abs(known - np.nanmedian(known, axis=0)).ravel())
    deviations = np.concatenate(parts)
    return float(np.nanmean(deviations)) if len(deviations) else float("inf")


def _offsets(instants: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    """The zone's offset at each instant, nanoseconds: by the hour, at which clocks change."""
    hours = instants // (3600 * SECOND)
    unique, inverse = np.unique(hours, return_inverse=True)
    info = ZoneInfo(zone)
    offsets = []
    for hour in unique:
        offset = datetime.fromtimestamp(int(hour) * 3600, UTC).astimezone(info).utcoffset()
        offsets.append(0 if offset is None else round(offset.total_seconds()) * SECOND)
    return np.array(offsets, np.int64)[inverse]


def _filled(needed: Floats) -> Floats:
    """Gaps of up to an hour take the count before them, since records may be coarser than a step."""
    known = ~np.isnan(needed)
    places = np.where(known, np.arange(len(needed)), -1)
    last = np.maximum.accumulate(places)
    age = np.arange(len(needed)) - last
    fits = (last >= 0) & (age <= _FALL_STEPS)
    return np.where(fits, needed[np.maximum(last, 0)], np.nan)


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]])))
    return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


def instant_of(day: date, minute: int, zone: str) -> Nanoseconds:
    """The instant of a minute of a local day, which may have one hour more or less than others."""
    return to_instant(datetime.combine(day, time()) + timedelta(minutes=minute), zone, is_end=False)
