"""
What others forecast, as floors: re-implementations from published code and behaviour, not the products.

Each takes the steps of a recorded series and gives (steps, 2): what it expects, made with the steps up to and with each
row, for the step that follows and the one after. A rival's floor is its forecast over the target, as they do it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import cronhpa_models.hourly_profile
import cronhpa_models.seasonal_naive
from cronhpa_models.exponential_smoothing import Additive

if TYPE_CHECKING:
    from collections.abc import Callable

    from recorded import Recorded

    from cronhpa.forecasting.columns import Floats

_HORIZON = 2


def seasonal_naive(series: Recorded) -> Floats:
    """What came at the same clock yesterday."""
    return cronhpa_models.seasonal_naive.expected(series.steps, _HORIZON, day=series.steps_per_day)


def aws_like(series: Recorded) -> Floats:
    """AWS predictive scaling: hourly forecasts from up to 14 days, asked for 300 s early (the second step)."""
    return cronhpa_models.hourly_profile.expected(series.steps, _HORIZON, day=series.steps_per_day)


def holt_winters(series: Recorded, *, level: float, trend: float, season: float) -> Floats:
    """
    Additive Holt-Winters with fixed coefficients, as the predictive-horizontal-pod-autoscaler runs it (its documents
    give 0.9 to each), on load in correct time order.
    """
    steps = pd.Series(series.steps).ffill().bfill().to_numpy()
    first = steps[: series.steps_per_day]
    # Its coefficients are of the component form: the trend takes a share of the level's change, the season one of what
    # the level has left of the error.
    smoothing = Additive(
        alpha=level,
        beta=level * trend,
        gamma=season * (1 - level),
        base=float(first.mean()),
        slope=0.0,
        season=tuple(first - first.mean()),
    )
    return smoothing(steps, _HORIZON)


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
            (0.01, 0.10, 0.15, 0.20),
            key=lambda candidate: _error(smooth[-2 * day : -day] * (1 + candidate), past[-day:]),
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
