"""
Floors from predictive distributions: choose the load that maximizes P(load suffices) - cost x (pods beyond reactive).

This is a newsvendor choice. It adds pods when few are needed and the probability is high. One quantile for all hours
would pay as much for one avoided minute at noon as for many at night. Imports numpy: for workers and benchmarks only.
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
    Replicas worth their cost, zero if the running ones suffice.

    load, cdf: (..., bins), a predictive distribution. running: (...), replicas without a forecast. carried: the load
    that one pod is planned to carry. ceiling: (...), the largest plausible load. cost: of one pod beyond `running`, as
    a probability. carried, cost: one number, or (...); cost may have an additional leading axis.
    """
    pods = np.ceil(np.minimum(load, ceiling[..., None]) / np.asarray(carried)[..., None] - 1e-9)
    more = np.maximum(pods - running[..., None], 0.0)
    if isinstance(cost, np.ndarray) and cost.ndim == pods.ndim:
        # The arrays of one cost fit a cache; those of all costs at once would not.
        return np.stack([_worth(pods, more, cdf, running, cost_of_pod) for cost_of_pod in cost])
    return _worth(pods, more, cdf, running, cost)


def _worth(pods: Floats, more: Floats, cdf: Floats, running: Floats, cost: float | Floats) -> NDArray[np.int16]:
    """The number of pods with the largest gain, zero if that many run already. more: pods beyond `running`."""
    gain = cdf - np.asarray(cost)[..., None] * more
    best = np.argmax(gain, axis=-1)
    chosen = np.take_along_axis(pods, best[..., None], axis=-1)[..., 0]
    return np.where(chosen > running, np.clip(np.where(np.isnan(chosen), 0, chosen), 0, FLOOR_MAX), 0).astype(np.int16)


def constant_floors(reactive: Floats) -> tuple[int, ...]:
    """For each of CONSTANT_SHARES the highest constant floor that adds at most that share of the pod-hours."""
    # A spike under a tiny target asks for billions of pods: bound the search.
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

    Each hour maximizes P(count suffices) - cost x (pods that the count adds), over the steps of all days at most 1.5
    hours from the hour's middle; a step for which the former reactive count suffices needs no floor. load: (steps,),
    NaN for a gap. reactive: (steps,), the replicas without a forecast.
    """
    needed = np.clip(np.ceil(load / carried - 1e-9), 0, FLOOR_MAX)
    # The replicas in a gap are unknown: the step after a gap does not count as a jump.
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
    (costs, origins): replicas worth their cost in the minute for which a pod that is requested now becomes Ready.

    running, ceiling: (origins,), as in `priced_floors`, running in whole replicas. carried, and each cost: one number,
    or (origins,). `spikes` has heights only where P(spike) > the lowest cost.
    """
    floors = np.zeros((len(costs), len(running)), np.int16)
    # Among spikes that need the same number of pods the highest has the largest cdf, so the largest gain. In reversed
    # order it comes first, and `argmax` returns the first of equals.
    load, cdf = np.broadcast_to(spikes.load, spikes.cdf.shape)[:, ::-1], spikes.cdf[:, ::-1]
    carried_by, *of_costs = (np.broadcast_to(values, len(running))[spikes.at] for values in (carried, *costs))
    chance, runs, highest = spikes.chance[spikes.at], running[spikes.at], ceiling[spikes.at]
    for begin in range(0, len(spikes.at), _ORIGINS_AT_ONCE):
        rows = slice(begin, begin + _ORIGINS_AT_ONCE)
        pods = np.ceil(np.minimum(load[rows], highest[rows, None]) / carried_by[rows, None] - 1e-9)
        needed = chance[rows, None] * cdf[rows]
        more = np.maximum(pods - runs[rows, None], 0.0)
        for of_cost, cost in zip(floors, of_costs, strict=True):
            # At all other origins cost >= P(spike): no pod is worth it.
            asked = np.flatnonzero(chance[rows] > cost[rows])
            gain = needed[asked] - cost[rows][asked, None] * more[asked]
            best = gain.argmax(axis=1)
            chosen = pods[asked, best]
            is_worth = (gain[np.arange(len(asked)), best] > 0) & (chosen > runs[rows][asked])
            of_cost[spikes.at[rows][asked]] = np.where(is_worth, np.clip(chosen, 0, FLOOR_MAX), 0)
    return floors
