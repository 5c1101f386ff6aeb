"""
The loads of many series since their fits, read in one query, as arrays.

Imports numpy: for workers only.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain

import numpy as np

from cronhpa.core.model.instant import MINUTE, Nanoseconds
from cronhpa.core.model.spec import Span
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Floats
from cronhpa.forecasting.fitted_models import RUN_UP_MINUTES, RecentLoad
from cronhpa.forecasting.messages import masked
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.load.load_history import NO_ROW, PackedDay, PackedLoads, PackedRows
from cronhpa.history.load.packing import MINUTES_PER_DAY, STEPS_PER_DAY, WHOLE_STEP, kept_steps


class Loads:
    """Loads of several series in [begin, end), by step and by minute; NaN for a gap or a load that was not read."""

    def __init__(self, packed: PackedLoads, begin: Nanoseconds, end: Nanoseconds) -> None:
        self._rows = {series: row for row, series in enumerate(packed.days)}
        self._steps, self._minutes = (_Grid(len(self._rows), begin, end, width) for width in (STEP, MINUTE))
        alike: dict[tuple[int, str], list[tuple[int, PackedDay, memoryview]]] = {}
        for row, days in enumerate(packed.days.values()):
            for day in days:
                typecode, numbers = kept_steps(day.highs)
                alike.setdefault((day.day, typecode), []).append((row, day, numbers))
        for (day_number, typecode), members in alike.items():
            self._lay_days(day_number, typecode, members)
        rows_packed = [self._rows[series] for series in packed.series]
        # If a packed day and a row have a value for the same time, the larger one counts.
        for grid, rows in ((self._steps, packed.steps), (self._minutes, packed.minutes)):
            grid.lay(rows_packed, rows.first, _highs_by_series(rows, len(rows_packed)))

    def steps(self, series: Series, begin: Nanoseconds, count: int) -> Floats:
        """The maxima of `count` steps from `begin` on."""
        return self._steps.row(self._rows[series], begin, count)

    def minutes(self, series: Series, begin: Nanoseconds, count: int) -> Floats:
        """The maxima of `count` minutes from `begin` on."""
        return self._minutes.row(self._rows[series], begin, count)

    def since(self, series: Series, fitted_until: Nanoseconds, now: Nanoseconds, ignored: Sequence[Span]) -> RecentLoad:
        """The load since a fit; by the minute if one of the last five minutes is known."""
        steps = self.steps(series, fitted_until, (now - fitted_until) // STEP)
        steps = _masked(fitted_until, steps, ignored, STEP)
        begin = fitted_until - RUN_UP_MINUTES * MINUTE
        minutes = self.minutes(series, begin, (now - begin) // MINUTE)
        if np.isnan(minutes[-MINUTES_PER_STEP:]).all():
            return RecentLoad(steps)
        if not ignored:
            return RecentLoad(steps, minutes)
        return RecentLoad(steps, minutes, np.isnan(_masked(begin, minutes, ignored, MINUTE)))

    def _lay_days(self, day: int, typecode: str, members: Sequence[tuple[int, PackedDay, memoryview]]) -> None:
        """Enters one day of several series: its steps, and its minutes as `packing.unpack_minutes` returns them."""
        numbers = b"".join(numbers for *_, numbers in members)
        highs = np.frombuffer(numbers, f"<{typecode}").reshape(len(members), STEPS_PER_DAY).astype(np.float64)
        self._steps.lay([row for row, *_ in members], day * STEPS_PER_DAY, highs)
        # If only a part of the day is needed, only its minutes are unpacked.
        first = max(self._minutes.first // MINUTES_PER_STEP - day * STEPS_PER_DAY, 0)
        end = min(-(-self._minutes.end // MINUTES_PER_STEP) - day * STEPS_PER_DAY, STEPS_PER_DAY)
        by_minute = [(place, row, packed.shares) for place, (row, packed, _) in enumerate(members) if packed.shares]
        if first >= end or not by_minute:
            return
        places, rows, several = zip(*by_minute, strict=True)
        shares = np.frombuffer(b"".join(several), np.uint8).reshape(-1, STEPS_PER_DAY, MINUTES_PER_STEP)[:, first:end]
        units = np.where(shares == 0, np.nan, highs[[*places], first:end, None] / WHOLE_STEP)
        values = np.multiply(units, shares, dtype=np.float64).reshape(len(rows), -1)
        self._minutes.lay([*rows], day * MINUTES_PER_DAY + first * MINUTES_PER_STEP, values)


class _Grid:
    """A row of maxima a series, at the times from `first` to before `end`, counted in steps or minutes."""

    def __init__(self, rows: int, begin: Nanoseconds, end: Nanoseconds, width: Nanoseconds) -> None:
        self._width = width
        self.first, self.end = begin // width, max(end // width, begin // width)
        self._values = np.full((rows, self.end - self.first), np.nan)

    def row(self, row: int, begin: Nanoseconds, count: int) -> Floats:
        place = begin // self._width - self.first
        return self._values[row, place : place + max(count, 0)]

    def lay(self, rows: Sequence[int], begin: int, values: Floats) -> None:
        """Sets each cell to max(cell, value). values: one row for each of `rows`, from the time `begin` on."""
        low, high = max(self.first, begin), min(self.end, begin + values.shape[1])
        if low < high:
            part, values = self._values[:, low - self.first : high - self.first], values[:, low - begin : high - begin]
            if len(rows) == len(part):
                np.fmax(part, values, out=part)
            else:
                part[rows] = np.fmax(part[rows], values)


def _highs_by_series(rows: PackedRows, series: int) -> Floats:
    """(series, times), NaN where there is no row."""
    count = len(rows.highs)
    highs = np.fromiter(chain.from_iterable(rows.highs), np.float64, count * series)
    return np.where(highs == NO_ROW, np.nan, highs).reshape(count, series).T


def _masked(first: Nanoseconds, values: Floats, ignored: Sequence[Span], step: Nanoseconds) -> Floats:
    return np.asarray(masked(first, array("d", values), ignored, step)) if ignored else values
