"""
The outcomes of replica counts under a load: under-provisioned time, pod-hours, actions; a column for each candidate.

Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cronhpa.forecasting.columns import AutoscalerModel, Counts, Floats, Rows, Shares

STEP_SECONDS = 300
# Run-up of each span before its first tick.
BEFORE_SECONDS = 7_200
# Bounds the intermediate arrays: with a few thousand columns this many steps take a megabyte each.
_STEPS_AT_ONCE = 12
_HAIR = 1e-6  # rounding error of loads, in pods


@dataclass(frozen=True)
class Outcomes:
    """The outcome of each candidate in steps of five minutes; each (candidates, steps)."""

    under: NDArray[np.float32]
    """Seconds with more load than the ready pods can carry."""
    pods: NDArray[np.float32]
    """Mean replicas."""
    unserved: NDArray[np.float32]
    """Mean load above the capacity of the ready pods."""
    actions: NDArray[np.float32]
    """Changes of the replica count."""
    lowest: NDArray[np.float32]
    highest: NDArray[np.float32]
    """The smallest and the largest count of replicas."""


def outcomes_of(load: Floats, replicas: Counts, autoscaler: AutoscalerModel) -> Outcomes:
    """The outcomes of replica counts: (ticks, candidates), after each tick's decision, whole steps from the begin."""
    before = np.repeat(replicas[:1], autoscaler.ticks(BEFORE_SECONDS), axis=0)
    rows = np.arange(-len(before), len(replicas))[:, None].clip(0)
    outcomes = scored(load, np.concatenate([before, replicas])[:, None], rows, autoscaler)
    return Outcomes(**{name: values[:, 0].T for name, values in outcomes.items()})


def scored(load: Floats, replicas: Counts, rows: Rows, autoscaler: AutoscalerModel) -> dict[str, NDArray[np.float32]]:
    """(steps, days, candidates) of each outcome, for the ticks after the run-up."""
    before, per_step = autoscaler.ticks(BEFORE_SECONDS), autoscaler.ticks(STEP_SECONDS)
    start_up = autoscaler.ticks(autoscaler.start_up_seconds)
    steps = (len(replicas) - before) // per_step
    outcomes: dict[str, NDArray[np.float32]] = {}
    for step in range(0, steps, _STEPS_AT_ONCE):
        first, end = before + step * per_step, before + min(step + _STEPS_AT_ONCE, steps) * per_step
        # Pods that are Ready in the first tick were created a start-up time before it, or before the known replicas.
        begin = max(first - start_up, 0)
        ready = _ready(replicas[begin:end], start_up)[first - begin :]
        part = _scored(load, replicas[first - 1 : end], ready, rows[first:end], autoscaler)
        for name, values in part.items():
            if name not in outcomes:
                outcomes[name] = np.empty((steps, *values.shape[1:]), np.float32)
            outcomes[name][step : step + len(values)] = values
    return outcomes


def _scored(
    load: Floats, replicas: Counts, ready: Counts, rows: Rows, autoscaler: AutoscalerModel
) -> dict[str, NDArray[np.float32]]:
    """As `scored`, for some whole steps. replicas: including the tick before them."""
    per_step = autoscaler.ticks(STEP_SECONDS)
    now = replicas[1:]
    by_step = (-1, per_step, *now.shape[1:])
    begin = load[rows].astype(np.float32)[:, :, None]
    end = load[np.minimum(rows + 1, len(load) - 1)].astype(np.float32)[:, :, None] if autoscaler.is_linear else begin
    short, missing = _shortage(begin, end, ready)
    of_steps = now.reshape(by_step)
    pods = np.add.reduce(of_steps, axis=1, dtype=np.int32)
    changed = now != replicas[:-1]
    return {
        "under": np.add.reduce(short.reshape(by_step), axis=1, dtype=np.float32) * np.float32(autoscaler.tick_seconds),
        "pods": pods.astype(np.float32) / np.float32(per_step),
        "unserved": missing.reshape(by_step).sum(axis=1) / np.float32(per_step),
        "actions": np.add.reduce(changed.view(np.int8).reshape(by_step), axis=1, dtype=np.int8).astype(np.float32),
        "lowest": np.minimum.reduce(of_steps, axis=1).astype(np.float32),
        "highest": np.maximum.reduce(of_steps, axis=1).astype(np.float32),
    }


def _shortage(begin: Shares, end: Shares, ready: Counts) -> tuple[Shares, Shares]:
    """
    The part of each tick in which the load exceeds the capacity of the ready pods, and the mean excess.

    begin, end: the load at the begin and the end of each tick; it is linear in between.
    """
    if begin is end:
        over = np.maximum(begin - ready, 0)
        return (over > _HAIR).astype(np.float32), over
    low, high = np.minimum(begin, end) - ready, np.maximum(begin, end) - ready
    short = np.clip(high / np.maximum(high - low, np.float32(_HAIR)), 0, 1)
    return short, np.where(low >= 0, (low + high) / 2, short * np.maximum(high, 0) / 2)


def _ready(replicas: Counts, start_up: int) -> Counts:
    """Scale-down removes pods that are not Ready first: the Ready count is the minimum over a start-up time."""
    ready = replicas
    reach = 0
    while reach < start_up:
        step = min(max(reach, 1), start_up - reach)
        ready = np.concatenate([ready[:step], np.minimum(ready[step:], ready[:-step])])
        reach += step
    return ready
