"""
Floors from predictive distributions: choose the load that maximizes P(load suffices) - cost x (pods beyond reactive).

This is a newsvendor choice. It spends pods where they are few and the chance is high; one quantile for all hours would
pay as much for a minute at noon as for twenty at night. Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cronhpa.forecasting.candidates import CONSTANT_SHARES, COSTS
from cronhpa.forecasting.columns import Counts, Floats
from cronhpa_models.spike_hazard import Spikes

FLOOR_MAX = 14_000
HOURS = 24
# With a thousand earlier spikes, the intermediate arrays of more origins would not fit a cache.
_ORIGINS_AT_ONCE = 64


def priced_floors(
    load: Floats, cdf: Floats, running: Floats, carried: float | Floats, ceiling: Floats, cost: float | Floats
) -> NDArray[np.int16]:
    """
    Replicas worth their cost, zero where the running ones suffice.

    load, cdf: (..., bins), a predictive distribution. running: (...), replicas without a forecast. carried: load that
    one pod is planned for. ceiling: (...), the largest load that is believed. cost: of one pod beyond `running`, as a
    probability. carried, cost: one number, or (...); cost may have one leading axis more.
    """
    pods = np.ceil(np.minimum(load, ceiling[..., None]) / np.asarray(carried)[..., None] - 1e-9)
    more = np.maximum(pods - running[..., None], 0.0)
    if isinstance(cost, np.ndarray) and cost.ndim == pods.ndim:
        # The arrays of one cost fit a cache; those of all costs at once would not.
        return np.stack([_worth(pods, more, cdf, running, each) for each in cost])
    return _worth(pods, more, cdf, running, cost)


def _worth(pods: Floats, more: Floats, cdf: Floats, running: Floats, cost: float | Floats) -> NDArray[np.int16]:
    """The pods of the largest gain, zero where so many run. more: than `running`."""
    gain = cdf - np.asarray(cost)[..., None] * more
    best = np.argmax(gain, axis=-1)
    chosen = np.take_along_axis(pods, best[..., None], axis=-1)[..., 0]
    return np.where(chosen > running, np.clip(np.where(np.isnan(chosen), 0, chosen), 0, FLOOR_MAX), 0).astype(np.int16)


def constant_floors(reactive: Floats) -> tuple[int, ...]:
    """For each of CONSTANT_SHARES the highest constant floor that adds no more than that share of the pod-hours."""
    # A target of a thousandth and one spike ask for billions of pods: no floor is that high.
    counts = np.arange(int(min(reactive.max(), FLOOR_MAX)) + 1)
    order = np.sort(reactive)
    below = np.searchsorted(order, counts, side="right")
    extra = counts * below - np.concatenate([[0.0], np.cumsum(order)])[below]
    return tuple(
        int(np.searchsorted(extra, share * reactive.sum(), side="right")) - 1 if share else 0
        for share in CONSTANT_SHARES
    )


def hourly_floors(
    load: Floats, reactive: Floats, carried: float, mean_replicas: float, steps_per_day: int
) -> tuple[tuple[int, ...], ...]:
    """
    By COSTS, then by hour since the end of the load: the count that is worth its cost in that hour.

    Each hour maximizes P(count suffices) - cost x (pods that the count adds) over the steps of all days within an hour
    and a half of the hour's middle; a step for which the reactive count before it suffices needs nothing. load:
    (steps,), NaN for a gap. reactive: (steps,), the replicas without a forecast.
    """
    needed = np.clip(np.ceil(load / carried - 1e-9), 0, FLOOR_MAX)
    # The replicas in a gap are not known: the step after it is no jump.
    before = np.where(np.isnan(load), np.inf, reactive)
    needed[~(needed > np.concatenate([before[:1], before[:-1]]))] = 0
    since = (np.arange(len(load)) - len(load)) % steps_per_day
    apart = steps_per_day / HOURS
    costs = np.array(COSTS) / mean_replicas
    floors = np.zeros((len(COSTS), HOURS), np.int64)
    for hour in range(HOURS):
        off = np.abs(since + 0.5 - (hour + 0.5) * apart)
        near = (np.minimum(off, steps_per_day - off) < 1.5 * apart) & ~np.isnan(load)
        if not near.any():
            continue
        wanted, order = np.sort(needed[near]), np.sort(reactive[near])
        counts = np.unique(wanted)
        suffices = np.searchsorted(wanted, counts, side="right") / len(wanted)
        below = np.searchsorted(order, counts, side="right")
        extra = (counts * below - np.concatenate([[0.0], np.cumsum(order)])[below]) / len(order)
        floors[:, hour] = counts[(suffices - costs[:, None] * extra).argmax(axis=1)]
    return tuple(tuple(row) for row in floors.tolist())


def spike_floors(
    spikes: Spikes, running: Floats, carried: float | Floats, ceiling: Floats, costs: Sequence[float | Floats]
) -> Counts:
    """
    (costs, origins): replicas worth their cost in the one minute for which a pod requested now becomes Ready.

    running, ceiling: (origins,), as in `priced_floors`, running in whole replicas. carried, and each of the costs: one
    number, or (origins,). `spikes` has no heights where the probability of a spike is at most the lowest cost.
    """
    floors = np.zeros((len(costs), len(running)), np.int16)
    # Of spikes that take equally many pods the highest has the largest cdf, so the largest gain: `argmax` gives the
    # first of equals, which is the highest in reversed order.
    load, cdf = np.broadcast_to(spikes.load, spikes.cdf.shape)[:, ::-1], spikes.cdf[:, ::-1]
    carried_by, *of_costs = (np.broadcast_to(values, len(running))[spikes.at] for values in (carried, *costs))
    chance, runs, highest = spikes.chance[spikes.at], running[spikes.at], ceiling[spikes.at]
    for begin in range(0, len(spikes.at), _ORIGINS_AT_ONCE):
        rows = slice(begin, begin + _ORIGINS_AT_ONCE)
        pods = np.ceil(np.minimum(load[rows], highest[rows, None]) / carried_by[rows, None] - 1e-9)
        needed = chance[rows, None] * cdf[rows]
        more = np.maximum(pods - runs[rows, None], 0.0)
        for of_cost, cost in zip(floors, of_costs, strict=True):
            # Elsewhere a pod costs more than any spike is likely.
            asked = np.flatnonzero(chance[rows] > cost[rows])
            gain = needed[asked] - cost[rows][asked, None] * more[asked]
            best = gain.argmax(axis=1)
            chosen = pods[asked, best]
            is_worth = (gain[np.arange(len(asked)), best] > 0) & (chosen > runs[rows][asked])
            of_cost[spikes.at[rows][asked]] = np.where(is_worth, np.clip(chosen, 0, FLOOR_MAX), 0)
    return floors
