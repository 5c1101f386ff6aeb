"""
The loads since their fits of many series, read at once, as arrays.

Imports numpy: for workers only.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from cronhpa.core.instant import MINUTE, Nanoseconds
from cronhpa.core.spec import Span
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Floats
from cronhpa.forecasting.fitted_models import RUN_UP_MINUTES, RecentLoad
from cronhpa.forecasting.messages import masked
from cronhpa.history.load_history import PackedDay, PackedLoads
from cronhpa.history.packing import MINUTES_PER_DAY, STEPS_PER_DAY, WHOLE_STEP, unpack_steps
from cronhpa.history.series import STEP, Series


class Loads:
    """Loads of several series on grids of time; NaN for a gap, and for what was not read."""

    def __init__(self, packed: PackedLoads) -> None:
        self._days = packed.days
        numbers = {series: number for number, series in enumerate(packed.ids.values())}
        self._numbers = numbers
        of_id = {series_id: numbers[series] for series_id, series in packed.ids.items()}
        self._steps = _Table(packed.steps, of_id)
        self._minutes = _Table(packed.minutes, of_id)

    def steps(self, series: Series, begin: Nanoseconds, count: int) -> Floats:
        """The maxima of so many steps from an instant on."""
        first = begin // STEP
        grid = np.full(max(count, 0), np.nan)
        for day in self._days[series]:
            _lay(grid, first, day.day * STEPS_PER_DAY, _highs(day))
        return self._with_rows(grid, first, self._steps, series)

    def minutes(self, series: Series, begin: Nanoseconds, count: int) -> Floats:
        """The maxima of so many minutes from an instant on."""
        first = begin // MINUTE
        grid = np.full(max(count, 0), np.nan)
        for day in self._days[series]:
            if day.shares is not None:
                _lay(grid, first, day.day * MINUTES_PER_DAY, _minutes(day, first - day.day * MINUTES_PER_DAY))
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

    def _with_rows(self, grid: Floats, first: int, table: _Table, series: Series) -> Floats:
        number = self._numbers.get(series)
        if number is not None:
            # Where a day and a row have a value for one time, the larger value wins.
            _lay(grid, first, table.first, table.highs[number])
        return grid


class _Table:
    """Rows of (time, id, high). highs: (series, times), from the time `first` on, NaN where there is no row."""

    def __init__(self, rows: Sequence[tuple[int, int, float]], number_of_id: dict[int, int]) -> None:
        if not rows:
            self.first, self.highs = 0, np.empty((len(number_of_id), 0))
            return
        times, ids, highs = zip(*rows, strict=True)
        self.first = times[0]
        self.highs = np.full((len(number_of_id), times[-1] - times[0] + 1), np.nan)
        numbers = [number_of_id[series_id] for series_id in ids]
        self.highs[numbers, np.array(times) - self.first] = highs


def _lay(grid: Floats, first: int, begin: int, values: Floats) -> None:
    """Raise a grid that starts at a time `first` by values that start at `begin`."""
    low, high = max(first, begin), min(first + len(grid), begin + len(values))
    if low < high:
        part = grid[low - first : high - first]
        np.fmax(part, values[low - begin : high - begin], out=part)


def _highs(day: PackedDay) -> Floats:
    return np.frombuffer(unpack_steps(day.highs), np.float64)


def _minutes(day: PackedDay, since: int) -> Floats:
    """As `packing.unpack_minutes`; what lies before the minute `since` is not asked for, and may be anything."""
    assert day.shares is not None, "a day with minutes"
    shares = np.frombuffer(day.shares, np.uint8)
    found = np.full(MINUTES_PER_DAY, np.nan)
    asked = slice(max(since, 0) // MINUTES_PER_STEP, None)
    highs = np.repeat(_highs(day)[asked] / WHOLE_STEP, MINUTES_PER_STEP)
    part = slice(MINUTES_PER_DAY - len(highs), None)
    found[part] = np.where(shares[part] > 0, highs * shares[part], np.nan)
    return found


def _masked(first: Nanoseconds, values: Floats, ignored: Sequence[Span], step: Nanoseconds) -> Floats:
    return np.asarray(masked(first, array("d", values), ignored, step)) if ignored else values
