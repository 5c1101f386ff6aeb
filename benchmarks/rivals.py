"""
What others forecast, as floors: re-implementations from published code and behaviour, not the products.

Each takes the steps of a recorded series and gives (steps, 2): what it expects, made with the steps up to and with each
row, for the step that follows and the one after. A rival's floor is its forecast over the target, as they do it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable

    from recorded import Recorded

    from cronhpa.learning.screening import Floats

_WEEK_DAYS = 7


def seasonal_naive(series: Recorded) -> Floats:
    """What came at the same clock yesterday."""
    return np.stack([_earlier(series.steps, series.steps_per_day - ahead) for ahead in (1, 2)], axis=1)


def aws_like(series: Recorded) -> Floats:
    """
    The mean of the same hour of the week, else of the day, of the last 14 days, renewed every six hours.

    AWS predictive scaling: hourly forecasts from up to 14 days, asked for 300 s early (the second step).
    """
    day = series.steps_per_day
    hour = max(1, day // 24)
    hours = pd.Series(series.steps).rolling(hour, min_periods=1).mean().to_numpy()[hour - 1 :: hour]
    per_day = day // hour
    past = np.stack([_earlier(hours, days * per_day) for days in range(1, 15)])
    weights = np.array([1.0 if days % _WEEK_DAYS else 2.0 for days in range(1, 15)])[:, None] * ~np.isnan(past)
    expected = (weights * np.nan_to_num(past)).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-9)
    by_step = np.repeat(expected, hour)[: len(series.steps)]
    by_step = np.concatenate([by_step, np.full(max(0, len(series.steps) - len(by_step)), by_step[-1])])
    return np.stack([_ahead(by_step, 1), _ahead(by_step, 2)], axis=1)


def holt_winters(series: Recorded, *, level: float, trend: float, season: float) -> Floats:
    """
    Additive Holt-Winters with fixed coefficients, as the predictive-horizontal-pod-autoscaler runs it (its documents
    give 0.9 to each), on load in correct time order.
    """
    steps = pd.Series(series.steps).ffill().bfill().tolist()
    day = series.steps_per_day
    first = steps[:day]
    base = sum(first) / day
    slope = 0.0
    seasons = [value - base for value in first]
    expected = np.full((len(steps), 2), np.nan)
    for i, value in enumerate(steps):
        slot = i % day
        if i >= day:
            before = base
            base = level * (value - seasons[slot]) + (1 - level) * (base + slope)
            slope = trend * (base - before) + (1 - trend) * slope
            seasons[slot] = season * (value - base) + (1 - season) * seasons[slot]
        expected[i] = [base + (h + 1) * slope + seasons[(slot + 1 + h) % day] for h in range(2)]
    return expected


def crane_like(series: Recorded) -> Floats:
    """
    Yesterday without what is faster than an hour and small, times a margin that would have fitted yesterday.

    gocrane/crane pkg/prediction/dsp: a period of a day where its autocorrelation shows one (here: above 0.3), low
    amplitudes of the spectrum set to zero, margins of 1 to 20 % by error on the last period with under-forecasts
    counted double, a fit every twelve hours. Without a period there is no forecast.
    """
    steps = pd.Series(series.steps).ffill().bfill().to_numpy()
    day = series.steps_per_day
    expected = np.full((len(steps), 2), np.nan)
    half = day // 2
    for origin in range(3 * day, len(steps), half):
        past = steps[max(0, origin - 7 * day) : origin]
        past = past[len(past) % day :]
        if not _is_periodic(past, day):
            continue
        smooth = _low_pass(past, day)
        replay = smooth[-day:]
        margin = min(
            (0.01, 0.10, 0.15, 0.20), key=lambda each: _error(smooth[-2 * day : -day] * (1 + each), past[-day:])
        )
        rows = np.arange(origin, min(origin + half, len(steps)))
        for h in range(2):
            expected[rows, h] = replay[(rows - origin + 1 + h) % day] * (1 + margin)
    return expected


RIVALS: dict[str, Callable[[Recorded], Floats]] = {
    "Crane-like": crane_like,
    "PHPA-like .9/.9/.9": lambda series: holt_winters(series, level=0.9, trend=0.9, season=0.9),
    "PHPA-like .3/.05/.3": lambda series: holt_winters(series, level=0.3, trend=0.05, season=0.3),
    "AWS-like": aws_like,
    "seasonal naive": seasonal_naive,
}


def _is_periodic(past: Floats, day: int) -> bool:
    early, late = past[:-day], past[day:]
    if not early.std() or not late.std():
        return False
    return bool(np.corrcoef(early, late)[0, 1] > 0.3)


def _low_pass(past: Floats, day: int) -> Floats:
    spectrum = np.fft.rfft(past)
    per_hour = len(past) / (day / 24)
    amplitude = np.abs(spectrum) / len(past)
    small = amplitude < 0.05
    spectrum[(np.arange(len(spectrum)) > per_hour) & small] = 0
    return np.asarray(np.maximum(np.fft.irfft(spectrum, len(past)), 0.0))


def _error(expected: Floats, came: Floats) -> float:
    short = np.maximum(came - expected, 0.0)
    return float((np.abs(came - expected) + short).mean())


def _earlier(values: Floats, rows: int) -> Floats:
    return np.concatenate([np.full(rows, np.nan), values[: len(values) - rows]])[: len(values)]


def _ahead(values: Floats, rows: int) -> Floats:
    return np.concatenate([values[rows:], np.full(rows, np.nan)])
