"""
What a forecasting method is: a fit to one series, and the quantiles that come out.

A series is the total load of one object in its own unit; its index holds the starts of the steps of a regular grid in
UTC. A gap is NaN, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame, DatetimeIndex, Index, Series, Timedelta

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_DAY = Timedelta(days=1)


@dataclass(frozen=True)
class Quantiles:
    """
    Quantiles of the largest load within the next steps, from each of some origins.

    levels: between 0 and 1, rising. origins: the newest step that each forecast knows.
    load: (levels, origins, horizon), of the first step after the origin, of the first two, and so on; NaN where the
    method has nothing to say.
    """

    levels: tuple[float, ...]
    origins: DatetimeIndex
    load: Floats

    def at(self, level: float) -> DataFrame:
        """One level, a row an origin, columns 1 to horizon. Raises ValueError for a level that was not asked for."""
        columns = range(1, self.load.shape[2] + 1)
        return DataFrame(self.load[self.levels.index(level)], index=self.origins, columns=columns)


class Fitted(Protocol):
    """What was learnt of one series."""

    def quantiles(self, later: Series[float], levels: Sequence[float]) -> Quantiles:
        """
        Forecasts from the last step of the history and from each of the steps that came `later`.

        Each knows the steps up to its origin and none behind it: levels are corrected at every step, while a fit is
        daily. Raises ValueError where `later` does not go on where the history ended.
        """


class Method(Protocol):
    """A way to forecast, with its parameters."""

    def fit(self, history: Series[float], *, horizon: int) -> Fitted | None:
        """
        What `history` teaches for the next `horizon` steps; None where it is too short.

        Raises ValueError for an index that is no regular grid in UTC of which a day is a multiple.
        """


def steps_per_day(index: Index) -> int:
    """Of a regular UTC grid. Raises ValueError, with what was found, for an index that is none."""
    if not isinstance(index, DatetimeIndex) or str(index.tz) != "UTC":
        found = getattr(index, "dtype", type(index))
        raise ValueError(f"index is {found}: a DatetimeIndex in UTC is needed")
    if len(index) < 2:  # noqa: PLR2004 - two points make a step
        raise ValueError(f"{len(index)} rows: at least two are needed to know the step")
    steps = np.unique(np.diff(index.as_unit("ns").asi8))
    if len(steps) != 1 or steps[0] <= 0:
        raise ValueError(f"rows are between {steps[0]} and {steps[-1]} ns apart: a regular rising grid is needed")
    day = _DAY // Timedelta(nanoseconds=1)
    if day % steps[0]:
        raise ValueError(f"a step of {steps[0]} ns does not divide a day: steps such as 5 min are accepted")
    return int(day // steps[0])


def joined(history: Series[float], later: Series[float]) -> Floats:
    """(rows,): the load of both. Raises ValueError where the one does not go on where the other ended."""
    if len(later):
        expected = history.index[-1] + (history.index[1] - history.index[0])
        if later.index[0] != expected:
            raise ValueError(f"what came later begins at {later.index[0]}: the history goes on at {expected}")
        steps_per_day(history.index[-1:].append(later.index))
    return np.concatenate([history.to_numpy(dtype=np.float64), later.to_numpy(dtype=np.float64)])


def stated(history: Series[float], later: Series[float], levels: Sequence[float], load: Floats) -> Quantiles:
    """
    Quantiles from the last step of the history and from each that came later.

    load: (levels, origins, horizon). None is below zero, and none of a longer span below that of a shorter one.
    """
    origins = DatetimeIndex(history.index[-1:].append(later.index))
    longest = np.fmax.accumulate(np.maximum(load, 0.0), axis=2)
    return Quantiles(tuple(levels), origins, np.where(np.isnan(load), np.nan, longest))


def largest_ahead(load: Floats, horizon: int) -> Floats:
    """(rows, horizon): the largest of the next step, of the next two, ...; NaN from a gap or the end on."""
    padded = np.concatenate([load, np.full(horizon, np.nan)])
    ahead = np.lib.stride_tricks.sliding_window_view(padded, horizon)[1:]
    return np.maximum.accumulate(ahead, axis=1)


def shifted(values: Floats, rows: int) -> Floats:
    """What stood so many rows before; NaN where there is no such row. A negative number looks ahead."""
    out = np.full(len(values), np.nan)
    if rows >= 0:
        out[rows:] = values[: max(len(values) - rows, 0)]
    else:
        out[:rows] = values[-rows:]
    return out
