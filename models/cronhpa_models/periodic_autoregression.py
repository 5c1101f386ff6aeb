"""
Periodic autoregression: the usual daily pattern, plus the part of today's deviation from it that usually lasts.

Card
  What for   Load with a daily rhythm. The forecast follows the level at times of day at which deviations last, and
             ignores it at others: before a job at 06:00 each day, 06:05 depends on yesterday, not on 05:55.
             Useless, though calibrated, without rhythm and memory (news bursts, request noise).
  Formula    z = log(load + c), and conformal quantiles:
             z[t+h] = profile[t+h] + persistence[clock(t), h] * level(z - profile)[t]
             profile: mean of z at the same clock of earlier days, a day counting half as much every 4 days.
             persistence: least squares at the same clock (neighbours of one step pooled, half-life 7 days), shrunk
             towards the value for the whole day with the weight of one average slot.
             level: the last deviation, or its exponential mean (0.5); the one with the smaller error in the history.
             Each past day is forecast from the days before it only.
  Source     Periodic models: Pagano (1978), Annals of Statistics 6(6); Franses & Paap (2004), Periodic Time Series
             Models.
  Cost       docs/engineering/forecasting.md. Decoding a fit forecasts its days again: half of the work of fitting.
  Scores     docs/engineering/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    Clocks are UTC: a load that follows local time is an hour off for some days after a clock change.
             Weekends differ from weekdays by the deviation only. A first occurrence is never predicted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cronhpa_models.conformal import Calibrated, calibrated, decoded, kept, offset_of
from cronhpa_models.exponential_mean import exponential_mean
from cronhpa_models.method import Floats, Rows

_PROFILE_HALF_LIFE_DAYS = 4
_PERSISTENCE_HALF_LIFE_DAYS = 7
_SMOOTHINGS = (1.0, 0.5)
# A larger persistence would let a deviation explode over a day; slightly above one a deviation can grow, as in a ramp.
_PERSISTENCE_MAX = 1.2


class PeriodicAutoregression:
    """See cronhpa_models.method.Method."""

    name = "PeriodicAutoregression"
    variants = ("PeriodicAutoregression",)
    needs = ()

    def fit(self, load: Floats, *, steps_per_day: int, windows: tuple[int, ...]) -> Calibrated | None:
        """None with fewer than two days, or if nothing was measured."""
        load = kept(load, steps_per_day)
        offset = offset_of(load)
        if offset is None or len(load) < 2 * steps_per_day:
            return None
        z = np.log(load + offset)
        rolled = [_roll(z, smoothing, windows[-1] + 1, steps_per_day) for smoothing in _SMOOTHINGS]
        return calibrated(load, steps_per_day, windows, min(rolled, key=lambda fitted: fitted.error))

    def decode(self, state: bytes) -> Calibrated:
        """Forecasts the stored days again with the fitted smoothing: storing the result would take far more space."""
        return decoded(
            state,
            lambda stored: _roll(
                np.log(stored.load + stored.offset),
                float(stored.parameters["smoothing"]),
                stored.windows[-1] + 1,
                stored.steps_per_day,
            ),
        )


@dataclass(frozen=True)
class _Rolled:
    """Past days, each forecast from the days before it, and the parameters for the day after the last one."""

    expected: Floats
    """(rows, horizon). rows: the history, with `unused` rows added at its front to fill whole days."""
    deviations: Floats
    """(rows,), from the profile."""
    unused: int
    smoothing: float
    error: float
    """Mean error one step ahead."""
    profile: Floats
    """(day,), of the next day."""
    persistence: Floats
    """(day, horizon), of the next day."""

    def __call__(self, z: Floats, horizon: int) -> Floats:
        """See cronhpa_models.conformal.Expectation."""
        day = len(self.profile)
        fitted = len(self.deviations) - self.unused
        # The last row of the history is the first one whose forecasts use the next day's parameters.
        slot = np.arange(-1, len(z) - fitted) % day
        came = z[fitted:] - self.profile[slot[1:]]
        level = _level(np.concatenate([self.deviations[self.unused :], came]), self.smoothing)[fitted - 1 :]
        ahead = (slot[:, None] + 1 + np.arange(horizon)) % day
        coming = self.profile[ahead] + self.persistence[slot, :horizon] * level[:, None]
        return np.concatenate([self.expected[self.unused : -1, :horizon], coming])

    def gain(self, rows: Rows, horizon: int) -> Floats:
        """See cronhpa_models.conformal.Expectation. The level changes by a share of the newest deviation."""
        fitted = len(self.deviations) - self.unused
        slot = (rows - fitted) % len(self.profile)
        return self.smoothing * self.persistence[slot, :horizon]

    def parameters(self) -> dict[str, Floats]:
        """See cronhpa_models.conformal.Expectation."""
        return {"smoothing": np.array(self.smoothing)}


def _roll(history: Floats, smoothing: float, horizon: int, slots: int) -> _Rolled:
    """One pass over the days of the history, `slots` rows each; a day is forecast before it updates the parameters."""
    days = -(-len(history) // slots)
    # Days end where the history ends, at any clock, so that all of the newest day is used.
    unused = days * slots - len(history)
    z = np.concatenate([np.full(unused, np.nan), history]).reshape(days, slots)
    target = (np.arange(slots)[:, None] + 1 + np.arange(horizon)) % slots
    # Outcomes that are not known at the first forecast of the next day.
    is_late = np.arange(slots)[:, None] + 1 + np.arange(horizon) > slots
    padded = np.concatenate([z.ravel(), np.full(horizon, np.nan)])
    outcome = np.lib.stride_tricks.sliding_window_view(padded, horizon)[1:].reshape(days, slots, horizon)
    profiles = _profiles(z)
    deviations = z - profiles[:-1]
    level = _level(deviations.ravel(), smoothing).reshape(days, slots)
    square, product = np.zeros((slots, horizon)), np.zeros((slots, horizon))
    expected = np.full((days, slots, horizon), np.nan)
    for day in range(days):
        deviation = level[day][:, None]
        expected[day] = profiles[day][target] + _persistence(square, product) * deviation
        wanted = np.where(is_late, np.nan, outcome[day] - profiles[day][target])
        square = _fade(square, np.where(np.isnan(wanted), np.nan, deviation**2), _PERSISTENCE_HALF_LIFE_DAYS)
        product = _fade(product, deviation * wanted, _PERSISTENCE_HALF_LIFE_DAYS)
    size = np.abs(outcome - expected)[:, :, 0]
    measured = size[~np.isnan(size)]
    return _Rolled(
        expected=expected.reshape(-1, horizon),
        deviations=deviations.ravel(),
        unused=unused,
        smoothing=smoothing,
        error=float(measured.mean()) if measured.size else float("inf"),
        profile=profiles[-1],
        persistence=_persistence(square, product),
    )


def _profiles(z: Floats) -> Floats:
    """(days + 1, slots): the profile for each day, from the days before it."""
    days, slots = z.shape
    total, weight = np.zeros(slots), np.zeros(slots)
    profiles = np.full((days + 1, slots), np.nan)
    for day in range(days + 1):
        profiles[day] = np.divide(total, weight, out=np.full(slots, np.nan), where=weight > 0)
        if day < days:
            total = _fade(total, z[day], _PROFILE_HALF_LIFE_DAYS)
            weight = _fade(weight, ~np.isnan(z[day]) * 1.0, _PROFILE_HALF_LIFE_DAYS)
    return profiles


def _persistence(square: Floats, product: Floats) -> Floats:
    """(slots, horizon): the share of a deviation that lasts; one while nothing is known."""
    all_square = square.sum(axis=0)
    whole_day = np.where(all_square > 0, product.sum(axis=0) / np.maximum(all_square, 1e-300), 1.0)
    prior = all_square / len(square)
    pooled = _pooled(square) + prior
    share = np.where(pooled > 0, (_pooled(product) + prior * whole_day) / np.maximum(pooled, 1e-300), whole_day)
    return np.clip(share, 0.0, _PERSISTENCE_MAX)


def _pooled(sums: Floats) -> Floats:
    """Each slot summed with its neighbours: a job may start a step earlier or later."""
    pooled: Floats = sums + np.roll(sums, 1, axis=0) + np.roll(sums, -1, axis=0)
    return pooled


def _level(deviations: Floats, smoothing: float) -> Floats:
    """The exponential mean at each row; NaN for a row that was not measured."""
    level = exponential_mean(deviations, smoothing)
    return np.where(np.isnan(deviations), np.nan, level)


def _fade(total: Floats, new: Floats, half_life_days: float) -> Floats:
    """A running sum over days with this half-life; an unknown value adds nothing."""
    faded: Floats = total * 0.5 ** (1 / half_life_days) + np.nan_to_num(new)
    return faded
