"""
The loads since their fits of many series, read at once, as arrays.

Imports numpy: for workers only.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain

import numpy as np

from cronhpa.core.instant import MINUTE, Nanoseconds
from cronhpa.core.spec import Span
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Floats
from cronhpa.forecasting.fitted_models import RUN_UP_MINUTES, RecentLoad
from cronhpa.forecasting.messages import masked
from cronhpa.history.load_history import NO_ROW, PackedDay, PackedLoads, PackedRows
from cronhpa.history.packing import MINUTES_PER_DAY, STEPS_PER_DAY, WHOLE_STEP, unpack_steps
from cronhpa.history.series import STEP, Series


class Loads:
    """Loads of several series on grids of time; NaN for a gap, and for what was not read."""

    def __init__(self, packed: PackedLoads) -> None:
        self._days = packed.days
        self._unpacked: dict[bytes, Floats] = {}
        self._numbers = {series: number for number, series in enumerate(packed.series)}
        self._steps, self._minutes = (
            (rows.first, _highs_by_series(rows, len(packed.series))) for rows in (packed.steps, packed.minutes)
        )

    def steps(self, series: Series, begin: Nanoseconds, count: int) -> Floats:
        """The maxima of so many steps from an instant on."""
        first = begin // STEP
        grid = np.full(max(count, 0), np.nan)
        for day in self._days[series]:
            _lay(grid, first, day.day * STEPS_PER_DAY, self._highs(day))
        return self._with_rows(grid, first, self._steps, series)

    def minutes(self, series: Series, begin: Nanoseconds, count: int) -> Floats:
        """The maxima of so many minutes from an instant on."""
        first = begin // MINUTE
        grid = np.full(max(count, 0), np.nan)
        for day in self._days[series]:
            if day.shares is not None:
                _lay(
                    grid,
                    first,
                    day.day * MINUTES_PER_DAY,
                    _minutes(day, self._highs(day), first - day.day * MINUTES_PER_DAY),
                )
        return self._with_rows(grid, first, self._minutes, series)

    def since(self, series: Series, fitted_until: Nanoseconds, now: Nanoseconds, ignored: Sequence[Span]) -> RecentLoad:
        """The load since a fit; by the minute where one of the last five minutes is known."""
        steps = self.steps(series, fitted_until, (now - fitted_until) // STEP)
        steps = _masked(fitted_until, steps, ignored, STEP)
        begin = fitted_until - RUN_UP_MINUTES * MINUTE
        minutes = self.minutes(series, begin, (now - begin) // MINUTE)
        if np.isnan(minutes[-MINUTES_PER_STEP:]).all():
            return RecentLoad(steps)
        if not ignored:
            return RecentLoad(steps, minutes)
        return RecentLoad(steps, minutes, np.isnan(_masked(begin, minutes, ignored, MINUTE)))

    def _highs(self, day: PackedDay) -> Floats:
        """The maxima of a day's steps, unpacked once for steps and minutes."""
        known = self._unpacked.get(day.highs)
        if known is None:
            known = self._unpacked[day.highs] = np.frombuffer(unpack_steps(day.highs), np.float64)
        return known

    def _with_rows(self, grid: Floats, first: int, rows: tuple[int, Floats], series: Series) -> Floats:
        number = self._numbers.get(series)
        if number is not None:
            # Where a day and a row have a value for one time, the larger value wins.
            _lay(grid, first, rows[0], rows[1][number])
        return grid


def _highs_by_series(rows: PackedRows, series: int) -> Floats:
    """(series, times), NaN where there is no row."""
    count = len(rows.highs)
    highs = np.fromiter(chain.from_iterable(rows.highs), np.float64, count * series)
    return np.where(highs == NO_ROW, np.nan, highs).reshape(count, series).T.copy()


def _lay(grid: Floats, first: int, begin: int, values: Floats) -> None:
    """Raise a grid that starts at a time `first` by values that start at `begin`."""
    low, high = max(first, begin), min(first + len(grid), begin + len(values))
    if low < high:
        part = grid[low - first : high - first]
        np.fmax(part, values[low - begin : high - begin], out=part)


def _minutes(day: PackedDay, step_highs: Floats, since: int) -> Floats:
    """As `packing.unpack_minutes`; what lies before the minute `since` is not asked for, and may be anything."""
    assert day.shares is not None, "a day with minutes"
    shares = np.frombuffer(day.shares, np.uint8)
    found = np.full(MINUTES_PER_DAY, np.nan)
    asked = slice(max(since, 0) // MINUTES_PER_STEP, None)
    highs = np.repeat(step_highs[asked] / WHOLE_STEP, MINUTES_PER_STEP)
    part = slice(MINUTES_PER_DAY - len(highs), None)
    found[part] = np.where(shares[part] > 0, highs * shares[part], np.nan)
    return found


def _masked(first: Nanoseconds, values: Floats, ignored: Sequence[Span], step: Nanoseconds) -> Floats:
    return np.asarray(masked(first, array("d", values), ignored, step)) if ignored else values
