"""
Rolling conformal quantiles: the past errors of a point forecast make the predictive distribution, here and only here.

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
             Between two steps (whole_steps): the expectation as of the newest whole step and as of the one under way,
             each corrected by the newest load as far as the point forecast is by the load of a row.
  Source     Split conformal: Lei et al. (2018), JASA 113(523), section 2, its finite-sample rank, one-sided. Scaled
             residuals: section 5.2 of the same. Rolling, as errors in time are not exchangeable: Xu & Xie (2021),
             "Conformal prediction interval for dynamic time-series".
  Cost       Each forecast goes through the kept history once, whatever the number of its origins: milliseconds, and as
             long as the point forecast takes.
  Weak at    A level is met over days, not in each hour. A jump that never came is in no error.
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
# Calibrated on fewer errors than this, the 0.95 quantile would rest on two or three of them.
_ERRORS_MIN = 50
# A load unseen for longer than this many steps is not extrapolated.
_UNSEEN_STEPS_MAX = 3
# Keeps a load that never moved from dividing zero by zero.
_TINY = 1e-12
# Keeps exponentials finite; whoever uses a quantile has a ceiling that makes it sane.
_LOG_MAX = 700.0


class Expectation(Protocol):
    """A point forecast of the logarithm: what is expected of the next steps at each row, from the rows up to it."""

    def __call__(self, z: Floats, horizon: int, /) -> Floats:
        """(rows,) to (rows, horizon), NaN where nothing is expected. The first rows are those of the fit."""

    def gain(self, rows: Rows, horizon: int, /) -> Floats:
        """(n, horizon): by how much the expectations at each row rise where the z of that row rises by one."""

    def parameters(self) -> dict[str, Floats]:
        """What the fit found, for a state."""


@dataclass(frozen=True)
class Calibrated:
    """
    A point forecast and the history that its errors are taken from, see cronhpa_models.method.Fitted.

    offset: what is added to a load before its logarithm is taken. expect: gives at least one step more than the longest
    window.
    """

    load: Floats
    offset: float
    steps_per_day: int
    windows: tuple[int, ...]
    expect: Expectation

    def distribution(self, later: Floats, origins: Origins, windows: int | None = None) -> Distribution:
        """See cronhpa_models.method.Fitted."""
        reaches = self.windows[:windows]
        whole, part = split(origins.position)
        # Up to the step under way and the one beside it: of their loads nothing is known, of their clocks earlier days.
        z = np.full(max(len(self.load) + len(later), int(whole.max()) + 1) + 2, np.nan)
        z[: len(self.load) + len(later)] = np.log(np.concatenate([self.load, later]) + self.offset)
        seen = held(z, _UNSEEN_STEPS_MAX)
        horizon = reaches[-1]
        expected = np.where(np.isnan(seen)[:, None], np.nan, self.expect(seen, horizon + 1))
        errors = largest_ahead(z, horizon) - np.maximum.accumulate(expected[:, :-1], axis=1)
        ended, under_way = self._corrected(expected[whole], seen[whole], origins.recent[:, 0], whole, part)
        loads = []
        for reach in reaches:
            margins, scales = self._scaled(errors[:, reach - 1], reach, whole)
            for largest, scale in zip((ended, under_way), scales, strict=True):
                upper = largest[:, reach - 1, None] + margins * scale[:, None]
                loads.append(np.exp(np.minimum(upper, _LOG_MAX)) - self.offset)
        return mixed(np.stack(loads[::2]), np.stack(loads[1::2]), part)

    def encode(self) -> bytes:
        """Loads with 24 bits, an error of 1e-7; what the point forecast found in full."""
        head = {"offset": self.offset, "steps_per_day": self.steps_per_day, "windows": self.windows}
        return state.pack(head, {"load": self.load.astype("<f4"), **self.expect.parameters()})

    def _corrected(
        self, expected: Floats, seen: Floats, newest: Floats, whole: Rows, part: Floats
    ) -> tuple[Floats, Floats]:
        """
        (origins, horizon): the largest z that is expected of the next steps, as of the newest whole step of each origin
        and as of the step under way, both knowing the newest load.

        expected: (origins, horizon + 1), as of the newest whole step. seen: (origins,), its z.
        """
        horizon = expected.shape[1] - 1
        now = np.where(part > 0, np.log(newest + self.offset), np.nan)[:, None]
        gain, next_gain = self.expect.gain(whole, horizon), self.expect.gain(whole + 1, horizon)
        ended = expected[:, :-1] + gain * np.nan_to_num(now - seen[:, None])
        under_way = expected[:, 1:] + next_gain * np.nan_to_num(now - expected[:, :1])
        return np.maximum.accumulate(ended, axis=1), np.maximum.accumulate(under_way, axis=1)

    def _scaled(self, errors: Floats, ahead: int, whole: Rows) -> tuple[Floats, tuple[Floats, Floats]]:
        """
        ((origins, LEVELS) margins in scales, (origins,) the scales of the newest whole step and the one under way).

        errors: (rows,) of a forecast `ahead` steps long, known `ahead` rows later.
        """
        day, first = self.steps_per_day, len(self.load) - 1
        size = np.abs(errors)
        # The errors of the last rows of the history have no outcome there yet.
        known = size[: max(first + 1 - ahead, 0)]
        overall = float(known[~np.isnan(known)].mean()) if (~np.isnan(known)).any() else 0.0
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
    """A point forecast with the history that it was fitted to; None where nothing was measured."""
    offset = offset_of(load)
    return None if offset is None else Calibrated(load, offset, steps_per_day, tuple(windows), expect)


@dataclass(frozen=True)
class Kept:
    """What a state holds, see Calibrated. parameters: of the point forecast."""

    load: Floats
    offset: float
    steps_per_day: int
    windows: tuple[int, ...]
    parameters: dict[str, Floats]


def decoded(written: bytes, expectation: Callable[[Kept], Expectation]) -> Calibrated:
    """The fit that Calibrated.encode wrote. expectation: makes the point forecast from what is kept."""
    head, arrays = state.unpack(written)
    load = arrays.pop("load").astype(np.float64)
    found = Kept(load, head["offset"], head["steps_per_day"], tuple(head["windows"]), arrays)
    return Calibrated(load, found.offset, found.steps_per_day, found.windows, expectation(found))


def kept(load: Floats, steps_per_day: int, days: int = DAYS_KEPT) -> Floats:
    """The history that a fit keeps."""
    return np.asarray(load[-days * steps_per_day :], dtype=np.float64)


def offset_of(load: Floats) -> float | None:
    """What is added to a load before its logarithm is taken; None where nothing was measured."""
    known = load[~np.isnan(load)]
    # 1e-9 stands in where nothing was ever measured above zero.
    return max(0.05 * float(known.mean()), 1e-9) if len(known) else None


def filled(load: Floats) -> Floats:
    """Without gaps: linear through them, level before the first value and behind the last."""
    known = np.flatnonzero(~np.isnan(load))
    return np.asarray(np.interp(np.arange(len(load)), known, load[known]), dtype=np.float64)


def held(values: Floats, limit: int) -> Floats:
    """Values that stand for a gap of so many rows after them."""
    rows = np.arange(len(values))
    newest = np.maximum.accumulate(np.where(np.isnan(values), -1, rows))
    return np.where((newest >= 0) & (rows - newest <= limit), values[np.maximum(newest, 0)], np.nan)


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
