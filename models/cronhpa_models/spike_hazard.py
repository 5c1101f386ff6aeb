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
# Between the gaps of one series and those of the next, in one sorted row: more than any look-up reaches.
_SERIES_APART = 1_000_000
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

    chance: (origins,), that the load exceeds what pods carry in the minute `lead` after the origin. load: (spikes,) or
    (origins, spikes), rising, of each minute of earlier spikes, after zeros where other origins look back at more of
    them. cdf: (origins, spikes), given a spike that is higher than what is enough at the origin, the probability that
    its load is at most `load`; zero throughout where no earlier spike was higher.
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

    @property
    def minutes(self) -> int:
        """Of the history, at most eight days."""
        return len(self.exceeded)

    def load(self, minutes: Minutes | slice) -> Floats:
        """The loads of these minutes of the history."""
        return np.asarray(np.maximum(np.exp(self.log_load[minutes] + self.level) - self.offset, 0.0))

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
    several: Sequence[Fitted],
    later: Sequence[Floats],
    exceeded: Sequence[Flags],
    origins: Sequence[Minutes],
    enough: Floats,
) -> Spikes:
    """
    Fitted.spikes of each, to the last bit, in one pass over all of their origins, one behind the other.

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
    cdf = np.cumsum(_CLOSE[(clock - at[:, None]) % DAY] * by_age * (load > enough[:, None]), axis=1)
    cdf = cdf / np.maximum(cdf[:, -1:], 1e-12)
    return Spikes(_chances(several, later, exceeded, origins), np.asarray(load, dtype=np.float64), cdf)


def _chances(
    several: Sequence[Fitted], later: Sequence[Floats], exceeded: Sequence[Flags], origins: Sequence[Minutes]
) -> Floats:
    """(all origins,): the probability of a spike."""
    known = _Known(
        [
            np.concatenate([each.log_load, np.log(since + each.offset) - each.level])
            for each, since in zip(several, later, strict=True)
        ],
        [np.concatenate([each.exceeded, since]) for each, since in zip(several, exceeded, strict=True)],
        [each.rate for each in several],
        [each.minutes for each in several],
    )
    owner = _owners(origins)
    of_fit = np.concatenate([each.minutes + of for each, of in zip(several, origins, strict=True)])
    leads = np.array([each.lead for each in several])
    mean, scale, weights = (
        np.stack([getattr(each, name) for each in several])[owner] for name in ("mean", "scale", "weights")
    )
    x = _scaled(_features(known, _Asked(owner, of_fit, of_fit + leads[owner])), mean, scale)
    return _sigmoid(np.einsum("nf,nf->n", x, weights))


def _owners(origins: Sequence[Minutes]) -> Minutes:
    """(all origins,): the number of the fit that each belongs to."""
    return np.repeat(np.arange(len(origins)), [len(each) for each in origins])


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
    rate = float(exceeded.mean())
    known = _Known([log_load - level], [exceeded], [rate], [len(exceeded)])
    loud, quiet = origins[happened], origins[~happened]
    taken = min(len(quiet), _QUIET)
    chosen = np.concatenate([loud, np.random.default_rng(0).choice(quiet, taken, replace=False)])
    weight = np.concatenate([np.ones(len(loud)), np.full(taken, len(quiet) / max(taken, 1))])
    weight *= 0.5 ** ((len(load) - chosen) / DAY / _HALF_LIFE_DAYS)
    x = _features(known, _Asked(np.zeros(len(chosen), np.int64), chosen, chosen + lead))
    mean, scale, weights = _logistic(x, np.arange(len(chosen)) < len(loud), weight)
    return Fitted(lead, rate, offset, level, mean, scale, weights, log_load - level, exceeded)


def decode(state: bytes) -> Fitted:
    """The fit that Fitted.encode wrote."""
    line, _, rest = state.partition(b"\n")
    head = json.loads(line)
    features, minutes = head["features"], head["minutes"]
    size = 8 * (3 * features + 1)
    mean, scale, weights = np.split(np.frombuffer(rest, "<f8", 3 * features + 1), [features, 2 * features])
    log_load = np.frombuffer(rest, "<f2", minutes, size).astype(np.float64)
    bits = np.frombuffer(rest, np.uint8, offset=size + 2 * minutes)
    exceeded = np.unpackbits(bits, count=minutes).view(bool)
    return Fitted(head["lead"], head["rate"], head["offset"], head["level"], mean, scale, weights, log_load, exceeded)


@dataclass(frozen=True)
class _Asked:
    """
    Origins of several series, one behind the other.

    owner: the number of the series that each belongs to. origins: minutes of that series that are known. at: the minute
    that is forecast.
    """

    owner: Minutes
    origins: Minutes
    at: Minutes


class _Known:
    """
    Loads of several series as logarithms, one behind the other, the minutes with a spike, and what features count.

    fitted: how many minutes at the front of each series have the gaps between spikes that make a distribution.
    """

    def __init__(
        self, log_load: Sequence[Floats], exceeded: Sequence[Flags], rate: Sequence[float], fitted: Sequence[int]
    ) -> None:
        count = np.array([len(each) for each in exceeded])
        self.end = np.cumsum(count)
        self.begin = self.end - count
        self.rate = np.array(rate)
        self._log_load = np.concatenate(log_load)
        self._exceeded = np.concatenate(exceeded)
        self._counted = np.zeros(len(self._exceeded) + 1, np.int32)
        np.cumsum(self._exceeded, out=self._counted[1:])
        loud = np.flatnonzero(self._exceeded)
        is_first = np.diff(loud, prepend=-_LONG_AGO) > _APART
        first = np.searchsorted(loud, self.begin)
        is_first[first[first < len(loud)]] = True
        # Where spikes begin, and of each series, how many of them those before it have.
        self.begins = loud[is_first]
        self.begins_before = np.searchsorted(self.begins, self.begin)
        self.begins_fitted = np.searchsorted(self.begins, self.begin + np.array(fitted)) - self.begins_before

    def any_within(self, asked: _Asked, at: Minutes, width: int) -> Flags:
        """Whether there is a spike within `width` minutes of each."""
        begin, end = self.begin[asked.owner], self.end[asked.owner]
        low, high = (self._counted[np.clip(begin + edge, begin, end)] for edge in (at - width, at + width + 1))
        found: Flags = high > low
        return found

    def odds(self, asked: _Asked, back: Minutes, weight: Floats, width: int) -> Floats:
        """
        Log ratio of the weighted spike frequency `back` minutes before the forecast minute to the base rate.

        Smoothed with half a pseudo-observation at the base rate.
        """
        usual = np.minimum(self.rate * (2 * width + 1) ** 0.7, 0.5)[asked.owner]
        begin = self.begin[asked.owner]
        looked = (asked.at + begin)[:, None] - back
        # Pods that take a quarter of an hour are asked for when the spike of ten minutes before is not known yet.
        seen = (looked >= (width + begin)[:, None]) & (looked < (asked.origins + begin - width)[:, None])
        # What lies outside of the series is not seen.
        low, high = (self._counted.take(looked + edge, mode="clip") for edge in (-width, width + 1))
        found, total = (np.einsum("nb,b->n", flags.astype(np.float64), weight) for flags in ((high > low) & seen, seen))
        return np.asarray(np.log((found + 0.5 * usual) / (total + 0.5) / usual))

    def begun(self, asked: _Asked, minutes: int) -> Floats:
        """Logarithm of one more than the number of spikes that began in the minutes before each origin."""
        begin = self.begin[asked.owner]
        earlier = np.searchsorted(self.begins, begin + np.maximum(asked.origins - minutes, 0))
        return np.asarray(np.log1p(np.searchsorted(self.begins, begin + asked.origins) - earlier))

    def newest(self, asked: _Asked, back: int) -> Floats:
        """The load of the minute that ended `back - 1` minutes before each."""
        return self.log_load(asked, asked.origins - back)

    def is_exceeded(self, asked: _Asked) -> Flags:
        """Whether pods are too few in the newest minute."""
        return np.asarray(self._exceeded[self._places(asked, asked.origins - 1)])

    def log_load(self, asked: _Asked, minutes: Minutes) -> Floats:
        """The loads of minutes of the series that is asked about, (origins, ...)."""
        return np.asarray(self._log_load[self._places(asked, minutes)])

    def _places(self, asked: _Asked, minutes: Minutes) -> Minutes:
        shape = (-1,) + (1,) * (minutes.ndim - 1)
        begin, end = (edge[asked.owner].reshape(shape) for edge in (self.begin, self.end))
        return np.clip(begin + minutes, begin, end - 1)


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


def _features(known: _Known, asked: _Asked) -> Floats:
    """(origins, features)"""
    columns: list[Floats | Flags] = [known.odds(asked, _DAYS_BACK, _DAY_WEIGHTS, width) for width in _WIDTHS]
    columns += [known.any_within(asked, asked.at - days * DAY, width) for days in (1, 7) for width in (1, 8)]
    columns += [known.odds(asked, *back, width) for back, widths in _ROUND_CLOCKS for width in widths]
    columns += [known.odds(asked, back, _BESIDE_WEIGHTS, 1) for back in _BESIDE]
    columns += _since(known, asked)
    columns += [known.begun(asked, 180), known.begun(asked, DAY)]
    now = known.newest(asked, 1)
    columns += [known.is_exceeded(asked), now]
    columns += [now - known.newest(asked, back + 1) for back in _MOVES]
    columns += _same_clock(known, asked)
    return np.column_stack(columns).astype(np.float64)


def _since(known: _Known, asked: _Asked) -> list[Floats | Flags]:
    """How long ago the last spikes began, and how often a gap between spikes was as long."""
    begin, before = known.begin[asked.owner], known.begins_before[asked.owner]
    last = np.searchsorted(known.begins, begin + asked.origins - 1, side="left") - before
    columns: list[Floats | Flags] = []
    for order in (1, 2):
        since = np.full(len(asked.at), _LONG_AGO)
        is_known = last >= order
        since[is_known] = (asked.at + begin)[is_known] - known.begins[(last + before - order)[is_known]]
        if order == 1:
            ranges = np.digitize(since, _SINCE)
            columns += [ranges == number for number in range(len(_SINCE) + 1)]
        columns.append(np.log1p(np.minimum(since, 5000)))
        columns += _gaps(known, asked, since, last, order)
    return columns


def _gaps(known: _Known, asked: _Asked, since: Minutes, last: Minutes, order: int) -> list[Floats]:
    """Of the gaps that lasted so long the share that ended within 2 and within 10 minutes of it, as a logarithm."""
    counts = known.begins_fitted
    series = np.repeat(np.arange(len(counts)), np.maximum(counts - order, 0))
    first = np.arange(len(series)) - np.repeat(
        np.cumsum(np.maximum(counts - order, 0)) - np.maximum(counts - order, 0) - known.begins_before,
        np.maximum(counts - order, 0),
    )
    gaps = known.begins[first + order] - known.begins[first]
    # Sorted by series, then by length: the gaps of a series are looked up behind those of the series before it.
    kept = gaps < _GAP_MAX
    sorted_gaps = np.sort(gaps[kept] + series[kept] * _SERIES_APART)
    ends = np.searchsorted(sorted_gaps, (np.arange(len(counts)) + 1) * _SERIES_APART - _LONG_AGO)[asked.owner]
    # The gap that an origin of the past lies in is among them; it must not foretell itself.
    own = np.full(len(since), -_LONG_AGO)
    inside = (last >= order) & (last < counts[asked.owner])
    places = (last + known.begins_before[asked.owner])[inside]
    own[inside] = known.begins[places] - known.begins[places - order]
    own[own >= _GAP_MAX] = -_LONG_AGO
    columns = []
    shift, rate = asked.owner * _SERIES_APART, known.rate[asked.owner]
    for width in (2, 10):
        low, high = (np.searchsorted(sorted_gaps, since + shift + edge) for edge in (-width, width + 1))
        ended = high - low - ((own >= since - width) & (own <= since + width))
        lasted = ends - low - (own >= since - width)
        columns.append(np.log((ended + rate * width + 0.05) / (lasted + 1.0)))
    return columns


def _same_clock(known: _Known, asked: _Asked) -> list[Floats]:
    """The load around the same clock of the last seven days against the newest one."""
    now = np.maximum(known.newest(asked, 1), known.newest(asked, 2))
    looked = asked.at[:, None] - np.arange(1, 8) * DAY
    seen = looked >= 1
    around = known.log_load(asked, looked[..., None] + np.arange(-1, 2)).max(axis=-1)
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
