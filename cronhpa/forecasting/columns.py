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
Rows = NDArray[np.int64]

MINUTES_PER_STEP = 5

_STEP_SECONDS = 60 * MINUTES_PER_STEP
_DAY_SECONDS = 86_400
_STEPS_PER_DAY = _DAY_SECONDS // _STEP_SECONDS
_BEFORE_SECONDS = 7_200
# int16 columns of this many fit the second-level cache with all that a tick looks at, and a day of them 50 MB.
_COLUMNS = 4_000
_REPLICAS_MAX = 30_000
_EPSILON = np.float32(1e-4)
# The upstream's default rates: in 15 s the larger of twice as many and four more.
_RATE_SECONDS = 15
# The upstream's default cpu-initialization-period.
_CPU_INITIALIZATION_SECONDS = 300


@dataclass(frozen=True)
class AutoscalerModel:
    """
    What a floor is tried in. Load is counted in what one pod can carry.

    target: the load a pod is scaled for, of what it can carry. percent: the target in percent of the request, for a
    Utilization target; None for an AverageValue. start_up_seconds: from created to Ready.
    The metric is the mean of `window_seconds` and `delay_seconds` old when it is read.
    is_linear: the load is linear between ticks; else it is constant until the next.
    tick_seconds: how often is decided, a divisor of 60. Ticks of a minute cost a quarter and are a tick late.
    """

    target: float = 0.6
    percent: int | None = 60
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
    the ready pods carry. actions: changes of the replica count.
    """

    under: NDArray[np.float32]
    pods: NDArray[np.float32]
    unserved: NDArray[np.float32]
    actions: NDArray[np.float32]


def simulate(load: Floats, floors: Counts, world: AutoscalerModel) -> Outcomes:
    """
    Scale under `load` with each row of `floors` as the least that may run.

    load: (ticks,), whole steps. floors: (candidates, minutes), the floor that holds from `delay_seconds` after the
    start of each minute of `load` for a minute; zero where there is none.
    """
    ticks = len(load)
    per_step = world.ticks(_STEP_SECONDS)
    found = Outcomes(*(np.zeros((len(floors), ticks // per_step), np.float32) for _ in range(4)))
    metric = _metric(load, world)
    for starts, rows in _segments(ticks, len(floors), world):
        replicas = _scale(metric, floors, np.clip(rows, 0, ticks - 1), world)
        kept = _score(load, replicas, np.clip(rows, 0, ticks - 1), world)
        for name, values in kept.items():
            target = getattr(found, name)
            for i, start in enumerate(starts):
                step = start // per_step
                upto = min(_STEPS_PER_DAY, target.shape[1] - step)
                target[:, step : step + upto] = values[:upto, i].T
    return found


def _metric(load: Floats, world: AutoscalerModel) -> Floats:
    """The mean of the window that was complete when each tick reads it."""
    per_tick = (load + np.append(load[1:], load[-1])) / 2 if world.is_linear else load
    total = np.concatenate([[0.0], np.cumsum(per_tick)])
    ticks = np.arange(len(total))
    # The first ticks find the load as it is at the start.
    end = np.maximum(ticks[:-1] - world.delay_seconds / world.tick_seconds, 0.0)
    begin = np.maximum(end - world.window_seconds / world.tick_seconds, 0.0)
    length = end - begin
    summed = np.interp(end, ticks, total) - np.interp(begin, ticks, total)
    metric: Floats = np.where(length > 0, summed / np.maximum(length, 1e-9), load[0])
    return np.maximum(metric, 0.0)


def _whole(values: Floats) -> Counts:
    return np.clip(values, 1, _REPLICAS_MAX).astype(np.int16)


def _segments(ticks: int, candidates: int, world: AutoscalerModel) -> Iterator[tuple[Rows, Rows]]:
    """
    (first tick of each day, rows of the load (ticks of the run-up and of a day, days)).

    So many days at once that days times candidates are about as many columns as fit the cache.
    """
    day, before = world.ticks(_DAY_SECONDS), world.ticks(_BEFORE_SECONDS)
    starts = np.arange(0, ticks, day)
    at_once = max(1, _COLUMNS // candidates)
    for first in range(0, len(starts), at_once):
        chosen = starts[first : first + at_once]
        yield chosen, np.arange(-before, day)[:, None] + chosen


def _scale(metric: Floats, floors: Counts, rows: Rows, world: AutoscalerModel) -> Counts:
    """Replicas (ticks, days, candidates) after each tick's decision; rows: (ticks, days) of the load."""
    loads = np.asarray(metric[rows], dtype=np.float32)[:, :, None]
    length, days = rows.shape
    shape = (days, len(floors))
    window = max(1, world.ticks(world.stabilization_seconds))
    per_minute, delay = world.ticks(60), world.ticks(world.delay_seconds)
    start_up = max(1, world.ticks(world.start_up_seconds))
    # A pod counts as unready until its metrics cover a window in which it was Ready, or its first minutes are over.
    initial = max(_CPU_INITIALIZATION_SECONDS - world.start_up_seconds, 0)
    unmeasured = world.ticks(min(world.delay_seconds + world.window_seconds, initial))
    minute = np.clip((rows - delay) // per_minute, 0, floors.shape[1] - 1)
    by_minute = np.ascontiguousarray(floors.T)
    doublings = world.tick_seconds // _RATE_SECONDS
    replicas = np.empty((length, *shape), np.int16)
    current = np.broadcast_to(_whole(np.ceil(loads[0] / world.target - 1e-6)), shape).copy()
    # Sliding maxima in blocks (van Herk, Gil and Werman): the maximum of this block so far, and what the block before
    # held from each of its ticks on.
    block = np.zeros((window, *shape), np.int16)
    newest = np.zeros(shape, np.int16)
    earlier = np.zeros((window + 1, *shape), np.int16)
    floor = by_minute[minute[0]]
    for i in range(length):
        # Days begin with a minute, so that all columns pass from one floor to the next in the same tick.
        if (i - delay) % per_minute == 0:
            floor = by_minute[minute[i]]
        place = i % window
        if place == 0:
            np.maximum.accumulate(block[::-1], axis=0, out=block[::-1])
            earlier[:window] = block
            newest[:] = 0
        # The metric is as old as its delay: its load was spread over the pods that were Ready then.
        end = max(i - delay, min(i, 1))
        ready = np.minimum.reduce(replicas[max(0, end - start_up) : end], axis=0, initial=_REPLICAS_MAX)
        if not i:
            ready = current
        measured = np.minimum.reduce(replicas[max(0, i - start_up - unmeasured) : i], axis=0, initial=_REPLICAS_MAX)
        merged = block[place]
        merged[...] = _proposed(loads[i], current, ready, np.minimum(measured, current), world)
        np.maximum(merged, floor, out=merged)
        np.maximum(newest, merged, out=newest)
        kept = np.maximum(newest, earlier[place + 1])
        np.minimum(kept, current, out=kept)
        np.maximum(kept, merged, out=kept)
        for _ in range(doublings):
            current = np.maximum(current * 2, current + 4)
            np.minimum(current, _REPLICAS_MAX // 2, out=current)
        np.minimum(current, kept, out=current)
        replicas[i] = current
    return replicas


def _proposed(
    load: NDArray[np.float32], current: Counts, ready: Counts, measured: Counts, world: AutoscalerModel
) -> Counts:
    """
    What the metric asks for, as the upstream computes it from pods.

    load: (days, 1). The load is spread over the `ready` pods; the `measured` ones have trustworthy metrics. Above the
    target, the others count with no usage; below it, they do not count.
    """
    # In whole percent of the request for a Utilization target: the upstream cuts off fractions.
    scale = np.float32(world.percent / world.target if world.percent else 1.0)
    goal = np.float32(world.percent or world.target)
    share = load * scale / np.maximum(ready, 1)
    usage = np.floor(share + _EPSILON) if world.percent else share
    rising = usage > goal
    diluted = share * measured / current
    if world.percent:
        np.floor(diluted + _EPSILON, out=diluted)
    usage = np.where(rising, diluted, usage)
    counted = np.where(rising, current, measured)
    asked = np.clip(np.ceil(usage * counted / goal - _EPSILON), 1, _REPLICAS_MAX)
    stays = (np.abs(usage / goal - 1) <= world.tolerance + 1e-6) | (rising & (usage < goal))
    return np.where(stays, current, asked).astype(np.int16)


def _score(load: Floats, replicas: Counts, rows: Rows, world: AutoscalerModel) -> dict[str, NDArray[np.float32]]:
    """(steps, days, candidates) of each outcome, for the ticks after the run-up."""
    before, per_step = world.ticks(_BEFORE_SECONDS), world.ticks(_STEP_SECONDS)
    ready = _ready(replicas, world.ticks(world.start_up_seconds))[before:]
    demand = load[rows[before:]]
    if world.is_linear:
        demand = (demand + load[np.minimum(rows[before:] + 1, len(load) - 1)]) / 2
    need = _whole(np.ceil(demand - 1e-9))[:, :, None]
    by_step = (_STEPS_PER_DAY, per_step, *replicas.shape[1:])
    short = ready < need
    under = np.add.reduce(short.view(np.int8).reshape(by_step), axis=1, dtype=np.int8)
    pods = np.add.reduce(replicas[before:].reshape(by_step), axis=1, dtype=np.int32)
    missing = np.where(short, demand.astype(np.float32)[:, :, None] - ready, np.float32(0))
    changed = replicas[before:] != replicas[before - 1 : -1]
    return {
        "under": under.astype(np.float32) * np.float32(world.tick_seconds),
        "pods": pods.astype(np.float32) / np.float32(per_step),
        "unserved": missing.reshape(by_step).sum(axis=1) / np.float32(per_step),
        "actions": np.add.reduce(changed.view(np.int8).reshape(by_step), axis=1, dtype=np.int8).astype(np.float32),
    }


def _ready(replicas: Counts, start_up: int) -> Counts:
    """Whoever is not ready is removed first, so what is ready is the least that ran since: a sliding minimum."""
    ready = replicas
    reach = 0
    while reach < start_up:
        step = min(max(reach, 1), start_up - reach)
        ready = np.concatenate([ready[:step], np.minimum(ready[step:], ready[:-step])])
        reach += step
    return ready
