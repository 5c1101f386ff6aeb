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
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cronhpa_models.method import Floats

Minutes = NDArray[np.int64]
Flags = NDArray[np.bool_]

DAY = 1440
# Days looked back at, and fitted to.
DAYS = 8

_SPIKE_MINUTES_MIN = 4
_FITTED_MIN = 2 * DAY
# The fit takes so many of the minutes without a spike, each standing for several.
_QUIET = 1500
_RIDGE = 100.0
_HALF_LIFE_DAYS = 10.0
_SPIKE_HALF_LIFE_DAYS = 5.0
# Two minutes further apart than this belong to two spikes.
_APART = 8
_WIDTHS = (0, 1, 4, 12, 30)
# Minutes since the last spike, in ranges: where spikes come every two hours, 115 to 130 says more than a slope.
_SINCE = (4, 8, 15, 25, 40, 55, 70, 85, 100, 115, 130, 145, 160, 190, 240, 360, 720, 1440)
_LONG_AGO = 99_999
_GAP_MAX = 4 * DAY
_MOVES = (2, 3, 5, 10, 30)
# As a logarithm, 1.6 times the newest load: about what pods that are scaled for 60 % carry.
_FAR_MORE = 0.45
_CLIP = 6.0
_ROUNDS = 25
_SMALL = 1e-4
# By minutes between two clocks: a spike of the same half hour says most about how high the next one goes, any other
# spike still says something.
_HOURS_APART = np.minimum(np.arange(DAY), DAY - np.arange(DAY)) / 60
_CLOSE = np.exp(-_HOURS_APART / 0.5) + 0.05 * np.exp(-_HOURS_APART / 4) + 0.005


@dataclass(frozen=True)
class Spikes:
    """
    How likely a spike is after each origin, and how high.

    chance: (origins,), that the load exceeds what pods carry in the minute `lead` after the origin. load: (spikes,),
    rising, of each minute of earlier spikes. cdf: (origins, spikes), given a spike that is higher than what is enough
    at the origin, the probability that its load is at most `load`; zero throughout where no earlier spike was higher.
    """

    chance: Floats
    load: Floats
    cdf: Floats


@dataclass(frozen=True)
class Fitted:
    """
    The hazard of one load, by the minute.

    lead: minutes from an origin to the minute that is forecast. rate: share of minutes with a spike. offset, level: of
    logarithms. mean, scale: (features,). weights: (features + 1,), the constant last. log_load: (minutes,), relative
    to `level`; exceeded: (minutes,): the history.
    """

    lead: int
    rate: float
    offset: float
    level: float
    mean: Floats
    scale: Floats
    weights: Floats
    log_load: Floats
    exceeded: Flags

    @cached_property
    def load(self) -> Floats:
        """(minutes,): the loads of the history, the oldest first, at most eight days."""
        return np.asarray(np.maximum(np.exp(self.log_load + self.level) - self.offset, 0.0))

    def spikes(self, later: Floats, exceeded: Flags, origins: Minutes, enough: Floats) -> Spikes:
        """
        What may come `lead` minutes after each origin, from what was known there.

        later, exceeded: (minutes,), the loads since the fit, without gaps, and whether pods were too few. origins:
        minutes since the fit; at 3, three of `later` are known. enough: (origins,), the load that is provided for
        anyway.
        """
        ended = np.flatnonzero(self.exceeded)
        ended = ended[np.argsort(self.load[ended])]
        load = self.load[ended]
        at = len(self.load) + origins + self.lead
        by_clock = _CLOSE[(ended - at[:, None]) % DAY]
        by_age = 0.5 ** ((len(self.load) - ended) / DAY / _SPIKE_HALF_LIFE_DAYS)
        cdf = np.cumsum(by_clock * by_age * (load > enough[:, None]), axis=1)
        cdf /= np.maximum(cdf[:, -1:], 1e-12)
        return Spikes(self.chance(later, exceeded, origins), load, cdf)

    def chance(self, later: Floats, exceeded: Flags, origins: Minutes) -> Floats:
        """(origins,): the probability of a spike alone, see `spikes`."""
        before = len(self.exceeded)
        log_load = np.concatenate([self.log_load, np.log(later + self.offset) - self.level])
        known = _Known(log_load, np.concatenate([self.exceeded, exceeded]), self.rate, before)
        x = _scaled(_features(known, before + origins, self.lead), self.mean, self.scale)
        return _sigmoid(x @ self.weights)

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


def fit(load: Floats, exceeded: Flags, *, lead: int) -> Fitted | None:
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
    known = _Known(log_load - level, exceeded, float(exceeded.mean()), len(exceeded))
    loud, quiet = origins[happened], origins[~happened]
    taken = min(len(quiet), _QUIET)
    chosen = np.concatenate([loud, np.random.default_rng(0).choice(quiet, taken, replace=False)])
    weight = np.concatenate([np.ones(len(loud)), np.full(taken, len(quiet) / max(taken, 1))])
    weight *= 0.5 ** ((len(load) - chosen) / DAY / _HALF_LIFE_DAYS)
    x = _features(known, chosen, lead)
    mean, scale, weights = _logistic(x, np.arange(len(chosen)) < len(loud), weight)
    return Fitted(lead, known.rate, offset, level, mean, scale, weights, known.log_load, exceeded)


def decode(state: bytes) -> Fitted:
    """The fit that Fitted.encode wrote."""
    line, _, rest = state.partition(b"\n")
    head = json.loads(line)
    features, minutes = head["features"], head["minutes"]
    size = 8 * (3 * features + 1)
    mean, scale, weights = np.split(np.frombuffer(rest, "<f8", 3 * features + 1), [features, 2 * features])
    log_load = np.frombuffer(rest, "<f2", minutes, size).astype(np.float64)
    bits = np.frombuffer(rest, np.uint8, offset=size + 2 * minutes)
    exceeded = np.unpackbits(bits, count=minutes).astype(bool)
    return Fitted(head["lead"], head["rate"], head["offset"], head["level"], mean, scale, weights, log_load, exceeded)


class _Known:
    """
    Loads as logarithms, the minutes with a spike, and the counts that features are made of.

    fitted: the number of minutes at the front whose gaps between spikes make a distribution.
    """

    def __init__(self, log_load: Floats, exceeded: Flags, rate: float, fitted: int) -> None:
        self.log_load = log_load
        self.exceeded = exceeded
        self.rate = rate
        self.fitted = fitted
        self._counted = np.concatenate([[0], np.cumsum(exceeded)])
        loud = np.flatnonzero(exceeded)
        self.begins = loud[np.diff(loud, prepend=-_LONG_AGO) > _APART]
        begun = np.zeros(len(exceeded), bool)
        begun[self.begins] = True
        self._begun = np.concatenate([[0], np.cumsum(begun)])

    def any_within(self, at: Minutes, width: int) -> Flags:
        """Whether there is a spike within `width` minutes of each."""
        low, high = (self._counted.take(edge, mode="clip") for edge in (at - width, at + width + 1))
        found: Flags = high > low
        return found

    def odds(self, origins: Minutes, lead: int, back: Minutes, weight: Floats, width: int) -> Floats:
        """
        Log ratio of the weighted spike frequency `back` minutes before the forecast minute to the base rate.

        Smoothed with half a pseudo-observation at the base rate.
        """
        usual = min(self.rate * (2 * width + 1) ** 0.7, 0.5)
        looked = (origins + lead)[:, None] - back
        # Pods that take a quarter of an hour are asked for when the spike of ten minutes before is not known yet.
        seen = (looked >= width) & (looked + width < origins[:, None])
        found = (self.any_within(looked, width) & seen) @ weight
        return np.asarray(np.log((found + 0.5 * usual) / (seen @ weight + 0.5) / usual))

    def begun(self, origins: Minutes, minutes: int) -> Floats:
        """Logarithm of one more than the number of spikes that began in the minutes before each origin."""
        before, earlier = (self._begun.take(edge, mode="clip") for edge in (origins, origins - minutes))
        return np.asarray(np.log1p(before - earlier))

    def newest(self, origins: Minutes, back: int) -> Floats:
        """The load of the minute that ended `back - 1` minutes before each."""
        return self.log_load.take(origins - back, mode="clip")


def _lookback(count: int, minutes: int, half_life: float) -> tuple[Minutes, Floats]:
    steps = np.arange(1, count + 1)
    return steps * minutes, 0.5 ** (steps / half_life)


_DAYS_BACK, _DAY_WEIGHTS = _lookback(DAYS, DAY, 5)
# The same weekday counts double.
_DAY_WEIGHTS[6] *= 2
_ROUND_CLOCKS = (
    (_lookback(48, 60, 24), (0, 1, 4)),
    (_lookback(96, 30, 48), (0, 1, 4)),
    (_lookback(144, 10, 72), (0, 1)),
)
_BESIDE = tuple(
    np.array([day * DAY + aside * minutes for day in range(1, 8) for aside in (-2, -1, 1, 2)]) for minutes in (60, 30)
)
_BESIDE_WEIGHTS = np.array([0.5 ** (day / 4) for day in range(1, 8) for _ in range(4)])


def _features(known: _Known, origins: Minutes, lead: int) -> Floats:
    """(origins, features)"""
    at = origins + lead
    columns: list[Floats | Flags] = [known.odds(origins, lead, _DAYS_BACK, _DAY_WEIGHTS, width) for width in _WIDTHS]
    columns += [known.any_within(at - days * DAY, width) for days in (1, 7) for width in (1, 8)]
    columns += [known.odds(origins, lead, *back, width) for back, widths in _ROUND_CLOCKS for width in widths]
    columns += [known.odds(origins, lead, back, _BESIDE_WEIGHTS, 1) for back in _BESIDE]
    columns += _since(known, origins, at)
    columns += [known.begun(origins, 180), known.begun(origins, DAY)]
    now = known.newest(origins, 1)
    columns += [known.exceeded.take(origins - 1, mode="clip"), now]
    columns += [now - known.newest(origins, back + 1) for back in _MOVES]
    columns += _same_clock(known, origins, at)
    return np.column_stack(columns).astype(np.float64)


def _since(known: _Known, origins: Minutes, at: Minutes) -> list[Floats | Flags]:
    """How long ago the last spikes began, and how often a gap between spikes was as long."""
    begins = known.begins
    last = np.searchsorted(begins, origins - 1, side="left")
    columns: list[Floats | Flags] = []
    for order in (1, 2):
        since = np.full(len(at), _LONG_AGO)
        is_known = last >= order
        since[is_known] = at[is_known] - begins[last[is_known] - order]
        if order == 1:
            ranges = np.digitize(since, _SINCE)
            columns += [ranges == number for number in range(len(_SINCE) + 1)]
        columns.append(np.log1p(np.minimum(since, 5000)))
        columns += _gaps(known, since, last, order)
    return columns


def _gaps(known: _Known, since: Minutes, last: Minutes, order: int) -> list[Floats]:
    """Of the gaps that lasted so long the share that ended within 2 and within 10 minutes of it, as a logarithm."""
    begins = known.begins[known.begins < known.fitted]
    gaps = np.sort(begins[order:] - begins[:-order])
    gaps = gaps[gaps < _GAP_MAX]
    # The gap that an origin of the past lies in is among them; it must not foretell itself.
    own = np.full(len(since), -_LONG_AGO)
    inside = (last >= order) & (last < len(begins))
    own[inside] = begins[last[inside]] - begins[last[inside] - order]
    own[own >= _GAP_MAX] = -_LONG_AGO
    columns = []
    for width in (2, 10):
        low, high = np.searchsorted(gaps, since - width), np.searchsorted(gaps, since + width + 1)
        ended = high - low - ((own >= since - width) & (own <= since + width))
        lasted = len(gaps) - low - (own >= since - width)
        columns.append(np.log((ended + known.rate * width + 0.05) / (lasted + 1.0)))
    return columns


def _same_clock(known: _Known, origins: Minutes, at: Minutes) -> list[Floats]:
    """The load around the same clock of the last seven days against the newest one."""
    now = np.maximum(known.newest(origins, 1), known.newest(origins, 2))
    looked = at[:, None] - np.arange(1, 8) * DAY
    seen = looked >= 1
    around = known.log_load.take(looked[..., None] + np.arange(-1, 2), mode="clip").max(axis=-1)
    moved = np.where(seen, around - now[:, None], 0.0)
    weight = seen * 0.5 ** (np.arange(1, 8) / 4)
    total = np.maximum(weight.sum(axis=1), 1e-9)
    over = (weight * (moved > _FAR_MORE)).sum(axis=1) / total
    return [
        moved[:, 0],
        moved[:, 6],
        (weight * moved).sum(axis=1) / total,
        np.where(seen, moved, -3.0).max(axis=1),
        over,
        np.log(over + 0.02),
    ]


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
