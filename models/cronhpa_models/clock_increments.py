"""
Clock increments: from here on it moves as it moved at this clock on earlier days.

Card
  What for   Rises that come at a clock on top of whatever level the day has.
  Formula    z[t] + quantile of z[t-d*m+h] - z[t-d*m] over d = 1..14 days and one step beside it (weights: clock.py);
             z = log(load + c), c = 5 % of the mean load.
  Source     Empirical quantiles of a seasonal random walk: Hyndman & Athanasopoulos (2021), section 5.5.
  Cost, scores   docs/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    A jump to a fixed level from a base that differs: it is forecast as a factor. Noise in z[t] is carried on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cronhpa_models.clock import quantiles_at_clock
from cronhpa_models.conformal import offset_of
from cronhpa_models.method import Quantiles, joined, largest_ahead, stated, steps_per_day

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import Series

    from cronhpa_models.method import Fitted

_DAYS_BACK = 14


@dataclass(frozen=True)
class ClockIncrements:
    def fit(self, history: Series[float], *, horizon: int) -> Fitted | None:
        """See cronhpa_models.method.Method. There is nothing to learn but the days themselves."""
        day = steps_per_day(history.index)
        offset = offset_of(history)
        return None if offset is None or len(history) <= day else _Moves(history, offset, day, horizon)


@dataclass(frozen=True)
class _Moves:
    history: Series[float]
    offset: float
    day: int
    horizon: int

    def quantiles(self, later: Series[float], levels: Sequence[float]) -> Quantiles:
        """See cronhpa_models.method.Fitted."""
        z = np.log(joined(self.history, later) + self.offset)
        moves = largest_ahead(z, self.horizon) - z[:, None]
        rows = np.arange(len(self.history) - 1, len(z))
        upper = [
            z[rows] + quantiles_at_clock(moves[:, i], rows, levels, day=self.day, days=_DAYS_BACK)
            for i in range(self.horizon)
        ]
        return stated(self.history, later, levels, np.exp(np.stack(upper, axis=2)) - self.offset)
