"""
Rolling conformal quantiles: how far a point forecast was off makes the quantiles of what comes, here and only here.

Card
  What for   To make a calibrated forecast of any expectation, whatever it rests on.
  Formula    z = log(load + c), c = 5 % of the mean load, so that nights at zero have a logarithm.
             quantile = largest expected z + margin[level] * scale[t]
             error: largest z of the next steps - the largest that was expected of them.
             scale: half the mean error at this clock on earlier days (neighbours of one step pooled, half-life 5 days),
             half the mean error of late (half-life 6 steps), plus a tenth of the overall error, so that a quiet hour
             cannot make it zero.
             margin: the quantile of error / scale over the seven days before, of those errors whose outcome was known,
             renewed eight times a day.
  Source     Split conformal: Lei et al. (2018), JASA 113(523), section 2, its finite-sample rank, one-sided. Scaled
             residuals: section 5.2 of the same. Rolling, as errors in time are not exchangeable: Xu & Xie (2021),
             "Conformal prediction interval for dynamic time-series".
  Weak at    A level is met over days, not in each hour. A jump that never came is in no error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from pandas import Series

from cronhpa_models.method import Floats, Quantiles, joined, largest_ahead, shifted, stated, steps_per_day

if TYPE_CHECKING:
    from collections.abc import Sequence

_CALIBRATION_DAYS = 7
_RENEWALS_PER_DAY = 8
_CLOCK_HALF_LIFE_DAYS = 5
_RECENT_HALF_LIFE_STEPS = 6
# Calibrated on fewer errors than this, the 0.95 quantile would rest on two or three of them.
_ERRORS_MIN = 50
# A load unseen for longer than this many steps is not extrapolated.
_UNSEEN_STEPS_MAX = 3
# Keeps a load that never moved from dividing zero by zero.
_TINY = 1e-12
# Keeps exponentials finite; whoever uses a quantile has a ceiling that makes it sane.
_LOG_MAX = 700.0


class Expectation(Protocol):
    """A point forecast: what is expected of the next steps at each row, from that row and those before it."""

    def __call__(self, z: Floats, horizon: int, /) -> Floats:
        """(rows,) to (rows, horizon), NaN where nothing is expected. The first rows are those of the fit."""


@dataclass(frozen=True)
class Calibrated:
    """A point forecast of the logarithm, and the history that its errors are taken from."""

    history: Series[float]
    offset: float
    horizon: int
    expect: Expectation

    def quantiles(self, later: Series[float], levels: Sequence[float]) -> Quantiles:
        """See cronhpa_models.method.Fitted."""
        z = np.log(joined(self.history, later) + self.offset)
        first = len(self.history) - 1
        day = steps_per_day(self.history.index)
        # What was seen last stands for a short gap; outcomes are never made up.
        seen = np.asarray(Series(z).ffill(limit=_UNSEEN_STEPS_MAX), dtype=np.float64)
        expected = np.where(np.isnan(seen)[:, None], np.nan, self.expect(seen, self.horizon))
        expected = np.maximum.accumulate(expected, axis=1)
        errors = largest_ahead(z, self.horizon) - expected
        load = np.stack(
            [
                _upper(expected[first:, ahead], *_scaled(errors[:, ahead], ahead + 1, day, first), levels, day)
                for ahead in range(self.horizon)
            ],
            axis=2,
        )
        return stated(self.history, later, levels, np.exp(np.minimum(load, _LOG_MAX)) - self.offset)


def offset_of(history: Series[float]) -> float | None:
    """What is added to a load before its logarithm is taken; None where nothing was measured."""
    mean = float(history.mean())
    # 1e-9 stands in where nothing was ever measured above zero.
    return None if np.isnan(mean) else max(0.05 * mean, 1e-9)


def _scaled(errors: Floats, ahead: int, day: int, first: int) -> tuple[Floats, Floats]:
    """
    (errors over their scale that were known at each origin: (origins, of seven days), scale at each origin).

    errors: (rows,) of a forecast `ahead` steps long, known `ahead` rows later. Origins are the rows from `first` on.
    """
    size = np.abs(errors)
    # The errors of the last rows before the first origin have no outcome yet.
    known = size[: max(first + 1 - ahead, 0)]
    overall = float(known[~np.isnan(known)].mean()) if (~np.isnan(known)).any() else 0.0
    clock = _at_clock(size, day)
    recent = shifted(Series(size).ewm(halflife=_RECENT_HALF_LIFE_STEPS).mean().to_numpy(), ahead)
    usual, now = np.where(np.isnan(clock), overall, clock), np.where(np.isnan(recent), overall, recent)
    scale = 0.5 * usual + 0.5 * now + 0.1 * overall + _TINY
    past = np.concatenate([np.full(_CALIBRATION_DAYS * day + ahead, np.nan), errors / scale])
    windows = np.lib.stride_tricks.sliding_window_view(past, _CALIBRATION_DAYS * day)
    # Row r of `windows` ends before errors[r - ahead]; at r it is errors[r - ahead] that has just become known.
    return windows[first + 1 : len(errors) + 1], scale[first:]


def _upper(expected: Floats, windows: Floats, scale: Floats, levels: Sequence[float], day: int) -> Floats:
    """(levels, origins): the expectation and so many scales above it as covered each level of the errors before."""
    margins = np.full((len(levels), len(expected)), np.nan)
    every = max(1, day // _RENEWALS_PER_DAY)
    for begin in range(0, len(expected), every):
        window = windows[begin]
        ranked = np.sort(window[~np.isnan(window)])
        if len(ranked) < _ERRORS_MIN:
            continue
        for i, level in enumerate(levels):
            rank = int(np.ceil(level * (len(ranked) + 1) - 1e-9))
            margins[i, begin : begin + every] = ranked[min(max(rank, 1), len(ranked)) - 1]
    return expected + margins * scale


def _at_clock(size: Floats, day: int) -> Floats:
    """
    At each row the mean of earlier days at the same clock and one step beside it; NaN where there is none.

    A job that starts a step earlier or later is still the same job.
    """
    days = -(-len(size) // day)
    padded = np.full(days * day, np.nan)
    padded[len(padded) - len(size) :] = size
    totals, weights = np.zeros((days, day)), np.zeros((days, day))
    fade = 0.5 ** (1 / _CLOCK_HALF_LIFE_DAYS)
    for number, values in enumerate(padded.reshape(days, day)[:-1]):
        known = ~np.isnan(values)
        totals[number + 1] = totals[number] * fade + np.where(known, values, 0.0)
        weights[number + 1] = weights[number] * fade + known
    total, weight = _pooled(totals.ravel()), _pooled(weights.ravel())
    mean: Floats = np.divide(total, weight, out=np.full(len(total), np.nan), where=weight > 0)
    return mean[len(padded) - len(size) :]


def _pooled(sums: Floats) -> Floats:
    """
    Each row with the rows beside it.

    By row, not by slot of the day: beside midnight lies the day before, whose own errors may not be known yet.
    """
    pooled: Floats = sums + np.concatenate([[0.0], sums[:-1]]) + np.concatenate([sums[1:], [0.0]])
    return pooled
