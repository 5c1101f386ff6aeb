"""
Many floors on one load at once: a horizontal autoscaler in numpy columns, a tick of 15 s after the other.

It is what a shadow run can afford for every candidate, where the real `decide` can be run for the winner alone. It
follows the upstream tick for tick: which pods have samples and which of those count, whole milli-units and percents,
the tolerance, scale-down stabilization, the rate of an object without a behavior. It leaves out schedules, behaviors,
and more than one metric. It refuses nothing; columns in, columns out. Imports numpy: for workers and benchmarks only.

A day needs nothing of the day before but its last two hours, as the memory of a stabilization window is five minutes:
all days are columns, and a tick costs the same for a year as for a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

Floats = NDArray[np.float64]
Shares = NDArray[np.float32]
Counts = NDArray[np.int16]
Rows = NDArray[np.int64]

MINUTES_PER_STEP = 5

_STEP_SECONDS = 60 * MINUTES_PER_STEP
_DAY_SECONDS = 86_400
_BEFORE_SECONDS = 7_200
# int16 columns of this many fit the second-level cache with all that a tick looks at, and a day of them 50 MB.
_COLUMNS = 4_000
_REPLICAS_MAX = 30_000
_EPSILON = 1e-4  # float32 meets whole percents and milli-units but for its last digits
_HAIR = 1e-6  # of loads in pods
# The upstream's rate without a behavior: twice as many in 15 s, or four.
_RATE_SECONDS = 15
# The upstream's default cpu-initialization-period.
_CPU_INITIALIZATION_SECONDS = 300
# A younger pod has no sample: as in metrics-server, freshContainerMinMetricsResolution.
_FRESH_SECONDS = 10


@dataclass(frozen=True)
class Utilization:
    """A target in whole percent of the request; request: a share of what a pod can carry."""

    percent: int
    request: float = 1.0

    @property
    def load(self) -> float:
        """The load a pod is scaled for, a share of what it can carry."""
        return self.percent / 100 * self.request


@dataclass(frozen=True)
class AverageValue:
    """A target that is a load; load: a share of what a pod can carry."""

    load: float


@dataclass(frozen=True)
class AutoscalerModel:
    """
    What a floor is tried in. Load is counted in what one pod can carry.

    goal: the metric's target. milli: what one pod can carry, in milli-units of the metric: a sample is a whole number
    of them. is_cpu: starting pods do not count with their samples. start_up_seconds: from created to Ready.
    The metric is the mean of `window_seconds` and `delay_seconds` old when it is read.
    is_linear: the load is linear between ticks; else it is constant until the next.
    tick_seconds: how often is decided, a divisor of 60. Ticks of a minute cost a quarter and are a tick late.
    """

    goal: Utilization | AverageValue = Utilization(60)
    milli: float = 1000.0
    is_cpu: bool = True
    start_up_seconds: int = 120
    delay_seconds: int = 30
    window_seconds: int = 60
    tolerance: float = 0.1
    stabilization_seconds: int = 300
    tick_seconds: int = 15
    is_linear: bool = True

    def ticks(self, seconds: int) -> int:
        """How many ticks these seconds are, rounded to the nearest."""
        return (seconds + self.tick_seconds // 2) // self.tick_seconds


@dataclass(frozen=True)
class Outcomes:
    """
    What each candidate came to, step by step of five minutes; each (candidates, steps).

    under: seconds with more load than the ready pods can carry. pods: mean replicas. unserved: mean load above what
    the ready pods carry. actions: changes of the replica count. lowest, highest: replicas.
    """

    under: NDArray[np.float32]
    pods: NDArray[np.float32]
    unserved: NDArray[np.float32]
    actions: NDArray[np.float32]
    lowest: NDArray[np.float32]
    highest: NDArray[np.float32]


def simulate(load: Floats, floors: Counts, world: AutoscalerModel, span_seconds: int = _DAY_SECONDS) -> Outcomes:
    """
    Scale under `load` with each row of `floors` as the least that may run.

    load: (ticks,), whole steps. floors: (candidates, minutes), the floor that holds from `delay_seconds` after the
    start of each minute of `load` for a minute; zero where there is none. span_seconds: of what is simulated side by
    side, whole steps; each span begins with the pods that its load needs two hours before.
    """
    ticks = len(load)
    per_step = world.ticks(_STEP_SECONDS)
    found = Outcomes(*(np.zeros((len(floors), ticks // per_step), np.float32) for _ in range(6)))
    served = mean_loads(load, world)
    span = world.ticks(span_seconds)
    for starts, rows in _spans(ticks, span, len(floors), world):
        replicas = _scale(served, floors, np.clip(rows, 0, ticks - 1), world)
        kept = _score(load, replicas, np.clip(rows, 0, ticks - 1), world)
        for name, values in kept.items():
            target = getattr(found, name)
            for i, start in enumerate(starts):
                part = target[:, start // per_step :][:, : span // per_step]
                part[:] = values[: part.shape[1], i].T
    return found


def _spans(ticks: int, span: int, candidates: int, world: AutoscalerModel) -> Iterator[tuple[Rows, Rows]]:
    """
    (first tick of each span, rows of the load (ticks of the run-up and of a span, spans)).

    So many spans at once that spans times candidates are about as many columns as fit the cache.
    """
    starts = np.arange(0, ticks, span)
    at_once = max(1, _COLUMNS // candidates)
    for first in range(0, len(starts), at_once):
        chosen = starts[first : first + at_once]
        yield chosen, np.arange(-world.ticks(_BEFORE_SECONDS), span)[:, None] + chosen


class _SlidingMaximum:
    """
    The maximum of the newest `window` rows (van Herk, Gil and Werman): of this block of rows so far, and of what the
    block before held from each of its rows on.
    """

    def __init__(self, window: int, shape: tuple[int, ...]) -> None:
        self._window = window
        self._block = np.zeros((window, *shape), np.int16)
        self._newest = np.zeros(shape, np.int16)
        self._earlier = np.zeros((window + 1, *shape), np.int16)
        self._place = -1

    def with_newest(self, row: Counts) -> Counts:
        """Adds a row, and drops the oldest."""
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
    From which age on, in ticks, a pod is Ready, has a sample, is trusted, and has a sample of a whole window.

    By a metric of CPU a pod is trusted once it was Ready in all of a window, or is Ready and older than the upstream's
    default cpu-initialization-period; by another metric as soon as it has a sample.
    """

    ready: int
    sampled: int
    trusted: int
    whole: int

    @classmethod
    def of(cls, world: AutoscalerModel) -> _Ages:
        start_up, measured = world.start_up_seconds, world.delay_seconds + world.window_seconds

        def ticks(seconds: int) -> int:
            return -(-seconds // world.tick_seconds)

        whole, sampled = ticks(start_up + measured), ticks(world.delay_seconds + _FRESH_SECONDS)
        trusted = min(whole, ticks(max(_CPU_INITIALIZATION_SECONDS, start_up))) if world.is_cpu else sampled
        return cls(ready=world.ticks(start_up), sampled=sampled, trusted=trusted, whole=whole)


class _Samples:
    """
    Samples of pods, in milli-units: the mean over a window of what a Ready pod served tick by tick.

    weights: by how many ticks ago a tick began, what a load of 1 in it adds to the sample.
    """

    def __init__(self, world: AutoscalerModel, served: Shares) -> None:
        """served: what a Ready pod has served in each tick before the first."""
        tick, begin, end = world.tick_seconds, world.delay_seconds + world.window_seconds, world.delay_seconds
        overlaps = {
            k: min(begin, k * tick) - max(end, (k - 1) * tick) for k in range(end // tick + 1, -(-begin // tick) + 1)
        }
        self.weights = {k: np.float32(world.milli * each / world.window_seconds) for k, each in overlaps.items()}
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
    """What the metric asks for, as the upstream computes it from pods."""

    def __init__(self, world: AutoscalerModel) -> None:
        if isinstance(world.goal, Utilization):
            # The mean is in percent of the request, and a pod without a sample is assumed to use all of it.
            self._goal, self._per_unit = world.goal.percent, 100 / (world.milli * world.goal.request)
            self._busy = max(100, world.goal.percent)
        else:
            self._goal, self._per_unit = max(round(world.milli * world.goal.load), 1), 1.0
            self._busy = self._goal
        near = np.arange(int(self._goal * (1 - world.tolerance)) - 2, int(self._goal * (1 + world.tolerance)) + 3)
        covered = near[(near / self._goal >= 1 - world.tolerance) & (near / self._goal <= 1 + world.tolerance)]
        self._covered = covered[0], covered[-1]

    def of(self, usage: Shares, current: Counts, trusted: Counts, missing: Counts | None) -> Counts:
        """
        usage: of the `trusted` pods. missing: pods without a sample, None if there are none.

        Above the target, all pods but the trusted ones count with no usage. Below it, those without a sample count as
        busy as their request allows, and the others do not count.
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
        asked = mean / self._goal
        asked *= counted
        np.ceil(asked, out=asked)
        np.minimum(asked, _REPLICAS_MAX, out=asked)
        # Whole percents above the target may be below it once all pods are counted: the count stays.
        asked = np.where(rising, np.maximum(asked, current), asked)
        return np.where(stays, current, asked).astype(np.int16)


class Autoscalers:
    """
    Autoscalers side by side under one load, decided tick after tick: for floors that depend on what came before.

    first: (days, columns), the replicas at the begin. replicas: (ticks, days, columns) after each tick decided so far.
    """

    def __init__(self, load: NDArray[np.float64 | np.float32], columns: int, world: AutoscalerModel) -> None:
        """load: (ticks, days), the mean load of each tick. They begin with the pods that the first tick needs."""
        self._load = np.asarray(load, dtype=np.float32)[:, :, None]
        self._ages, self._proposals = _Ages.of(world), _Proposals(world)
        self._doubled = 2 ** (world.tick_seconds // _RATE_SECONDS)
        length, days, _ = self._load.shape
        self.replicas = np.empty((length, days, columns), np.int16)
        needed = np.clip(np.ceil(self._load[0] / world.goal.load - 1e-6), 1, _REPLICAS_MAX).astype(np.int16)
        self._current = np.broadcast_to(needed, (days, columns))
        self.first = self._current
        self._samples = _Samples(world, self._load[0] / self._current)
        # An entry that is exactly as old as the window counts.
        window = world.stabilization_seconds // world.tick_seconds + 1
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
        # What metrics asked for may raise; what a floor asked for is held, at most at the current count.
        held = np.minimum(self._merged.with_newest(merged), current)
        np.maximum(held, self._measured.with_newest(measured), out=held)
        np.maximum(held, merged, out=held)
        self._current = np.minimum(held, limit, out=self.replicas[tick])
        ready = np.minimum.reduce(self.replicas[max(0, tick - ages.ready) : tick + 1], axis=0)
        samples.add(tick, self._load[tick] / ready)
        return self._current

    def _older(self, tick: int, age: int) -> Counts:
        """Pods of at least this age, in ticks: the youngest go first, so the fewest that ran since they were made."""
        return np.minimum.reduce(self.replicas[max(0, tick - age) : tick], axis=0) if tick else self._current


def outcomes_of(load: Floats, replicas: Counts, world: AutoscalerModel) -> Outcomes:
    """The outcomes of counts; replicas: (ticks, candidates) after each tick's decision, whole steps from the begin."""
    before = np.repeat(replicas[:1], world.ticks(_BEFORE_SECONDS), axis=0)
    rows = np.arange(-len(before), len(replicas))[:, None].clip(0)
    scored = _score(load, np.concatenate([before, replicas])[:, None], rows, world)
    return Outcomes(**{name: values[:, 0].T for name, values in scored.items()})


def mean_loads(load: Floats, world: AutoscalerModel) -> Floats:
    """(ticks,): the mean of each tick, from the load at the begin of each."""
    return (load + np.append(load[1:], load[-1])) / 2 if world.is_linear else load


def _scale(load: Floats, floors: Counts, rows: Rows, world: AutoscalerModel) -> Counts:
    """
    Replicas (ticks, days, candidates) after each tick's decision.

    load: (ticks of the load,), the mean of each; rows: (ticks, days) of it.
    """
    per_minute, delay = world.ticks(60), world.ticks(world.delay_seconds)
    minute = np.clip((rows - delay) // per_minute, 0, floors.shape[1] - 1)
    by_minute = np.maximum(np.ascontiguousarray(floors.T), 1)
    autoscalers = Autoscalers(load[rows], len(floors), world)
    floor = by_minute[minute[0]]
    for i in range(len(rows)):
        # Days begin with a minute, so that all columns pass from one floor to the next in the same tick.
        if (i - delay) % per_minute == 0:
            floor = by_minute[minute[i]]
        autoscalers.decide(i, floor)
    return autoscalers.replicas


def _score(load: Floats, replicas: Counts, rows: Rows, world: AutoscalerModel) -> dict[str, NDArray[np.float32]]:
    """(steps, days, candidates) of each outcome, for the ticks after the run-up."""
    before, per_step = world.ticks(_BEFORE_SECONDS), world.ticks(_STEP_SECONDS)
    ready = _ready(replicas, world.ticks(world.start_up_seconds))[before:]
    rows = rows[before:]
    by_step = (-1, per_step, *replicas.shape[1:])
    begin = load[rows].astype(np.float32)[:, :, None]
    end = load[np.minimum(rows + 1, len(load) - 1)].astype(np.float32)[:, :, None] if world.is_linear else begin
    short, missing = _shortage(begin, end, ready)
    of_steps = replicas[before:].reshape(by_step)
    pods = np.add.reduce(of_steps, axis=1, dtype=np.int32)
    changed = replicas[before:] != replicas[before - 1 : -1]
    return {
        "under": np.add.reduce(short.reshape(by_step), axis=1, dtype=np.float32) * np.float32(world.tick_seconds),
        "pods": pods.astype(np.float32) / np.float32(per_step),
        "unserved": missing.reshape(by_step).sum(axis=1) / np.float32(per_step),
        "actions": np.add.reduce(changed.view(np.int8).reshape(by_step), axis=1, dtype=np.int8).astype(np.float32),
        "lowest": np.minimum.reduce(of_steps, axis=1).astype(np.float32),
        "highest": np.maximum.reduce(of_steps, axis=1).astype(np.float32),
    }


def _shortage(begin: Shares, end: Shares, ready: Counts) -> tuple[Shares, Shares]:
    """
    The part of each tick in which the load is more than the ready pods carry, and the mean load above that.

    begin, end: of the load, a straight line in a tick.
    """
    if begin is end:
        over = np.maximum(begin - ready, 0)
        return (over > _HAIR).astype(np.float32), over
    low, high = np.minimum(begin, end) - ready, np.maximum(begin, end) - ready
    short = np.clip(high / np.maximum(high - low, np.float32(_HAIR)), 0, 1)
    return short, np.where(low >= 0, (low + high) / 2, short * np.maximum(high, 0) / 2)


def _ready(replicas: Counts, start_up: int) -> Counts:
    """Whoever is not ready is removed first, so what is ready is the least that ran since: a sliding minimum."""
    ready = replicas
    reach = 0
    while reach < start_up:
        step = min(max(reach, 1), start_up - reach)
        ready = np.concatenate([ready[:step], np.minimum(ready[step:], ready[:-step])])
        reach += step
    return ready
