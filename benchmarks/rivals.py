"""
What others forecast, as floors: re-implementations from published code and behaviour, not the products. Crane's own
code is run by forecast_peers.py.

Each takes the steps of a recorded series and gives (steps, 2): what it expects, made with the steps up to and with each
row, for the step that follows and the one after. A rival's floor is its forecast over the target, as they do it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


RIVALS: dict[str, Callable[[Recorded], Floats]] = {
    "PHPA-like .9/.9/.9": lambda series: holt_winters(series, level=0.9, trend=0.9, season=0.9),
    "PHPA-like .3/.05/.3": lambda series: holt_winters(series, level=0.3, trend=0.05, season=0.3),
    "AWS-like": aws_like,
    "seasonal naive": seasonal_naive,
}
