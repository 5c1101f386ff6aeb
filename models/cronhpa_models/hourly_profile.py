"""
Hourly profile: the mean of the same hour on earlier days, as cloud providers forecast by the hour.

Card
  What for   A comparison with providers: the worth of hourly forecasts where pods start in minutes.
  Formula    z[t+h] = weighted mean of the hour of t+h on the last 14 days, the same weekday counting twice, and
             conformal quantiles.
  Source     AWS predictive scaling as its documents describe it (hourly, up to 14 days of history); its model is not
             published.
  Cost, scores   docs/engineering/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    Changes within an hour, and today's level.
"""

from __future__ import annotations

import numpy as np

from cronhpa_models.earlier_days import EarlierDays
from cronhpa_models.method import Floats, shifted

_DAYS_BACK = 14
_WEEK_DAYS = 7
_SAME_WEEKDAY = 2.0


def expected(load: Floats, horizon: int, day: int) -> Floats:
    """(rows, horizon), NaN on the first day. Hours are counted from the first row."""
    per_hour = max(1, day // 24)
    hours = -(-(len(load) + horizon) // per_hour)
    padded = np.full(hours * per_hour, np.nan)
    padded[: len(load)] = load
    by_hour = padded.reshape(hours, per_hour)
    is_known = ~np.isnan(by_hour)
    mean = np.where(is_known, by_hour, 0.0).sum(axis=1) / np.maximum(is_known.sum(axis=1), 1)
    mean = np.where(is_known.any(axis=1), mean, np.nan)
    days = np.arange(1, _DAYS_BACK + 1)
    past = np.stack([shifted(mean, int(back) * (day // per_hour)) for back in days])
    weight = np.where(days % _WEEK_DAYS, 1.0, _SAME_WEEKDAY)[:, None] * ~np.isnan(past)
    total = weight.sum(axis=0)
    profile = np.divide((weight * np.nan_to_num(past)).sum(axis=0), total, out=np.full(hours, np.nan), where=total > 0)
    by_step = np.repeat(profile, per_hour)
    return np.stack([by_step[ahead : ahead + len(load)] for ahead in range(1, horizon + 1)], axis=1)


HOURLY_PROFILE = EarlierDays("HourlyProfile", expected)
