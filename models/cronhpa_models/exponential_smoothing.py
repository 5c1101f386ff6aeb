"""
Exponential smoothing with a daily season: a level and a daily pattern, both corrected by a share of each error.

Card
  What for   Load whose level drifts and whose daily pattern changes slowly.
  Formula    additive error, no trend, additive season on z = log(load + c), and conformal quantiles:
             e = z[t] - (l + s[clock]);  l += alpha e;  s[clock] += gamma e;  z[t+h] = l + s[clock of t+h]
             alpha, gamma by statsmodels' ETSModel (maximum likelihood on the last seven days; heuristic start values,
             because estimating them is far slower); l, s between fits by the recursion itself.
  Source     Hyndman, Koehler, Ord & Snyder (2008), Forecasting with Exponential Smoothing, model ANA.
  Cost       The first fit of a process imports statsmodels, which takes seconds and tens of megabytes.
  Scores     docs/engineering/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    Weekends after a working week, until each slot has been corrected for some days. Jumps at varying times.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from cronhpa_models.conformal import Calibrated, calibrated, decoded, filled, kept, offset_of
from cronhpa_models.method import Floats, Rows

_DAYS_FITTED = 7
_DAYS_FILTERED = 14


class ExponentialSmoothing:
    """See cronhpa_models.method.Method."""

    name = "ExponentialSmoothing"
    variants = ("ExponentialSmoothing",)
    needs = ("statsmodels",)

    def fit(self, load: Floats, *, steps_per_day: int, windows: tuple[int, ...]) -> Calibrated | None:
        """None with fewer than two days, or if nothing was measured."""
        load = kept(load, steps_per_day, _DAYS_FILTERED)
        offset = offset_of(load)
        if offset is None or len(load) < 2 * steps_per_day:
            return None
        z = np.log(filled(load) + offset)
        smoothing = _smoothing(z[-_DAYS_FITTED * steps_per_day :], z, steps_per_day)
        return calibrated(load, steps_per_day, windows, smoothing)

    def decode(self, state: bytes) -> Calibrated:
        return decoded(state, lambda stored: Additive.of(stored.parameters))


@dataclass(frozen=True)
class Additive:
    """Additive exponential smoothing in the form of error correction."""

    alpha: float
    beta: float
    gamma: float
    """The shares of an error that correct the level, the trend and the season."""
    base: float
    slope: float
    season: tuple[float, ...]
    """Their start values; season: (steps of a day,), beginning with the slot of the first row."""

    def __call__(self, load: Floats, horizon: int) -> Floats:
        """
        (rows, horizon): the expectations after each row; a gap corrects nothing.

        NaN on the first day, because the start values come from it.
        """
        base, slope, season = self.base, self.slope, list(self.season)
        day = len(season)
        states = np.full((len(load), 2), np.nan)
        seasons = np.empty(len(load) + day)
        for row, value in enumerate(load.tolist()):
            slot = row % day
            seasons[row] = season[slot]
            # A gap is NaN, which is not equal to itself.
            error = value - (base + slope + season[slot]) if value == value else 0.0  # noqa: PLR0124
            base += slope + self.alpha * error
            slope += self.beta * error
            season[slot] += self.gamma * error
            if row >= day - 1:
                states[row] = base, slope
        for row in range(len(load), len(seasons)):
            seasons[row] = season[row % day]
        # A slot was last corrected a day before its row, so its value is known at every row of that day.
        ahead = [seasons[h : h + len(load)] + states[:, 0] + h * states[:, 1] for h in range(1, horizon + 1)]
        return np.stack(ahead, axis=1)

    def gain(self, rows: Rows, horizon: int) -> Floats:
        """See cronhpa_models.conformal.Expectation. Correcting a slot of the season matters only a day later."""
        return np.broadcast_to(self.alpha + self.beta * np.arange(1, horizon + 1), (len(rows), horizon))

    def parameters(self) -> dict[str, Floats]:
        """See cronhpa_models.conformal.Expectation."""
        numbers = np.array([self.alpha, self.beta, self.gamma, self.base, self.slope])
        return {"numbers": numbers, "season": np.array(self.season)}

    @classmethod
    def of(cls, parameters: dict[str, Floats]) -> Additive:
        """The inverse of `parameters`."""
        alpha, beta, gamma, base, slope = parameters["numbers"].tolist()
        return cls(alpha, beta, gamma, base, slope, tuple(parameters["season"].tolist()))


def _smoothing(fitted: Floats, z: Floats, day: int) -> Additive:
    """Shares fitted to the last days, and start values for the first day of z."""
    # A slow and large import: only fits of this method need it.
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel  # noqa: PLC0415

    model = ETSModel(fitted, error="add", seasonal="add", seasonal_periods=day, initialization_method="heuristic")
    with warnings.catch_warnings():
        # The likelihood of a nearly constant load is flat: any share is good.
        warnings.simplefilter("ignore")
        estimates = dict(zip(model.param_names, model.fit(disp=False).params, strict=True))
    first = z[:day]
    return Additive(
        alpha=estimates["smoothing_level"],
        beta=0.0,
        gamma=estimates["smoothing_seasonal"],
        base=float(first.mean()),
        slope=0.0,
        season=tuple(first - first.mean()),
    )
