"""The accuracy of forecasts: scores as pure functions, and a rolling-origin evaluation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cronhpa_models.catalog import ChosenMethod
from cronhpa_models.method import Fitted, Floats, Rows, largest_ahead, on_grid, shifted

_HISTORY_DAYS = 28
# A quantile is computed by a logarithm and its inverse: rounding must not make a constant load uncovered.
_ROUNDED, _TINY = 1 + 1e-6, 1e-9


def pinball_loss(actual: Floats, forecast: Floats, level: float) -> float:
    """
    The mean pinball loss, which the true `level` quantile minimises, in load units: `level` for each unit that the
    forecast was too low, 1 - `level` for each unit that it was too high. Pairs with a gap are left out; NaN without
    pairs.
    """
    missed = (actual - forecast)[_known(actual, forecast)]
    return float(np.maximum(level * missed, (level - 1) * missed).mean()) if missed.size else float("nan")


def coverage(actual: Floats, forecast: Floats) -> float:
    """The share of outcomes at or below the forecast. Pairs with a gap are left out; NaN without pairs."""
    is_known = _known(actual, forecast)
    return float((actual <= forecast * _ROUNDED + _TINY)[is_known].mean()) if is_known.any() else float("nan")


def mase(actual: Floats, forecast: Floats, season_before: Floats) -> float:
    """
    Mean absolute error relative to that of repeating the last season: below one is better than repeating it.

    season_before: the load one season before each outcome. Only rows that are known in all three count.
    Scaled as in Hyndman & Koehler (2006), by the seasonal naive error of the same span.
    """
    is_known = _known(actual, forecast) & ~np.isnan(season_before)
    naive = np.abs(actual - season_before)[is_known].sum()
    return float(np.abs(actual - forecast)[is_known].sum() / naive) if naive > 0 else float("nan")


@dataclass(frozen=True)
class RollingForecasts:
    """Forecasts of the variants of a method, with their outcomes."""

    origins: Rows
    """(origins,), the newest row that each forecast uses."""
    levels: tuple[float, ...]
    forecasts: Floats
    """(variants, levels, origins, horizon)."""
    outcomes: Floats
    day_before: Floats
    """(origins, horizon), the largest loads, and those of 24 hours before."""
    fit_seconds: float
    day_seconds: float
    """Median CPU of a fit, and of the forecasts from all origins of a day."""


@dataclass(frozen=True)
class Scores:
    coverage: float
    """Share of outcomes up to the 0.9 quantile."""
    mase: float
    """Mean absolute scaled error of the median."""
    pinball: float
    """Loss of the 0.9 quantile, in percent of the mean load."""
    known: float
    """The share of outcomes for which there was a forecast."""
    fit_ms: float
    day_ms: float


def rolling_origin(
    chosen: ChosenMethod,
    load: Floats,
    *,
    steps_per_day: int,
    first: int,
    levels: Sequence[float],
    horizon: int = 1,
) -> RollingForecasts:
    """
    Forecasts from each row, which use that row and the rows before it only. The method is fitted daily.

    load: (rows,), the maximum of each step, NaN for a gap. first: the first row that is forecast. Each fit sees the 28
    days before it.
    """
    day = steps_per_day
    windows = tuple(range(1, horizon + 1))
    forecasts, fit_seconds, day_seconds = [], [], []
    for begin in range(first, len(load), day):
        history = load[max(0, begin - _HISTORY_DAYS * day) : begin]
        later = load[begin : min(begin + day, len(load)) - 1]
        started = time.process_time()
        fitted = chosen.method.fit(history, steps_per_day=day, windows=windows)
        fit_seconds.append(time.process_time() - started)
        started = time.process_time()
        forecasts.append(_forecasts(chosen, fitted, later, levels, horizon))
        day_seconds.append(time.process_time() - started)
    outcomes = largest_ahead(load, horizon)
    before = np.stack([shifted(outcomes[:, ahead], day) for ahead in range(horizon)], axis=1)
    return RollingForecasts(
        origins=np.arange(first - 1, len(load) - 1),
        levels=tuple(levels),
        forecasts=np.concatenate(forecasts, axis=2),
        outcomes=outcomes[first - 1 : -1],
        day_before=before[first - 1 : -1],
        fit_seconds=float(np.median(fit_seconds)),
        day_seconds=float(np.median(day_seconds)),
    )


def scored(chosen: ChosenMethod, load: Floats, *, steps_per_day: int, first: int) -> dict[str, Scores]:
    """By variant, its scores for the largest load of the coming step, over the rows from `first` on."""
    made = rolling_origin(chosen, load, steps_per_day=steps_per_day, first=first, levels=(0.5, 0.9))
    came = made.outcomes[:, 0]
    measured = ~np.isnan(came)
    return {
        variant: Scores(
            coverage=coverage(came, upper),
            mase=mase(came, median, made.day_before[:, 0]),
            pinball=100 * pinball_loss(came, upper, 0.9) / float(np.nanmean(came)),
            known=float((~np.isnan(upper[measured])).mean()),
            fit_ms=1000 * made.fit_seconds,
            day_ms=1000 * made.day_seconds,
        )
        for variant, (median, upper) in zip(chosen.variants, made.forecasts[..., 0], strict=True)
    }


def _forecasts(
    chosen: ChosenMethod, fitted: Fitted | None, later: Floats, levels: Sequence[float], horizon: int
) -> Floats:
    """(variants, levels, origins, horizon), NaN without a fit."""
    if fitted is None:
        return np.full((len(chosen.variants), len(levels), len(later) + 1, horizon), np.nan)
    rows = len(fitted.load) - 1 + np.arange(len(later) + 1)
    distribution = fitted.distribution(later, on_grid(fitted.load, later, rows))
    places = [chosen.method.variants.index(variant) for variant in chosen.variants]
    load = [
        [[distribution.quantile(place, window, level) for window in range(horizon)] for level in levels]
        for place in places
    ]
    # The largest load of more steps is at least that of fewer steps.
    return np.fmax.accumulate(np.moveaxis(np.array(load), 2, 3), axis=3)


def _known(actual: Floats, forecast: Floats) -> np.ndarray:
    return ~np.isnan(actual) & ~np.isnan(forecast)
