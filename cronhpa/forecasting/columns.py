"""
A vectorized horizontal autoscaler: many floors under one load, a column each, in ticks of 15 s.

It is fast enough to evaluate every candidate each day; `decide` itself is run for the chosen one only. It follows the
upstream in every tick: which pods have samples and which samples count, whole milli-units and percents, the tolerance,
scale-down stabilization, the rate limit of an object without a behavior. It has no schedules, no behaviors, and only
one metric. Imports numpy: for workers and benchmarks only.

A stabilization window keeps five minutes, so a day depends on the last two hours of the day before at most. All days
are columns, side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cronhpa.forecasting.outcomes import BEFORE_SECONDS, STEP_SECONDS, Outcomes, scored

if TYPE_CHECKING:
    from collections.abc import Iterator

Floats = NDArray[np.float64]
Shares = NDArray[np.float32]
Counts = NDArray[np.int16]
Rows = NDArray[np.int64]

MINUTES_PER_STEP = 5

_DAY_SECONDS = 86_400
# This many int16 columns, and the other arrays of a tick, fit the second-level cache.
_COLUMNS = 4_000
_REPLICAS_MAX = 30_000
_EPSILON = 1e-4  # rounding errors of float32 near whole percents and milli-units
# The upstream's rate without a behavior: twice as many in 15 s, or four.
_RATE_SECONDS = 15
# The upstream's default cpu-initialization-period.
_CPU_INITIALIZATION_SECONDS = 300
# A younger pod has no sample: as in metrics-server, freshContainerMinMetricsResolution.
_FRESH_SECONDS = 10


@dataclass(frozen=True)
class Utilization:
    """A target in whole percent of the request; request: as a share of a pod's capacity."""

    percent: int
    request: float = 1.0

    @property
    def load(self) -> float:
        """The load for which a pod is scaled, as a share of its capacity."""
        return self.percent / 100 * self.request


@dataclass(frozen=True)
class AverageValue:
    """A target that is a load; load: as a share of a pod's capacity."""

    load: float


@dataclass(frozen=True)
class AutoscalerModel:
    """The autoscaler in which floors are evaluated. The unit of load is the capacity of one pod."""

    goal: Utilization | AverageValue = Utilization(60)
    """The metric's target."""
    milli: float = 1000.0
    """The capacity of one pod, in milli-units of the metric; samples are whole milli-units."""
    is_cpu: bool = True
    """Whether samples of starting pods do not count."""
    start_up_seconds: int = 120
    """Seconds from creation to Ready."""
    delay_seconds: int = 30
    """The age of a sample when it is read."""
    window_seconds: int = 60
    """A sample is the mean over so many seconds."""
    tolerance: float = 0.1
    stabilization_seconds: int = 300
    tick_seconds: int = 15
    """Seconds between two decisions, a divisor of 60. Longer ticks are cheaper and decide later."""
    is_linear: bool = True
    """Whether the load is linear between ticks; else it is constant until the next tick."""

    def ticks(self, seconds: int) -> int:
        """The number of ticks in these seconds, rounded to the nearest."""
        return (seconds + self.tick_seconds // 2) // self.tick_seconds


def simulate(load: Floats, floors: Counts, autoscaler: AutoscalerModel, span_seconds: int = _DAY_SECONDS) -> Outcomes:
    """
    Simulate `load` with each row of `floors` as the lower bound of the replicas.

    load: (ticks,), whole steps. floors: (candidates, minutes); each floor holds for one minute, from `delay_seconds`
    after the start of its minute of `load`; zero for no floor. span_seconds: length of the spans that are simulated
    side by side, whole steps; each span begins two hours early, with the pods that its load needs then.
    """
    ticks = len(load)
    per_step = autoscaler.ticks(STEP_SECONDS)
    outcomes = Outcomes(*(np.zeros((len(floors), ticks // per_step), np.float32) for _ in range(6)))
    served = mean_loads(load, autoscaler)
    span = autoscaler.ticks(span_seconds)
    for starts, rows in _spans(ticks, span, len(floors), autoscaler):
        replicas = _scale(served, floors, np.clip(rows, 0, ticks - 1), autoscaler)
        scores = scored(load, replicas, np.clip(rows, 0, ticks - 1), autoscaler)
        for name, values in scores.items():
            target = getattr(outcomes, name)
            for i, start in enumerate(starts):
                part = target[:, start // per_step :][:, : span // per_step]
                part[:] = values[: part.shape[1], i].T
    return outcomes


def _spans(ticks: int, span: int, candidates: int, autoscaler: AutoscalerModel) -> Iterator[tuple[Rows, Rows]]:
    """
    (first tick of each span, rows of the load (ticks of run-up and span, spans)), for several spans at a time.

    spans x candidates stays within the columns that fit the cache.
    """
    starts = np.arange(0, ticks, span)
    at_once = max(1, _COLUMNS // candidates)
    for first in range(0, len(starts), at_once):
        chosen = starts[first : first + at_once]
        yield chosen, np.arange(-autoscaler.ticks(BEFORE_SECONDS), span)[:, None] + chosen


class _SlidingMaximum:
    """
    The maximum of the newest `window` rows, by van Herk, Gil and Werman: the larger of the running maximum of this
    block of rows and the reverse running maximum of the block before.
    """

    def __init__(self, window: int, shape: tuple[int, ...]) -> None:
        self._window = window
        self._block = np.zeros((window, *shape), np.int16)
        self._newest = np.zeros(shape, np.int16)
        self._earlier = np.zeros((window + 1, *shape), np.int16)
        self._place = -1

    def with_newest(self, row: Counts) -> Counts:
        """The maximum with a row added and the oldest one dropped."""
        self._place = (self._place + 1) % self._window
        if self._place == 0:
            np.maximum.accumulate(self._block[::-1], axis=0, out=self._block[::-1])
            self._earlier[: self._window] = self._block
            self._newest[:] = 0
        self._block[self._place] = row
        np.maximum(self._newest, row, out=self._newest)
        highest: Counts = np.maximum(self._newest, self._earlier[self._place + 1])
        return highest


@dataclass(frozen=True)
class _Ages:
    """
    The age in ticks at which a pod is Ready, has a sample, is trusted, and has a sample of a whole window.

    For a CPU metric a pod is trusted once it was Ready in all of a window, or is Ready and older than the upstream's
    default cpu-initialization-period; for another metric as soon as it has a sample.
    """

    ready: int
    sampled: int
    trusted: int
    whole: int

    @classmethod
    def of(cls, autoscaler: AutoscalerModel) -> _Ages:
        start_up, measured = autoscaler.start_up_seconds, autoscaler.delay_seconds + autoscaler.window_seconds

        def ticks(seconds: int) -> int:
            return -(-seconds // autoscaler.tick_seconds)

        whole, sampled = ticks(start_up + measured), ticks(autoscaler.delay_seconds + _FRESH_SECONDS)
        trusted = min(whole, ticks(max(_CPU_INITIALIZATION_SECONDS, start_up))) if autoscaler.is_cpu else sampled
        return cls(ready=autoscaler.ticks(start_up), sampled=sampled, trusted=trusted, whole=whole)


class _Samples:
    """
    Samples of pods, in milli-units: the mean load of a Ready pod over a window.

    weights: by the number of ticks since a tick began, the amount that a load of 1 in that tick adds to the sample.
    """

    def __init__(self, autoscaler: AutoscalerModel, served: Shares) -> None:
        """served: the load of a Ready pod in each tick before the first."""
        tick, begin, end = (
            autoscaler.tick_seconds,
            autoscaler.delay_seconds + autoscaler.window_seconds,
            autoscaler.delay_seconds,
        )
        overlaps = {
            k: min(begin, k * tick) - max(end, (k - 1) * tick) for k in range(end // tick + 1, -(-begin // tick) + 1)
        }
        self.weights = {
            k: np.float32(autoscaler.milli * seconds / autoscaler.window_seconds) for k, seconds in overlaps.items()
        }
        self._served = np.repeat(served[None], max(self.weights), axis=0)

    def add(self, tick: int, served: Shares) -> None:
        self._served[tick % len(self._served)] = served

    def read(self, tick: int, since: int | None = None) -> Shares:
        """The sample of a pod that was Ready in all of the window or, if that is later, from tick `since` on."""
        total: Shares = np.zeros_like(self._served[0])
        for k, weight in self.weights.items():
            if since is None or tick - k >= since:
                total += self._served[(tick - k) % len(self._served)] * weight
        np.rint(total, out=total)
        return total


class _Proposals:
    """The metric's recommendation, as the upstream computes it from pods."""

    def __init__(self, autoscaler: AutoscalerModel) -> None:
        if isinstance(autoscaler.goal, Utilization):
            # The mean is in percent of the request; a pod without a sample is assumed to use its whole request.
            self._goal, self._per_unit = autoscaler.goal.percent, 100 / (autoscaler.milli * autoscaler.goal.request)
            self._busy = max(100, autoscaler.goal.percent)
        else:
            self._goal, self._per_unit = max(round(autoscaler.milli * autoscaler.goal.load), 1), 1.0
            self._busy = self._goal
        lowest, highest = 1 - autoscaler.tolerance, 1 + autoscaler.tolerance
        # Near the ends alone: a target of 1 GiB has 2 * 10**11 whole milli-units within its tolerance. Rounding errors
        # may move an end by one.
        near = [int(self._goal * end) + more for end in (lowest, highest) for more in range(-2, 3)]
        covered = [mean for mean in near if lowest <= mean / self._goal <= highest]
        self._covered = min(covered), max(covered)

    def of(self, usage: Shares, current: Counts, trusted: Counts, missing: Counts | None) -> Counts:
        """
        usage: of the `trusted` pods. missing: pods without a sample, None if there are none.

        Above the target, pods that are not trusted count with no usage. Below it, pods without a sample count with all
        of their request, and the other untrusted pods do not count.
        """
        usage = usage * self._per_unit
        rising = usage >= (self._goal + 1 - _EPSILON) * trusted
        below = trusted
        if missing is not None:
            falling = usage < (self._goal - _EPSILON) * trusted
            below = trusted + missing * falling
            usage = usage + missing * (falling * self._busy)
        counted = np.where(rising, current, below)
        mean = usage / counted
        mean += _EPSILON
        np.floor(mean, out=mean)
        stays = (mean >= self._covered[0]) & (mean <= self._covered[1])
        if missing is not None:
            stays |= falling & (mean > self._goal)
        requested = mean / self._goal
        requested *= counted
        np.ceil(requested, out=requested)
        np.minimum(requested, _REPLICAS_MAX, out=requested)
        # The ratio may fall to the target or below it once all pods are counted: then the count stays.
        requested = np.where(rising, np.maximum(requested, current), requested)
        return np.where(stays, current, requested).astype(np.int16)


class Autoscalers:
    """
    Autoscalers side by side under one load, decided tick after tick: for floors that depend on earlier replicas.

    first: (days, columns), the replicas at the begin. replicas: (ticks, days, columns), after each tick decided so far.
    """

    def __init__(self, load: NDArray[np.float64 | np.float32], columns: int, autoscaler: AutoscalerModel) -> None:
        """load: (ticks, days), the mean load of each tick. They begin with the pods that the first tick needs."""
        self._load = np.asarray(load, dtype=np.float32)[:, :, None]
        self._ages, self._proposals = _Ages.of(autoscaler), _Proposals(autoscaler)
        self._doubled = 2 ** (autoscaler.tick_seconds // _RATE_SECONDS)
        length, days, _ = self._load.shape
        self.replicas = np.empty((length, days, columns), np.int16)
        needed = np.clip(np.ceil(self._load[0] / autoscaler.goal.load - 1e-6), 1, _REPLICAS_MAX).astype(np.int16)
        self._current = np.broadcast_to(needed, (days, columns))
        self.first = self._current
        self._samples = _Samples(autoscaler, self._load[0] / self._current)
        # An entry exactly as old as the window still counts.
        window = autoscaler.stabilization_seconds // autoscaler.tick_seconds + 1
        self._measured, self._merged = (_SlidingMaximum(window, (days, columns)) for _ in range(2))

    def decide(self, tick: int, floor: Counts) -> Counts:
        """The replicas from this tick on; ticks come in order. floor: (days, columns), at least 1."""
        ages, current, samples = self._ages, self._current, self._samples
        trusted = whole = self._older(tick, ages.whole)
        usage = samples.read(tick) * whole
        for age in reversed(range(ages.trusted, ages.whole)):
            younger, trusted = trusted, self._older(tick, age)
            usage += samples.read(tick, tick - age + ages.ready) * (trusted - younger)
        missing = current - self._older(tick, ages.sampled) if ages.sampled > 1 else None
        measured = self._proposals.of(usage, current, trusted, missing)
        merged = np.maximum(measured, floor)
        limit = np.minimum(current, _REPLICAS_MAX // self._doubled) * np.int16(self._doubled)
        np.maximum(limit, 2 * self._doubled, out=limit)
        # Stabilization may raise to a recommendation of the metric; one of a floor only holds the current count.
        stabilized = np.minimum(self._merged.with_newest(merged), current)
        np.maximum(stabilized, self._measured.with_newest(measured), out=stabilized)
        np.maximum(stabilized, merged, out=stabilized)
        self._current = np.minimum(stabilized, limit, out=self.replicas[tick])
        ready = np.minimum.reduce(self.replicas[max(0, tick - ages.ready) : tick + 1], axis=0)
        samples.add(tick, self._load[tick] / ready)
        return self._current

    def _older(self, tick: int, age: int) -> Counts:
        """Pods of at least this age, in ticks. The youngest are removed first: the minimum of the counts since then."""
        return np.minimum.reduce(self.replicas[max(0, tick - age) : tick], axis=0) if tick else self._current


def mean_loads(load: Floats, autoscaler: AutoscalerModel) -> Floats:
    """(ticks,): the mean of each tick, from the load at the begin of each."""
    return (load + np.append(load[1:], load[-1])) / 2 if autoscaler.is_linear else load


def _scale(load: Floats, floors: Counts, rows: Rows, autoscaler: AutoscalerModel) -> Counts:
    """
    Replicas (ticks, days, candidates) after each tick's decision.

    load: (ticks of the load,), the mean of each; rows: (ticks, days) of it.
    """
    per_minute, delay = autoscaler.ticks(60), autoscaler.ticks(autoscaler.delay_seconds)
    minute = np.clip((rows - delay) // per_minute, 0, floors.shape[1] - 1)
    by_minute = np.maximum(np.ascontiguousarray(floors.T), 1)
    autoscalers = Autoscalers(load[rows], len(floors), autoscaler)
    floor = by_minute[minute[0]]
    for i in range(len(rows)):
        # Days begin at a full minute: all columns change their floor in the same tick.
        if (i - delay) % per_minute == 0:
            floor = by_minute[minute[i]]
        autoscalers.decide(i, floor)
    return autoscalers.replicas
