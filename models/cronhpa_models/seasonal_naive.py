"""
Seasonal naive: what came at this clock yesterday comes again.

Card
  What for   The baseline of everything that claims to know a rhythm; MASE is measured against it.
  Formula    z[t+h] = z[t+h-m], m the steps of a day, and conformal quantiles of what one day differs from the next.
  Source     Hyndman & Athanasopoulos (2021), section 5.2, "seasonal naive".
  Cost, scores   docs/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    Today's level: a day that is twice as busy is forecast at half. Mondays are forecast as Sundays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cronhpa_models.conformal import Calibrated, offset_of
from cronhpa_models.method import Floats, shifted, steps_per_day

if TYPE_CHECKING:
    from pandas import Series

    from cronhpa_models.method import Fitted


@dataclass(frozen=True)
class SeasonalNaive:
    def fit(self, history: Series[float], *, horizon: int) -> Fitted | None:
        """See cronhpa_models.method.Method."""
        day = steps_per_day(history.index)
        offset = offset_of(history)
        return None if offset is None else Calibrated(history, offset, horizon, partial(expected, day=day))


def expected(load: Floats, horizon: int, *, day: int) -> Floats:
    """(rows, horizon), NaN on the first day."""
    return np.stack([shifted(load, day - ahead) for ahead in range(1, horizon + 1)], axis=1)
