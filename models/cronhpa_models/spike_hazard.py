"""
Spike hazard: the probability that pods are too few in a given minute, by when they were too few before.

A spike is a run of minutes in which the load exceeded what the pods could carry.

Card
  What for   Spikes that keep to a clock, though not strictly: batches on the hour that are now and then left out, a
             crawl every two hours or so, an opening. A forecast by the step is ready for five minutes, this for one.
  Formula    Logistic regression, P(spike in minute t) = 1 / (1 + exp(-b' x)), ridge, a day counting half after ten.
             x, from what is known some minutes before t, is how often there was a spike
             days       at the same clock of the last eight days, within 0, 1, 4, 12 and 30 minutes
             hours      at the same minute of the last 48 hours, of the last 96 half hours, of the last 144 tens
             beside     at the same minute of hours and half hours close to the same clock of the last week
             gaps       so long after the last spike, and after the one before it, as the gaps between spikes were
             newest     within three hours, a day; how long ago the last two were
             and how the load of the last half hour moves, and the load at the same clock of the last week.
             All as logarithms, so that the regression multiplies probabilities.
             How high: the loads of the minutes of earlier spikes, weighted by exp(-d / 30 min) and less steep terms of
             the distance d between the clocks, a day counting half after five.
  Source     Discrete-time hazards: Cox (1972), Allison (1982). Sampling the minutes without a spike: King & Zeng
             (2001).
  Cost       printed by `make bench`.
  Scores     docs/forecasting.md.
  Weak at    What never came before. Fewer than four minutes of spikes, or two days: no fit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cronhpa_models.method import Floats
from cronhpa_models.spike_features import DAY, DAYS, Flags, Minutes, SpikeHistory, SpikeOrigins, features

_SPIKE_MINUTES_MIN = 4
_FITTED_MIN = 2 * DAY
# The fit takes so many of the minutes without a spike, each standing for several.
_QUIET = 1500
_RIDGE = 100.0
_HALF_LIFE_DAYS = 10.0
_SPIKE_HALF_LIFE_DAYS = 5.0
_CLIP = 6.0
_ROUNDS = 25
# Of a day with a thousand earlier spikes, what is worked out in between would not fit a cache otherwise.
_ORIGINS_AT_ONCE = 64
_SMALL = 1e-4
# By minutes between two clocks: a spike of the same half hour says most about how high the next one goes, any other
# spike still says something.
_HOURS_APART = np.minimum(np.arange(DAY), DAY - np.arange(DAY)) / 60
_CLOSE = np.exp(-_HOURS_APART / 0.5) + 0.05 * np.exp(-_HOURS_APART / 4) + 0.005


@dataclass(frozen=True)
class Spikes:
    """
    How likely a spike is after each origin, and how high.

    chance: (origins,), that the load exceeds what pods carry in the minute `lead` after the origin. load: (spikes,) or
    (origins, spikes), rising, of each minute of earlier spikes, after zeros where other origins look back at more of
    them. cdf: (origins, spikes), given a spike that is higher than what is enough at the origin, the probability that
    its load is at most `load`; zero throughout where no earlier spike was higher.
    """

    chance: Floats
    load: Floats
    cdf: Floats


@dataclass(frozen=True)
class FittedHazard:
    """
    The hazard of one load, by the minute.

    lead: minutes from an origin to the minute that is forecast. rate: share of minutes with a spike. offset, level: of
    logarithms. mean, scale: (features,). weights: (features + 1,), the constant last. log_load: (minutes,), relative
    to `level`, with 64 bits or as it was kept; exceeded: (minutes,): the history.
    """

    lead: int
    rate: float
    offset: float
    level: float
    mean: Floats
    scale: Floats
    weights: Floats
    log_load: NDArray[np.floating[Any]]
    exceeded: Flags

    @property
    def minutes(self) -> int:
        """Of the history, at most eight days."""
        return len(self.exceeded)

    def load(self, minutes: Minutes | slice) -> Floats:
        """The loads of these minutes of the history."""
        log_load = self.log_load[minutes].astype(np.float64)
        return np.asarray(np.maximum(np.exp(log_load + self.level) - self.offset, 0.0))

    def spikes(self, later: Floats, exceeded: Flags, origins: Minutes, enough: Floats) -> Spikes:
        """
        What may come `lead` minutes after each origin, from what was known there.

        later, exceeded: (minutes,), the loads since the fit, without gaps, and whether pods were too few. origins:
        minutes since the fit; at 3, three of `later` are known. enough: (origins,), the load that is provided for
        anyway.
        """
        return spikes([self], [later], [exceeded], [origins], enough)

    def chance(self, later: Floats, exceeded: Flags, origins: Minutes) -> Floats:
        """(origins,): the probability of a spike alone, see `spikes`."""
        return _chances([self], [later], [exceeded], [origins])

    def encode(self) -> bytes:
        """A line of JSON, then plain numbers; loads with 11 bits, 0.05 % of a logarithm, flags as bits."""
        head = {
            "lead": self.lead,
            "rate": self.rate,
            "offset": self.offset,
            "level": self.level,
            "features": len(self.mean),
            "minutes": len(self.exceeded),
        }
        numbers = np.concatenate([self.mean, self.scale, self.weights]).astype("<f8").tobytes()
        known = self.log_load.astype("<f2").tobytes() + np.packbits(self.exceeded).tobytes()
        return json.dumps(head).encode() + b"\n" + numbers + known


def spikes(
    several: Sequence[FittedHazard],
    later: Sequence[Floats],
    exceeded: Sequence[Flags],
    origins: Sequence[Minutes],
    enough: Floats,
) -> Spikes:
    """
    FittedHazard.spikes of each, to the last bit, in one pass over all of their origins, one behind the other.

    enough: (all origins,). No sum over an origin's samples is left to BLAS, whose rounding depends on how many origins
    there are.
    """
    ended = [np.flatnonzero(each.exceeded) for each in several]
    loads = [each.load(minutes) for each, minutes in zip(several, ended, strict=True)]
    most = max(len(minutes) for minutes in ended)
    load, clock, by_age = (np.zeros((len(several), most), kind) for kind in (np.float64, np.int64, np.float64))
    for row, (each, minutes, of_minutes) in enumerate(zip(several, ended, loads, strict=True)):
        order = np.argsort(of_minutes)
        mine = slice(most - len(minutes), most)
        load[row, mine], clock[row, mine] = of_minutes[order], minutes[order]
        by_age[row, mine] = 0.5 ** ((each.minutes - minutes[order]) / DAY / _SPIKE_HALF_LIFE_DAYS)
    owner = _owners(origins) if len(several) > 1 else 0
    load, clock, by_age = load[owner], clock[owner], by_age[owner]
    at = np.concatenate([each.minutes + of + each.lead for each, of in zip(several, origins, strict=True)])
    cdf = np.empty((len(at), most))
    for begin in range(0, len(at), _ORIGINS_AT_ONCE):
        rows = slice(begin, begin + _ORIGINS_AT_ONCE)
        weights = _CLOSE[((clock if clock.ndim == 1 else clock[rows]) - at[rows, None]) % DAY]
        weights *= by_age if by_age.ndim == 1 else by_age[rows]
        weights *= (load if load.ndim == 1 else load[rows]) > enough[rows, None]
        np.cumsum(weights, axis=1, out=cdf[rows])
    cdf /= np.maximum(cdf[:, -1:], 1e-12)
    return Spikes(_chances(several, later, exceeded, origins), np.asarray(load, dtype=np.float64), cdf)


def _chances(
    several: Sequence[FittedHazard], later: Sequence[Floats], exceeded: Sequence[Flags], origins: Sequence[Minutes]
) -> Floats:
    """(all origins,): the probability of a spike."""
    known = SpikeHistory(
        [each.log_load for each in several],
        [each.exceeded for each in several],
        [each.rate for each in several],
        [
            (np.log(since + each.offset) - each.level, flags)
            for each, since, flags in zip(several, later, exceeded, strict=True)
        ],
    )
    owner = _owners(origins)
    of_fit = np.concatenate([each.minutes + of for each, of in zip(several, origins, strict=True)])
    leads = np.array([each.lead for each in several])
    mean, scale, weights = (
        np.stack([getattr(each, name) for each in several])[owner] for name in ("mean", "scale", "weights")
    )
    x = _scaled(features(known, SpikeOrigins(owner, of_fit, of_fit + leads[owner])), mean, scale)
    return _sigmoid(np.einsum("nf,nf->n", x, weights))


def _owners(origins: Sequence[Minutes]) -> Minutes:
    """(all origins,): the number of the fit that each belongs to."""
    return np.repeat(np.arange(len(origins)), [len(each) for each in origins])


def fit(load: Floats, exceeded: Flags, *, lead: int) -> FittedHazard | None:
    """
    Fit to single minutes, at most those of the last eight days. None where there are too few minutes or spikes.

    load: (minutes,), no gaps. exceeded: (minutes,), whether pods were too few. lead: minutes from what is known to what
    is forecast.
    """
    load, exceeded = load[-DAYS * DAY :], exceeded[-DAYS * DAY :]
    # Features of the first day would know nothing.
    origins = np.arange(DAY, len(load) - lead)
    happened = exceeded[origins + lead] if len(origins) >= _FITTED_MIN - DAY else np.zeros(0, bool)
    # A load that only ever grows exceeds its pods at every minute: a regression needs some minutes of both kinds.
    if min(happened.sum(), (~happened).sum()) < _SPIKE_MINUTES_MIN:
        return None
    offset = 0.05 * float(load.mean()) + 1e-9
    log_load = np.log(load + offset)
    level = float(log_load.mean())
    rate = float(exceeded.mean())
    known = SpikeHistory([log_load - level], [exceeded], [rate])
    loud, quiet = origins[happened], origins[~happened]
    taken = min(len(quiet), _QUIET)
    chosen = np.concatenate([loud, np.random.default_rng(0).choice(quiet, taken, replace=False)])
    weight = np.concatenate([np.ones(len(loud)), np.full(taken, len(quiet) / max(taken, 1))])
    weight *= 0.5 ** ((len(load) - chosen) / DAY / _HALF_LIFE_DAYS)
    x = features(known, SpikeOrigins(np.zeros(len(chosen), np.int64), chosen, chosen + lead))
    mean, scale, weights = _logistic(x, np.arange(len(chosen)) < len(loud), weight)
    return FittedHazard(lead, rate, offset, level, mean, scale, weights, log_load - level, exceeded)


def decode(state: bytes) -> FittedHazard:
    """The fit that FittedHazard.encode wrote."""
    begin = state.index(b"\n") + 1
    head = json.loads(state[:begin])
    features, minutes = head["features"], head["minutes"]
    numbers = np.frombuffer(state, "<f8", 3 * features + 1, begin)
    mean, scale, weights = numbers[:features], numbers[features : 2 * features], numbers[2 * features :]
    log_load = np.frombuffer(state, "<f2", minutes, begin + numbers.nbytes)
    bits = np.frombuffer(state, np.uint8, offset=begin + numbers.nbytes + log_load.nbytes)
    exceeded = np.unpackbits(bits, count=minutes).view(bool)
    return FittedHazard(
        head["lead"], head["rate"], head["offset"], head["level"], mean, scale, weights, log_load, exceeded
    )


def _scaled(x: Floats, mean: Floats, scale: Floats) -> Floats:
    """With a constant at the end; what lies six deviations out counts as six."""
    return np.column_stack([np.clip((x - mean) / scale, -_CLIP, _CLIP), np.ones(len(x))])


def _sigmoid(value: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(value, -30, 30))))


def _logistic(x: Floats, y: Flags, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """(mean, scale, weights) of ridge logistic regression: Newton's method, steps halved until they help."""
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
        while (found := loss(b + part * step)) > lowest - _SMALL * part * (slope @ step) and part > _SMALL:
            part /= 2
        b = b + part * step
        if lowest - found < _SMALL * abs(lowest):
            break
        lowest = found
    return mean, scale, b
