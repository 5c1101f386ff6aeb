"""
Rolling conformal quantiles: the past errors of a point forecast make its predictive distribution.

Card
  What for   A calibrated forecast from any point forecast.
  Formula    z = log(load + c), c = 5 % of the mean load, so that nights at zero have a logarithm.
             quantile = largest expected z + margin[level] * scale[t]
             error = largest z of the next steps - largest expected z of the next steps
             scale = 0.5 x mean error at this clock on earlier days (neighbours of one step pooled, half-life 5 days)
                   + 0.5 x recent mean error (half-life 6 steps)
                   + 0.1 x overall mean error, so that a quiet hour cannot make the scale zero.
             margin: the quantile of error / scale over the last seven days, of errors whose outcome is known, renewed
             eight times a day.
             Between two steps (whole_steps): the expectation as of the newest whole step and as of the step under way,
             each corrected by the newest load with the gain that the point forecast has for the load of a row.
  Source     Split conformal: Lei et al. (2018), JASA 113(523), section 2, its finite-sample rank, one-sided. Scaled
             residuals: section 5.2 of the same. Rolling, as errors in time are not exchangeable: Xu & Xie (2021),
             "Conformal prediction interval for dynamic time-series".
  Cost       The point forecast, and one pass over the stored history for any number of origins.
  Weak at    Coverage holds over days, not in each hour. A jump that never happened is in none of the errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cronhpa_models import state
from cronhpa_models.exponential_mean import exponential_mean
from cronhpa_models.method import Distribution, Floats, Origins, Rows, largest_ahead, shifted
from cronhpa_models.whole_steps import LEVELS, mixed, split

DAYS_KEPT = 28

_CALIBRATION_DAYS = 7
_RENEWALS_PER_DAY = 8
_CLOCK_HALF_LIFE_DAYS = 5
_RECENT_SHARE = 1 - 0.5 ** (1 / 6)
# With fewer errors, two or three of them would determine the 0.95 quantile.
_ERRORS_MIN = 50
# A load is extrapolated for at most this many steps.
_UNSEEN_STEPS_MAX = 3
# Avoids 0 / 0 for a constant load.
_TINY = 1e-12
# Keeps exponentials finite; callers limit quantiles by a ceiling of their own.
_LOG_MAX = 700.0


class Expectation(Protocol):
    """A point forecast of the logarithms of the next steps at each row, from the rows up to it."""

    def __call__(self, z: Floats, horizon: int, /) -> Floats:
        """(rows,) to (rows, horizon), NaN where nothing is expected. The first rows are those of the fit."""

    def gain(self, rows: Rows, horizon: int, /) -> Floats:
        """(n, horizon): the derivative of the expectations at each row by the z of that row."""

    def parameters(self) -> dict[str, Floats]:
        """The fitted parameters, to be encoded."""


@dataclass(frozen=True)
class Calibrated:
    """A point forecast and the history of its errors, see cronhpa_models.method.Fitted."""

    load: Floats
    offset: float
    """Added to a load before taking its logarithm."""
    steps_per_day: int
    windows: tuple[int, ...]
    expect: Expectation
    """Gives at least one step more than the longest window."""

    def distribution(self, later: Floats, origins: Origins, windows: int | None = None) -> Distribution:
        """See cronhpa_models.method.Fitted."""
        reaches = self.windows[:windows]
        whole, part = split(origins.position)
        # Up to the current step and the next one: their loads are unknown, but those at the same clock of earlier days
        # are known.
        z = np.full(max(len(self.load) + len(later), int(whole.max()) + 1) + 2, np.nan)
        z[: len(self.load) + len(later)] = np.log(np.concatenate([self.load, later]) + self.offset)
        observed = held(z, _UNSEEN_STEPS_MAX)
        horizon = reaches[-1]
        expected = np.where(np.isnan(observed)[:, None], np.nan, self.expect(observed, horizon + 1))
        errors = largest_ahead(z, horizon) - np.maximum.accumulate(expected[:, :-1], axis=1)
        ended, under_way = self._corrected(expected[whole], observed[whole], origins.recent[:, 0], whole, part)
        loads = []
        for reach in reaches:
            margins, scales = self._scaled(errors[:, reach - 1], reach, whole)
            for largest, scale in zip((ended, under_way), scales, strict=True):
                upper = largest[:, reach - 1, None] + margins * scale[:, None]
                loads.append(np.exp(np.minimum(upper, _LOG_MAX)) - self.offset)
        return mixed(np.stack(loads[::2]), np.stack(loads[1::2]), part)

    def encode(self) -> bytes:
        """Loads with 24 bits, an error of 1e-7; the parameters of the point forecast in full."""
        head = {"offset": self.offset, "steps_per_day": self.steps_per_day, "windows": self.windows}
        return state.pack(head, {"load": self.load.astype("<f4"), **self.expect.parameters()})

    def _corrected(
        self, expected: Floats, observed: Floats, newest: Floats, whole: Rows, part: Floats
    ) -> tuple[Floats, Floats]:
        """
        (origins, horizon) twice: the largest expected z of the next steps, as of the newest whole step of each origin
        and as of the step under way, both corrected by the newest load.

        expected: (origins, horizon + 1), as of the newest whole step. observed: (origins,), its z.
        """
        horizon = expected.shape[1] - 1
        now = np.where(part > 0, np.log(newest + self.offset), np.nan)[:, None]
        gain, next_gain = self.expect.gain(whole, horizon), self.expect.gain(whole + 1, horizon)
        ended = expected[:, :-1] + gain * np.nan_to_num(now - observed[:, None])
        under_way = expected[:, 1:] + next_gain * np.nan_to_num(now - expected[:, :1])
        return np.maximum.accumulate(ended, axis=1), np.maximum.accumulate(under_way, axis=1)

    def _scaled(self, errors: Floats, ahead: int, whole: Rows) -> tuple[Floats, tuple[Floats, Floats]]:
        """
        ((origins, LEVELS) margins in scales, (origins,) the scales of the newest whole step and the one under way).

        errors: (rows,) of a forecast `ahead` steps long, known `ahead` rows later.
        """
        day, first = self.steps_per_day, len(self.load) - 1
        size = np.abs(errors)
        # The last forecasts of the history have no outcome yet.
        known_size = size[: max(first + 1 - ahead, 0)]
        overall = float(known_size[~np.isnan(known_size)].mean()) if (~np.isnan(known_size)).any() else 0.0
        by_clock = _at_clock(size, day)
        of_late = shifted(exponential_mean(size, _RECENT_SHARE), ahead)
        usual, now = (np.where(np.isnan(mean), overall, mean) for mean in (by_clock, of_late))
        scale = 0.5 * usual + 0.5 * now + 0.1 * overall + _TINY
        under_way = 0.5 * usual[whole + 1] + 0.5 * now[whole] + 0.1 * overall + _TINY
        every = max(1, day // _RENEWALS_PER_DAY)
        renewed, place = np.unique(first + (whole - first) // every * every, return_inverse=True)
        margins = np.full((len(renewed), len(LEVELS)), np.nan)
        for number, row in enumerate(renewed.tolist()):
            past = slice(max(row + 1 - ahead - _CALIBRATION_DAYS * day, 0), max(row + 1 - ahead, 0))
            ratio = errors[past] / scale[past]
            ranked = np.sort(ratio[~np.isnan(ratio)])
            if len(ranked) >= _ERRORS_MIN:
                rank = np.ceil(LEVELS * (len(ranked) + 1) - 1e-9).astype(np.int64)
                margins[number] = ranked[np.clip(rank, 1, len(ranked)) - 1]
        return margins[place], (scale[whole], under_way)


def calibrated(load: Floats, steps_per_day: int, windows: tuple[int, ...], expect: Expectation) -> Calibrated | None:
    """A point forecast with the history to which it was fitted; None if nothing was measured."""
    offset = offset_of(load)
    return None if offset is None else Calibrated(load, offset, steps_per_day, tuple(windows), expect)


@dataclass(frozen=True)
class ConformalState:
    """The content of a state, see Calibrated."""

    load: Floats
    offset: float
    steps_per_day: int
    windows: tuple[int, ...]
    parameters: dict[str, Floats]
    """Parameters of the point forecast."""


def decoded(written: bytes, expectation: Callable[[ConformalState], Expectation]) -> Calibrated:
    """The fit that Calibrated.encode wrote. expectation: makes the point forecast from the content."""
    head, arrays = state.unpack(written)
    load = arrays.pop("load").astype(np.float64)
    content = ConformalState(load, head["offset"], head["steps_per_day"], tuple(head["windows"]), arrays)
    return Calibrated(load, content.offset, content.steps_per_day, content.windows, expectation(content))


def kept(load: Floats, steps_per_day: int, days: int = DAYS_KEPT) -> Floats:
    """The end of the history, which a fit keeps."""
    return np.asarray(load[-days * steps_per_day :], dtype=np.float64)


def offset_of(load: Floats) -> float | None:
    """The number to add to a load before taking its logarithm; None if nothing was measured."""
    measured = load[~np.isnan(load)]
    # 1e-9 for a load that was always zero.
    return max(0.05 * float(measured.mean()), 1e-9) if len(measured) else None


def filled(load: Floats) -> Floats:
    """The load without gaps: linear through them, constant before the first value and after the last."""
    at_known = np.flatnonzero(~np.isnan(load))
    return np.asarray(np.interp(np.arange(len(load)), at_known, load[at_known]), dtype=np.float64)


def held(values: Floats, limit: int) -> Floats:
    """The values, each repeated for up to `limit` rows of a gap after it."""
    rows = np.arange(len(values))
    newest = np.maximum.accumulate(np.where(np.isnan(values), -1, rows))
    return np.where((newest >= 0) & (rows - newest <= limit), values[np.maximum(newest, 0)], np.nan)


def _at_clock(size: Floats, day: int) -> Floats:
    """
    At each row the mean of earlier days at the same clock and one step beside it; NaN without earlier days.

    One step beside it, because a daily job may start a step earlier or later.
    """
    days = -(-len(size) // day)
    padded = np.full(days * day, np.nan)
    padded[len(padded) - len(size) :] = size
    totals, weights = np.zeros((days, day)), np.zeros((days, day))
    fade = 0.5 ** (1 / _CLOCK_HALF_LIFE_DAYS)
    for number, values in enumerate(padded.reshape(days, day)[:-1]):
        is_known = ~np.isnan(values)
        totals[number + 1] = totals[number] * fade + np.where(is_known, values, 0.0)
        weights[number + 1] = weights[number] * fade + is_known
    total, weight = _pooled(totals.ravel()), _pooled(weights.ravel())
    mean: Floats = np.divide(total, weight, out=np.full(len(total), np.nan), where=weight > 0)
    return mean[len(padded) - len(size) :]


def _pooled(sums: Floats) -> Floats:
    """
    Each row with the rows beside it.

    By row, not by slot of the day: beside midnight the neighbouring slot has errors that are not known yet.
    """
    pooled: Floats = sums + np.concatenate([[0.0], sums[:-1]]) + np.concatenate([sums[1:], [0.0]])
    return pooled
