"""How good a forecast is: scores as small pure functions, and a rolling origin that cuts history once."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pandas import DatetimeIndex, Series

from cronhpa_models.method import Floats, largest_ahead, shifted, steps_per_day

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpa_models.method import Fitted, Method

_HISTORY_DAYS = 28
# A quantile that was a load goes through a logarithm and back: a load that never moves must not count as uncovered.
_ROUNDED, _TINY = 1 + 1e-6, 1e-9


def pinball_loss(actual: Floats, forecast: Floats, level: float) -> float:
    """
    The mean loss that the true `level` quantile minimises, in load units: `level` for each unit that was too low,
    1 - `level` for each unit that was too high. Pairs with a gap are left out; NaN where none are left.
    """
    missed = (actual - forecast)[_known(actual, forecast)]
    return float(np.maximum(level * missed, (level - 1) * missed).mean()) if missed.size else float("nan")


def coverage(actual: Floats, forecast: Floats) -> float:
    """The share of outcomes at or below the forecast. Pairs with a gap are left out; NaN where none are left."""
    known = _known(actual, forecast)
    return float((actual <= forecast * _ROUNDED + _TINY)[known].mean()) if known.any() else float("nan")


def mase(actual: Floats, forecast: Floats, season_before: Floats) -> float:
    """
    Mean absolute error relative to that of repeating the last season: below one is better than yesterday.

    season_before: what was measured one season before each outcome. Only pairs known in all three count.
    Scaled as Hyndman & Koehler (2006), with the seasonal naive error of the same span.
    """
    known = _known(actual, forecast) & ~np.isnan(season_before)
    naive = np.abs(actual - season_before)[known].sum()
    return float(np.abs(actual - forecast)[known].sum() / naive) if naive > 0 else float("nan")


@dataclass(frozen=True)
class Backtest:
    """
    What was forecast and what came.

    origins: the newest step that each forecast knew. forecasts: (levels, origins, horizon).
    outcomes, day_before: (origins, horizon), the largest loads that came, and those of 24 hours before.
    fit_seconds, day_seconds: of CPU, a fit and the forecasts from all origins of a day, medians.
    """

    origins: DatetimeIndex
    levels: tuple[float, ...]
    forecasts: Floats
    outcomes: Floats
    day_before: Floats
    fit_seconds: float
    day_seconds: float


@dataclass(frozen=True)
class Scores:
    """
    coverage, pinball: of the 0.9 quantile, the loss in percent of the mean load. mase: of the median.

    known: the share of outcomes for which there was a forecast.
    """

    coverage: float
    mase: float
    pinball: float
    known: float
    fit_ms: float
    day_ms: float


def rolling_origin(
    method: Method, load: Series[float], *, first: int, levels: Sequence[float], horizon: int = 1
) -> Backtest:
    """
    Forecast from each row, fitted daily, each time from that row and those before it only.

    first: the first row that is forecast. Each fit sees the 28 days before it.
    """
    day = steps_per_day(load.index)
    begins = range(first, len(load), day)
    forecasts, fit_seconds, day_seconds = [], [], []
    for begin in begins:
        history = load.iloc[max(0, begin - _HISTORY_DAYS * day) : begin]
        later = load.iloc[begin : min(begin + day, len(load)) - 1]
        started = time.process_time()
        fitted = method.fit(history, horizon=horizon)
        fit_seconds.append(time.process_time() - started)
        started = time.process_time()
        forecasts.append(_forecasts(fitted, later, levels, horizon))
        day_seconds.append(time.process_time() - started)
    outcomes = largest_ahead(np.asarray(load, dtype=np.float64), horizon)
    before = np.stack([shifted(outcomes[:, ahead], day) for ahead in range(horizon)], axis=1)
    return Backtest(
        origins=DatetimeIndex(load.index[first - 1 : -1]),
        levels=tuple(levels),
        forecasts=np.concatenate(forecasts, axis=1),
        outcomes=outcomes[first - 1 : -1],
        day_before=before[first - 1 : -1],
        fit_seconds=float(np.median(fit_seconds)),
        day_seconds=float(np.median(day_seconds)),
    )


def scored(method: Method, load: Series[float], *, first: int) -> Scores:
    """How well a method tells the largest load of the coming step, over the rows from `first` on."""
    made = rolling_origin(method, load, first=first, levels=(0.5, 0.9))
    median, upper = made.forecasts[:, :, 0]
    came = made.outcomes[:, 0]
    measured = ~np.isnan(came)
    return Scores(
        coverage=coverage(came, upper),
        mase=mase(came, median, made.day_before[:, 0]),
        pinball=100 * pinball_loss(came, upper, 0.9) / float(np.nanmean(came)),
        known=float((~np.isnan(upper[measured])).mean()),
        fit_ms=1000 * made.fit_seconds,
        day_ms=1000 * made.day_seconds,
    )


def _forecasts(fitted: Fitted | None, later: Series[float], levels: Sequence[float], horizon: int) -> Floats:
    """(levels, origins, horizon), NaN where nothing could be fitted."""
    if fitted is None:
        return np.full((len(levels), len(later) + 1, horizon), np.nan)
    return fitted.quantiles(later, levels).load


def _known(actual: Floats, forecast: Floats) -> np.ndarray:
    return ~np.isnan(actual) & ~np.isnan(forecast)
