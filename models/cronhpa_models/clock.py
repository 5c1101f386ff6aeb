"""
Weighted empirical quantiles of the values at the same clock on earlier days.

Weights: half-life of five days; x 4 for the same weekday; x 1/2 for a step beside the clock.
"""

from __future__ import annotations

import numpy as np

from cronhpa_models.method import Floats, Rows

_HALF_LIFE_DAYS = 5.0
_WEEK_DAYS = 7
_SAME_WEEKDAY = 4.0
_BESIDE = np.array([-1, 0, 1])
_BESIDE_WEIGHTS = np.array([0.5, 1.0, 0.5])


def quantiles_at_clock(values: Floats, rows: Rows, levels: Floats, *, day: int, days: int) -> Floats:
    """
    (levels, rows): at the clock of each row, the quantile of the values of the `days` days before at each level.

    values: (all rows,), NaN for unknown values; at a row, the value of the day before and of the step after that must
    be known already. Returns NaN for a row without known values.
    """
    back = np.arange(1, days + 1)
    at = (rows[:, None, None] - back[:, None] * day + _BESIDE).reshape(len(rows), -1)
    by_day = 0.5 ** (back / _HALF_LIFE_DAYS) * np.where(back % _WEEK_DAYS, 1.0, _SAME_WEEKDAY)
    weights = np.outer(by_day, _BESIDE_WEIGHTS).ravel()
    sample = np.where(at >= 0, values[np.clip(at, 0, len(values) - 1)], np.nan)
    order = np.argsort(sample, axis=1)  # NaN last
    sample = np.take_along_axis(sample, order, axis=1)
    reached = np.cumsum(np.where(np.isnan(sample), 0.0, weights[order]), axis=1)
    total = reached[:, -1:]
    place = np.stack([(reached < level * total - 1e-9).sum(axis=1) for level in levels])
    quantile = np.take_along_axis(sample, np.minimum(place, sample.shape[1] - 1).T, axis=1).T
    return np.where(total[:, 0] > 0, quantile, np.nan)
