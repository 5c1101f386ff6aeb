"""
The methods for pandas: a Series in, a table of quantiles out. For notebooks, and for authors of methods.

An index has the starts of the steps of a regular grid in UTC; a gap is NaN. The only module that imports pandas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pandas import DataFrame, DatetimeIndex, Index, Series, Timedelta

from cronhpa_models.method import Fitted, Method, on_grid

_DAY = Timedelta(days=1)


def fit(method: Method, history: Series[float], *, horizon: int = 1) -> Frames | None:
    """
    A fit for windows of one to `horizon` steps; None if the history is too short for the method.

    Raises ValueError for an index that is not a regular grid in UTC whose step divides a day.
    """
    day = steps_per_day(history.index)
    load = np.asarray(history, dtype=np.float64)
    fitted = method.fit(load, steps_per_day=day, windows=tuple(range(1, horizon + 1)))
    return None if fitted is None else Frames(method, history.index[-2:], fitted)


@dataclass(frozen=True)
class Frames:
    """A fit, and the last two steps of its history."""

    method: Method
    newest: Index
    fitted: Fitted

    def quantiles(self, later: Series[float], level: float, *, variant: str | None = None) -> DataFrame:
        """
        A quantile of the largest load of the next step, the next two steps, ...: columns 1, 2, ...

        The rows are the last step of the history and each step of `later`: the forecast at the end of that step, from
        that step and those before it. variant: of the method; None: its first one. Raises ValueError if `later` does
        not begin at the end of the history, and for an unknown variant.
        """
        expected = self.newest[-1] + (self.newest[-1] - self.newest[0])
        if len(later) and later.index[0] != expected:
            raise ValueError(f"what came later begins at {later.index[0]}: the history goes on at {expected}")
        index = self.newest.append(later.index)
        steps_per_day(index)
        if variant is not None and variant not in self.method.variants:
            raise ValueError(f"{variant} is no variant of {self.method.name}: {', '.join(self.method.variants)} are")
        came = np.asarray(later, dtype=np.float64)
        rows = len(self.fitted.load) - 1 + np.arange(len(came) + 1)
        distribution = self.fitted.distribution(came, on_grid(self.fitted.load, came, rows))
        place = self.method.variants.index(variant) if variant else 0
        windows = self.fitted.windows
        load = np.stack([distribution.quantile(place, window, level) for window in range(len(windows))], axis=1)
        return DataFrame(np.fmax.accumulate(load, axis=1), index=DatetimeIndex(index[1:]), columns=list(windows))


def steps_per_day(index: Index) -> int:
    """The steps in a day of a regular UTC grid. Raises ValueError, with a description, for any other index."""
    if not isinstance(index, DatetimeIndex) or str(index.tz) != "UTC":
        kind = getattr(index, "dtype", type(index))
        raise ValueError(f"index is {kind}: a DatetimeIndex in UTC is needed")
    if len(index) < 2:  # noqa: PLR2004 - two points make a step
        raise ValueError(f"{len(index)} rows: at least two are needed to know the step")
    steps = np.unique(np.diff(index.as_unit("ns").asi8))
    if len(steps) != 1 or steps[0] <= 0:
        raise ValueError(f"rows are between {steps[0]} and {steps[-1]} ns apart: a regular rising grid is needed")
    day = _DAY // Timedelta(nanoseconds=1)
    if day % steps[0]:
        raise ValueError(f"a step of {steps[0]} ns does not divide a day: steps such as 5 min are accepted")
    return int(day // steps[0])
