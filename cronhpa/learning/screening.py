"""
Many floors on one load at once: a horizontal autoscaler in numpy columns, a tick of 15 s after the other.

It is what a shadow run can afford for every candidate, where the real `decide` can be run for the winner alone. What
it keeps of the upstream: the ratio with its tolerance, scale-down stabilization over the merged proposals, the default
scale-up rates. What it leaves out: pods without metrics, schedules, other policies. It refuses nothing; columns in,
columns out. Imports numpy: for workers and benchmarks only.

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
Counts = NDArray[np.int16]

TICK_SECONDS = 15
TICKS_PER_MINUTE = 60 // TICK_SECONDS
MINUTES_PER_STEP = 5
TICKS_PER_STEP = MINUTES_PER_STEP * TICKS_PER_MINUTE

_DAY_TICKS = 86_400 // TICK_SECONDS
_BEFORE_TICKS = 7_200 // TICK_SECONDS
# int16 columns of this many fit the second-level cache with all that a tick looks at.
_COLUMNS = 12_000
_REPLICAS_MAX = 30_000


@dataclass(frozen=True)
class World:
    """
    What a floor is tried in. Load is counted in what one pod can carry.

    target: the load a pod is scaled for, of what it can carry. start_up_seconds: from created to Ready.
    The metric is the mean of `window_seconds` and `delay_seconds` old when it is read.
    """

    target: float = 0.6
    start_up_seconds: int = 120
    delay_seconds: int = 30
    window_seconds: int = 60
    tolerance: float = 0.1
    stabilization_seconds: int = 300
    can_clip: bool = False


@dataclass(frozen=True)
class Outcomes:
    """
    What each candidate came to, step by step of five minutes; each (candidates, steps).

    under: seconds with more load than the ready pods can carry. pods: mean replicas. unserved: mean load above what
    the ready pods carry. actions: changes of the replica count.
    """

    under: NDArray[np.float32]
    pods: NDArray[np.float32]
    unserved: NDArray[np.float32]
    actions: NDArray[np.float32]


def simulate(load: Floats, floors: Counts, world: World) -> Outcomes:
    """
    Scale under `load` with each row of `floors` as the least that may run.

    load: (ticks,), whole steps. floors: (candidates, minutes), the floor that holds from `delay_seconds` after the
    start of each minute of `load` for a minute; zero where there is none.
    """
    ticks = len(load)
    candidates = len(floors)
    steps = ticks // TICKS_PER_STEP
    found = Outcomes(*(np.zeros((candidates, steps), np.float32) for _ in range(4)))
    signals = _Signals.of(load, world)
    delay = world.delay_seconds // TICK_SECONDS
    # The floor in force at each tick, as the number of its minute.
    minute = np.clip((np.arange(ticks) - delay) // TICKS_PER_MINUTE, 0, floors.shape[1] - 1)
    for first, count in _segments(ticks, candidates):
        starts = first + np.arange(count) * _DAY_TICKS
        rows = starts[:, None] + np.arange(-_BEFORE_TICKS, _DAY_TICKS)
        inside = (rows >= 0) & (rows < ticks)
        rows = np.clip(rows, 0, ticks - 1)
        replicas = _scale(signals, floors, minute, rows.T, world)
        kept = _score(load, replicas, rows.T, world)
        for name, values in kept.items():
            target = getattr(found, name)
            for i, start in enumerate(starts):
                step = start // TICKS_PER_STEP
                upto = int(inside[i, _BEFORE_TICKS:].sum()) // TICKS_PER_STEP
                target[:, step : step + upto] = values[:upto, i].T
    return found


@dataclass(frozen=True)
class _Signals:
    """(ticks,): what the metric asks for, and the counts that its tolerance leaves alone."""

    wanted: Counts
    low: Counts
    high: Counts

    @classmethod
    def of(cls, load: Floats, world: World) -> _Signals:
        metric = _metric(load, world)
        return cls(
            wanted=_whole(np.ceil(metric / world.target - 1e-9)),
            low=_whole(np.ceil(metric / (world.target * (1 + world.tolerance)) - 1e-9)),
            high=_whole(np.floor(metric / (world.target * (1 - world.tolerance)) + 1e-9)),
        )


def _metric(load: Floats, world: World) -> Floats:
    """The mean of the window that was complete when each tick reads it."""
    window, delay = world.window_seconds // TICK_SECONDS, world.delay_seconds // TICK_SECONDS
    total = np.concatenate([[0.0], np.cumsum(load)])
    end = np.clip(np.arange(len(load)) - delay + 1, 1, len(load))
    begin = np.maximum(end - window, 0)
    metric: Floats = (total[end] - total[begin]) / (end - begin)
    return np.maximum(metric, 0.0)


def _whole(values: Floats) -> Counts:
    return np.clip(values, 1, _REPLICAS_MAX).astype(np.int16)


def _segments(ticks: int, candidates: int) -> Iterator[tuple[int, int]]:
    """(first tick, days) so that days times candidates are about as many columns as fit the cache."""
    at_once = max(1, _COLUMNS // candidates)
    for first in range(0, ticks, at_once * _DAY_TICKS):
        yield first, min(at_once, -(-(ticks - first) // _DAY_TICKS))


def _scale(
    signals: _Signals, floors: Counts, minute: NDArray[np.int64], rows: NDArray[np.int64], world: World
) -> Counts:
    """Replicas (ticks, days, candidates) after each tick's decision; rows: (ticks, days) of the load."""
    wanted, low, high = signals.wanted[rows], signals.low[rows], signals.high[rows]
    length, days = rows.shape
    shape = (days, len(floors))
    window = world.stabilization_seconds // TICK_SECONDS
    replicas = np.empty((length, *shape), np.int16)
    proposed = np.empty((length, *shape), np.int16)
    current = np.broadcast_to(wanted[0][:, None], shape).copy()
    newest = np.zeros(shape, np.int16)  # the maximum of the proposals of this block
    # Sliding maxima in blocks (van Herk, Gil and Werman): what the last block held from each of its ticks on.
    earlier = np.zeros((window + 1, *shape), np.int16)
    by_minute = floors.T
    floor = by_minute[minute[rows[0]]]
    # Days begin with a minute, so that all columns pass from one floor to the next in the same tick.
    passes = world.delay_seconds // TICK_SECONDS % TICKS_PER_MINUTE
    for i in range(length):
        if i % TICKS_PER_MINUTE == passes:
            floor = by_minute[minute[rows[i]]]
        # Within the tolerance the count stays; below `low` and above `high` the metric's own count holds.
        keeps = (current >= low[i][:, None]) & (current <= high[i][:, None])
        merged = np.where(keeps, current, wanted[i][:, None])
        np.maximum(merged, floor, out=merged)
        proposed[i] = merged
        place = i % window
        if place == 0:
            newest[:] = merged
            if i:
                block = proposed[i - window : i]
                earlier[:window] = np.maximum.accumulate(block[::-1], axis=0)[::-1]
        else:
            np.maximum(newest, merged, out=newest)
        highest = np.maximum(newest, earlier[place + 1] if place + 1 < window else 0)
        np.minimum(highest, current, out=highest)
        np.maximum(merged, highest, out=merged)
        most = np.maximum(current * 2, current + 4)
        np.minimum(merged, most, out=current)
        np.minimum(current, _REPLICAS_MAX // 2, out=current)
        replicas[i] = current
    return replicas


def _score(load: Floats, replicas: Counts, rows: NDArray[np.int64], world: World) -> dict[str, NDArray[np.float32]]:
    """(steps, days, candidates) of each outcome, for the ticks after the run-up."""
    start_up = world.start_up_seconds // TICK_SECONDS
    # Whoever is not ready is removed first, so what is ready is the least that ran since: a sliding minimum.
    ready = replicas
    reach = 0
    while reach < start_up:
        step = min(max(reach, 1), start_up - reach)
        ready = np.concatenate([ready[:step], np.minimum(ready[step:], ready[:-step])])
        reach += step
    kept = slice(_BEFORE_TICKS, None)
    demand = load[rows[kept]]
    need = _whole(np.ceil(demand - 1e-9))[:, :, None]
    steps = _DAY_TICKS // TICKS_PER_STEP
    by_step = (steps, TICKS_PER_STEP, *replicas.shape[1:])
    short = ready[kept] < need
    under = short.reshape(by_step).sum(axis=1, dtype=np.float32) * np.float32(TICK_SECONDS)
    pods = replicas[kept].reshape(by_step).sum(axis=1, dtype=np.float32) / np.float32(TICKS_PER_STEP)
    missing = np.where(short, demand.astype(np.float32)[:, :, None] - ready[kept], np.float32(0))
    unserved = missing.reshape(by_step).sum(axis=1) / np.float32(TICKS_PER_STEP)
    changed = replicas[kept] != replicas[_BEFORE_TICKS - 1 : -1]
    actions = changed.reshape(by_step).sum(axis=1, dtype=np.float32)
    return {"under": under, "pods": pods, "unserved": unserved, "actions": actions}


def reactive_replicas(load: Floats, world: World) -> Counts:
    """(minutes,): what the metric alone runs when the floor of each minute would come into force."""
    ticks = len(load)
    signals = _Signals.of(load, world)
    minute = np.zeros(ticks, np.int64)
    found = np.empty(ticks, np.int16)
    for first, count in _segments(ticks, 1):
        starts = first + np.arange(count) * _DAY_TICKS
        rows = starts[:, None] + np.arange(-_BEFORE_TICKS, _DAY_TICKS)
        inside = (rows >= 0) & (rows < ticks)
        replicas = _scale(signals, np.zeros((1, 1), np.int16), minute, np.clip(rows, 0, ticks - 1).T, world)
        for i, start in enumerate(starts):
            upto = int(inside[i, _BEFORE_TICKS:].sum())
            found[start : start + upto] = replicas[_BEFORE_TICKS : _BEFORE_TICKS + upto, i, 0]
    at = np.arange(0, ticks, TICKS_PER_MINUTE) + world.delay_seconds // TICK_SECONDS
    return found[np.minimum(at, ticks - 1)]
