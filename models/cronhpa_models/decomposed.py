"""
Decomposed: the course of the day by STL, the rest of the load by simple exponential smoothing at every step.

Card
  What for   Load with a daily pattern under noise: loess averages over days, single values would follow the noise.
  Formula    z[t+h] = season[clock of t+h] + level[t], z = log(load + c), and conformal quantiles.
             season: the last cycle of STL on the last 14 days, with jumps of m/20, m/10 and m/10 steps between loess
             fits: far faster than fitting at every point, with almost the same season.
             level: exponential mean of z - season, corrected at every step; alpha of a grid by absolute error.
             Errors of the last three days are relative to a season of the days before them: on the days that STL has
             smoothed the residuals are too small.
  Source     STL: Cleveland, Cleveland, McRae & Terpenning (1990), Journal of Official Statistics 6(1); with a method
             for the rest: Hyndman & Athanasopoulos (2021), section 5.7.
  Cost       The first fit of a process imports statsmodels, which takes seconds and tens of megabytes.
  Scores     docs/engineering/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    Jumps: loess rounds them off. Weekends are forecast as the working days before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cronhpa_models.conformal import Calibrated, calibrated, decoded, filled, kept, offset_of
from cronhpa_models.exponential_mean import level as level_of
from cronhpa_models.method import Floats, Rows, shifted

_DAYS_FITTED = 14
_DAYS_CALIBRATED = 3
# STL needs two cycles.
_DAYS_MIN = _DAYS_CALIBRATED + 2
_SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)


class Decomposed:
    """See cronhpa_models.method.Method."""

    name = "Decomposed"
    variants = ("Decomposed",)
    needs = ("statsmodels",)

    def fit(self, load: Floats, *, steps_per_day: int, windows: tuple[int, ...]) -> Calibrated | None:
        """None with fewer than five days, or if nothing was measured."""
        load = kept(load, steps_per_day, _DAYS_FITTED)
        offset = offset_of(load)
        if offset is None or len(load) < _DAYS_MIN * steps_per_day:
            return None
        z = np.log(filled(load) + offset)
        held_out = len(z) - _DAYS_CALIBRATED * steps_per_day
        earlier, season = _season(z[:held_out], steps_per_day), _season(z, steps_per_day)
        rest = z[held_out:] - np.tile(earlier, _DAYS_CALIBRATED)
        alpha = min(_SHARES, key=lambda share: _one_step_error(rest, share))
        return calibrated(load, steps_per_day, windows, _Online(held_out, len(z), earlier, season, alpha))

    def decode(self, state: bytes) -> Calibrated:
        return decoded(state, lambda stored: _Online.of(stored.parameters))


@dataclass(frozen=True)
class _Online:
    held_out: int
    fitted: int
    earlier: Floats
    season: Floats
    """
    (day,), the daily patterns for the rows from `held_out` and from `fitted` on, each beginning at the slot of its
    first row.
    """
    alpha: float

    def __call__(self, z: Floats, horizon: int) -> Floats:
        """See cronhpa_models.conformal.Expectation. NaN before the days that were held out."""
        day = len(self.season)
        out = np.full((len(z), horizon), np.nan)
        # The last row of the history is the first one that uses the new season.
        for first, last, season in (
            (self.held_out, self.fitted - 1, self.earlier),
            (self.fitted - 1, len(z), np.roll(self.season, 1)),
        ):
            # After a day of run-up the start value of the level hardly matters.
            begin = first - day
            course = season[np.arange(begin - first, len(z) - first + horizon) % day]
            level = level_of(z[begin:] - course[: len(z) - begin], self.alpha)
            ahead = [level + course[h : h + len(level)] for h in range(1, horizon + 1)]
            out[first:last] = np.stack(ahead, axis=1)[first - begin : last - begin]
        return out

    def gain(self, rows: Rows, horizon: int) -> Floats:
        """See cronhpa_models.conformal.Expectation. The level changes by the same share of each error."""
        return np.full((len(rows), horizon), self.alpha)

    def parameters(self) -> dict[str, Floats]:
        """See cronhpa_models.conformal.Expectation."""
        numbers = np.array([self.held_out, self.fitted, self.alpha], dtype=np.float64)
        return {"numbers": numbers, "earlier": self.earlier, "season": self.season}

    @classmethod
    def of(cls, parameters: dict[str, Floats]) -> _Online:
        """The inverse of `parameters`."""
        held_out, fitted, alpha = parameters["numbers"].tolist()
        return cls(int(held_out), int(fitted), parameters["earlier"], parameters["season"], alpha)


def _season(z: Floats, day: int) -> Floats:
    """(day,): the daily pattern at the end of z, beginning with the slot after it."""
    # A slow and large import: only fits of this method need it.
    from statsmodels.tsa.seasonal import STL  # noqa: PLC0415

    jumps = {"seasonal_jump": max(1, day // 20), "trend_jump": max(1, day // 10), "low_pass_jump": max(1, day // 10)}
    return np.asarray(STL(z, period=day, **jumps).fit().seasonal[-day:], dtype=np.float64)


def _one_step_error(rest: Floats, alpha: float) -> float:
    return float(np.nanmean(np.abs(rest - shifted(level_of(rest, alpha), 1))))
