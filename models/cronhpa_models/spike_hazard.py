"""
Spike hazard: the probability that pods are too few in a given minute, from earlier minutes with too few pods.

A spike is a run of minutes in which the load exceeded the capacity of the pods.

Card
  What for   Spikes at roughly regular times: hourly batches that are sometimes skipped, a crawl about every two hours,
             an opening. Other methods forecast steps of five minutes, this one single minutes.
  Formula    Logistic regression, P(spike in minute t) = 1 / (1 + exp(-b' x)), ridge, a day counting half after ten.
             x, from the loads up to some minutes before t, is how often there was a spike
             days       at the same clock of the last eight days, within 0, 1, 4, 12 and 30 minutes
             hours      at the same minute of the last 48 hours, of the last 96 half hours, of the last 144 tens
             beside     at the same minute of hours and half hours close to the same clock of the last week
             gaps       at the present distance from the last spike, and from the one before it
             newest     within three hours, a day; and the time since the last two spikes
             and the changes of the load in the last half hour, and the load at the same clock of the last week.
             All as logarithms, so that the regression multiplies probabilities.
             Height: the loads of the minutes of earlier spikes, weighted by exp(-d / 30 min) and less steep terms of
             the distance d between the clocks, with a half-life of five days.
  Source     Discrete-time hazards: Cox (1972), Allison (1982). Sampling the minutes without a spike: King & Zeng
             (2001).
  Cost       printed by `make bench`.
  Scores     docs/engineering/forecasting.md.
  Weak at    Spikes that never came before. No fit with fewer than four minutes of spikes, or two days.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cronhpa_models.method import Floats, Rows
from cronhpa_models.spike_features import DAY, DAYS, Flags, Minutes, SpikeHistory, SpikeOrigins, features

_SPIKE_MINUTES_MIN = 4
_FITTED_MIN = 2 * DAY
# The fit samples this many of the minutes without a spike; each has the weight of several.
_QUIET = 1500
_RIDGE = 100.0
_HALF_LIFE_DAYS = 10.0
_SPIKE_HALF_LIFE_DAYS = 5.0
_CLIP = 6.0
_ROUNDS = 25
# With a thousand earlier spikes, the intermediate arrays of more origins would not fit a cache.
_ORIGINS_AT_ONCE = 64
_SMALL = 1e-4
# Of an encoded fit: lead, features, minutes; rate, offset, level.
_HEAD = struct.Struct("<IHHddd")
# By minutes between two clocks: spikes of the same half hour predict the height best, other spikes a little.
_HOURS_APART = np.minimum(np.arange(DAY), DAY - np.arange(DAY)) / 60
_CLOSE = np.exp(-_HOURS_APART / 0.5) + 0.05 * np.exp(-_HOURS_APART / 4) + 0.005


@dataclass(frozen=True)
class Spikes:
    """The probability of a spike after each origin, and the distribution of its height."""

    chance: Floats
    """(origins,), P(load > capacity of the pods in the minute `lead` after the origin)."""
    at: Rows
    """(likely,), the origins with a chance that is high enough to compute heights."""
    load: Floats
    """
    (spikes,) or (likely, spikes), rising, the loads of the minutes of earlier spikes, with leading zeros if other
    origins have more of them.
    """
    cdf: Floats
    """
    (likely, spikes), P(height <= load | height > the origin's `enough`); zero throughout if no earlier spike was
    higher.
    """


@dataclass(frozen=True)
class FittedHazard:
    """The hazard of one load, by the minute."""

    lead: int
    """Minutes from an origin to the minute that is forecast."""
    rate: float
    """Share of minutes with a spike."""
    offset: float
    level: float
    """`offset` is added to a load before taking its logarithm; `level` is subtracted from the logarithm."""
    mean: Floats
    scale: Floats
    """(features,)."""
    weights: Floats
    """(features + 1,), the constant last."""
    log_load: NDArray[np.floating[Any]]
    """(minutes,), the history relative to `level`, with 64 bits or as it was kept."""
    spiked: NDArray[np.integer[Any]]
    """The minutes of the history with a spike, rising."""

    @property
    def minutes(self) -> int:
        """Minutes of the history, at most eight days."""
        return len(self.log_load)

    def spikes(self, later: Floats, exceeded: Flags, origins: Minutes, enough: Floats) -> Spikes:
        """
        The spikes `lead` minutes after each origin, from the loads before it.

        later, exceeded: (minutes,), the loads since the fit, without gaps, and whether pods were too few. origins:
        minutes since the fit; at 3, three of `later` are known. enough: (origins,), the load that the pods without a
        forecast carry.
        """
        return spikes([self], [later], [exceeded], [origins], enough)

    def chance(self, later: Floats, exceeded: Flags, origins: Minutes) -> Floats:
        """(origins,): the probability of a spike alone, see `spikes`."""
        return _chances([self], [later], [exceeded], [origins])

    def encode(self) -> bytes:
        """Plain numbers; loads with 11 bits, 0.05 % of a logarithm."""
        head = _HEAD.pack(self.lead, len(self.mean), self.minutes, self.rate, self.offset, self.level)
        numbers = np.concatenate([self.mean, self.scale, self.weights]).astype("<f8").tobytes()
        return head + numbers + self.log_load.astype("<f2").tobytes() + self.spiked.astype("<u2").tobytes()


def spikes(
    several: Sequence[FittedHazard],
    later: Sequence[Floats],
    exceeded: Sequence[Flags],
    origins: Sequence[Minutes],
    enough: Floats,
    unlikely: float | Floats = -1.0,
) -> Spikes:
    """
    FittedHazard.spikes of each fit, equal to the last bit, in one pass over all origins, concatenated.

    enough: (all origins,). unlikely: chances up to which no heights are computed, one for all origins or one for each.
    BLAS sums nothing over an origin's samples, because its rounding depends on the number of origins.
    """
    chance = _chances(several, later, exceeded, origins)
    likely = np.flatnonzero(chance > unlikely)
    owner = _owners(origins)[likely]
    # Only for fits with a likely spike.
    members, owner = np.unique(owner, return_inverse=True)
    at = np.concatenate([fitted.minutes + of + fitted.lead for fitted, of in zip(several, origins, strict=True)])
    load, cdf = _heights([several[number] for number in members], owner, at[likely], enough[likely])
    return Spikes(chance, likely, load, cdf)


def _heights(several: Sequence[FittedHazard], owner: Minutes, at: Minutes, enough: Floats) -> tuple[Floats, Floats]:
    """load and cdf of `Spikes`, for the minutes `at` of the fits `owner`."""
    counts = [len(fitted.spiked) for fitted in several]
    most = max(counts, default=0)
    number = np.arange(len(several)).repeat(counts)
    load, clock, by_age = (np.zeros((len(several), most), kind) for kind in (np.float64, np.int64, np.float64))
    if several:
        log_loads = np.concatenate([fitted.log_load[fitted.spiked] for fitted in several])
        of_history = np.array([fitted.minutes for fitted in several])[number]
        loads = _loads(several, number, log_loads)
        minutes = np.concatenate([fitted.spiked for fitted in several]).astype(np.int64)
        # By fit, then by load; the last ones of a row.
        order = np.lexsort((loads, number))
        place = (number, np.concatenate([np.arange(most - count, most) for count in counts]))
        load[place], clock[place] = loads[order], minutes[order]
        by_age[place] = 0.5 ** ((of_history - minutes[order]) / DAY / _SPIKE_HALF_LIFE_DAYS)
    if len(several) == 1:
        load, clock, by_age = load[0], clock[0], by_age[0]
    else:
        load, clock, by_age = load[owner], clock[owner], by_age[owner]
    cdf = np.empty((len(at), most))
    for begin in range(0, len(at), _ORIGINS_AT_ONCE):
        rows = slice(begin, begin + _ORIGINS_AT_ONCE)
        weights = _CLOSE[((clock if clock.ndim == 1 else clock[rows]) - at[rows, None]) % DAY]
        weights *= by_age if by_age.ndim == 1 else by_age[rows]
        weights *= (load if load.ndim == 1 else load[rows]) > enough[rows, None]
        np.cumsum(weights, axis=1, out=cdf[rows])
    cdf /= np.maximum(cdf[:, -1:], 1e-12)
    return np.asarray(load, dtype=np.float64), cdf


def _chances(
    several: Sequence[FittedHazard], later: Sequence[Floats], exceeded: Sequence[Flags], origins: Sequence[Minutes]
) -> Floats:
    """(all origins,): the probability of a spike."""
    counts = [len(since) for since in later]
    level, offset = np.array([(fitted.level, fitted.offset) for fitted in several]).repeat(counts, axis=0).T
    since = np.split(np.log(np.concatenate(later) + offset) - level, np.cumsum(counts)[:-1])
    history = SpikeHistory(
        [fitted.log_load for fitted in several],
        [fitted.spiked for fitted in several],
        [fitted.rate for fitted in several],
        list(zip(since, exceeded, strict=True)),
    )
    owner = _owners(origins)
    of_fit = np.concatenate([fitted.minutes + of for fitted, of in zip(several, origins, strict=True)])
    leads = np.array([fitted.lead for fitted in several])
    mean, scale, weights = (
        np.stack([getattr(fitted, name) for fitted in several])[owner] for name in ("mean", "scale", "weights")
    )
    x = _scaled(features(history, SpikeOrigins(owner, of_fit, of_fit + leads[owner])), mean, scale)
    return _sigmoid(np.einsum("nf,nf->n", x, weights))


def newest_loads(several: Sequence[FittedHazard], counts: Sequence[int]) -> list[Floats]:
    """The loads of the last `counts` minutes of each history."""
    number = np.arange(len(several)).repeat(counts)
    log_load = np.concatenate(
        [fitted.log_load[fitted.minutes - count :] for fitted, count in zip(several, counts, strict=True)]
    )
    return np.split(_loads(several, number, log_load), np.cumsum(counts)[:-1])


def _loads(several: Sequence[FittedHazard], number: Minutes, log_load: NDArray[np.floating[Any]]) -> Floats:
    """The loads from stored logarithms; number: the fit of each."""
    level, offset = np.array([(fitted.level, fitted.offset) for fitted in several])[number].T
    return np.asarray(np.maximum(np.exp(log_load.astype(np.float64) + level) - offset, 0.0))


def _owners(origins: Sequence[Minutes]) -> Minutes:
    """(all origins,): the number of each origin's fit."""
    return np.repeat(np.arange(len(origins)), [len(of_fit) for of_fit in origins])


def fit(load: Floats, exceeded: Flags, *, lead: int) -> FittedHazard | None:
    """
    A fit to single minutes, at most those of the last eight days. None with too few minutes or spikes.

    load: (minutes,), no gaps. exceeded: (minutes,), whether pods were too few. lead: minutes from an origin to the
    minute that is forecast.
    """
    load, exceeded = load[-DAYS * DAY :], exceeded[-DAYS * DAY :]
    # The first day has no features, because there is no day before it.
    origins = np.arange(DAY, len(load) - lead)
    happened = exceeded[origins + lead] if len(origins) >= _FITTED_MIN - DAY else np.zeros(0, bool)
    # The regression needs minutes of both kinds; a load that always grows has spikes in every minute.
    if min(happened.sum(), (~happened).sum()) < _SPIKE_MINUTES_MIN:
        return None
    offset = 0.05 * float(load.mean()) + 1e-9
    log_load = np.log(load + offset)
    level = float(log_load.mean())
    rate = float(exceeded.mean())
    spiked = np.flatnonzero(exceeded)
    history = SpikeHistory([log_load - level], [spiked], [rate])
    loud, quiet = origins[happened], origins[~happened]
    taken = min(len(quiet), _QUIET)
    chosen = np.concatenate([loud, np.random.default_rng(0).choice(quiet, taken, replace=False)])
    weight = np.concatenate([np.ones(len(loud)), np.full(taken, len(quiet) / max(taken, 1))])
    weight *= 0.5 ** ((len(load) - chosen) / DAY / _HALF_LIFE_DAYS)
    x = features(history, SpikeOrigins(np.zeros(len(chosen), np.int64), chosen, chosen + lead))
    mean, scale, weights = _logistic(x, np.arange(len(chosen)) < len(loud), weight)
    return FittedHazard(lead, rate, offset, level, mean, scale, weights, log_load - level, spiked)


def decode(state: bytes | memoryview) -> FittedHazard:
    """The fit that FittedHazard.encode wrote."""
    lead, features, minutes, rate, offset, level = _HEAD.unpack_from(state)
    numbers = np.frombuffer(state, "<f8", 3 * features + 1, _HEAD.size)
    mean, scale, weights = numbers[:features], numbers[features : 2 * features], numbers[2 * features :]
    log_load = np.frombuffer(state, "<f2", minutes, _HEAD.size + numbers.nbytes)
    spiked = np.frombuffer(state, "<u2", offset=_HEAD.size + numbers.nbytes + log_load.nbytes)
    return FittedHazard(lead, rate, offset, level, mean, scale, weights, log_load, spiked)


def _scaled(x: Floats, mean: Floats, scale: Floats) -> Floats:
    """Standardized features, limited to six deviations, with a constant at the end."""
    return np.column_stack([np.clip((x - mean) / scale, -_CLIP, _CLIP), np.ones(len(x))])


def _sigmoid(value: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(value, -30, 30))))


def _logistic(x: Floats, y: Flags, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """(mean, scale, weights) of ridge logistic regression: Newton's method, steps halved until the loss falls."""
    mean = weight @ x / weight.sum()
    scale = np.sqrt(weight @ (x - mean) ** 2 / weight.sum()) + 1e-6
    z = _scaled(x, mean, scale)
    penalty = np.full(z.shape[1], _RIDGE)
    penalty[-1] = 1e-6
    b = np.zeros(z.shape[1])
    share = float(weight @ y / weight.sum())
    b[-1] = np.log(share / (1 - share))

    def loss(b: Floats) -> float:
        value = z @ b
        return float(weight @ (np.logaddexp(0, value) - y * value) + 0.5 * penalty @ b**2)

    lowest = loss(b)
    for _ in range(_ROUNDS):
        p = _sigmoid(z @ b)
        slope = z.T @ (weight * (y - p)) - penalty * b
        curve = weight * np.maximum(p * (1 - p), 1e-6)
        step = np.linalg.solve((z * curve[:, None]).T @ z + np.diag(penalty), slope)
        part = 1.0
        while (stepped := loss(b + part * step)) > lowest - _SMALL * part * (slope @ step) and part > _SMALL:
            part /= 2
        b = b + part * step
        if lowest - stepped < _SMALL * abs(lowest):
            break
        lowest = stepped
    return mean, scale, b
