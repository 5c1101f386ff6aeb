"""
Seasonal naive: the load equals that of the same time yesterday.

Card
  What for   The baseline of methods with a daily rhythm; MASE is relative to it.
  Formula    z[t+h] = z[t+h-m], m the steps of a day, and conformal quantiles of the difference between days.
  Source     Hyndman & Athanasopoulos (2021), section 5.2, "seasonal naive".
  Cost, scores   docs/engineering/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    Today's level: a day that is twice as busy is forecast at half. Mondays are forecast as Sundays.
"""

from __future__ import annotations

import numpy as np

from cronhpa_models.earlier_days import EarlierDays
from cronhpa_models.method import Floats, shifted


def expected(load: Floats, horizon: int, day: int) -> Floats:
    """(rows, horizon), NaN on the first day."""
    return np.stack([shifted(load, day - ahead) for ahead in range(1, horizon + 1)], axis=1)


SEASONAL_NAIVE = EarlierDays("SeasonalNaive", expected)
