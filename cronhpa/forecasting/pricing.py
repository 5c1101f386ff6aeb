"""
Provisioned replicas from predictive distributions: the counts that are worth their cost.

The rule is `worth_most`, a newsvendor choice: P(load suffices) - price x extra pods. It adds pods when few are needed
and the probability is high. One quantile for all hours would pay as much for one avoided minute at noon as for many at
night. Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cronhpa.forecasting.candidates import CONSTANT_SHARES, COSTS
from cronhpa.forecasting.columns import Counts, Floats
from cronhpa_models.spike_hazard import Spikes

REPLICAS_MAX = 14_000
HOURS = 24
# With a thousand earlier spikes, the intermediate arrays of more origins would not fit a cache.
_ORIGINS_AT_ONCE = 64


def worth_most(suffices: Floats, extra: Floats, price: Floats | float) -> tuple[NDArray[np.intp], Floats]:
    """
    The choice with the largest P(load suffices) - price x extra pods, the first of equals; and this gain.

    suffices, extra: (..., choices). price: (...), of one extra pod, as a probability. Returns two arrays of (...).
    """
    gain = suffices - np.asarray(price)[..., None] * extra
    best = np.argmax(gain, axis=-1)
    return best, np.take_along_axis(gain, best[..., None], axis=-1)[..., 0]


def provisioned_replicas(
    load: Floats, cdf: Floats, running: Floats, carried: float | Floats, ceiling: Floats, cost: float | Floats
) -> NDArray[np.int16]:
    """
    Replicas worth their cost, zero if the running ones suffice.

    load, cdf: (..., bins), a predictive distribution. running: (...), replicas without a forecast. carried: the load
    that one pod is planned to carry. ceiling: (...), the largest plausible load. cost: of one pod beyond `running`, as
    a probability. carried, cost: one number, or (...); cost may have an additional leading axis.
    """
    pods = np.ceil(np.minimum(load, ceiling[..., None]) / np.asarray(carried)[..., None] - 1e-9)
    extra = np.maximum(pods - running[..., None], 0.0)

    def at(price: float | Floats) -> NDArray[np.int16]:
        best, _ = worth_most(cdf, extra, price)
        chosen = np.take_along_axis(pods, best[..., None], axis=-1)[..., 0]
        return np.where(chosen > running, np.clip(np.nan_to_num(chosen), 0, REPLICAS_MAX), 0).astype(np.int16)

    if isinstance(cost, np.ndarray) and cost.ndim == pods.ndim:
        # The arrays of one cost fit a cache; those of all costs at once would not.
        return np.stack([at(cost_of_pod) for cost_of_pod in cost])
    return at(cost)


def constant_replicas(reactive: Floats) -> tuple[int, ...]:
    """For each of CONSTANT_SHARES the highest constant count that adds at most that share of the pod-hours."""
    # A spike under a tiny target asks for billions of pods: bound the search.
    counts = np.arange(int(min(reactive.max(), REPLICAS_MAX)) + 1)
    order = np.sort(reactive)
    below = np.searchsorted(order, counts, side="right")
    extra = counts * below - np.concatenate([[0.0], np.cumsum(order)])[below]
    return tuple(
        int(np.searchsorted(extra, share * reactive.sum(), side="right")) - 1 if share else 0
        for share in CONSTANT_SHARES
    )


def hourly_replicas(
    load: Floats, reactive: Floats, carried: float, mean_replicas: float, steps_per_day: int
) -> tuple[tuple[int, ...], ...]:
    """
    By COSTS, then by hour since the end of the load: the count that is worth its cost in that hour.

    Each hour counts the steps of all days at most 1.5 hours from the hour's middle; a step for which the former
    reactive count suffices needs no pods. load: (steps,), NaN for a gap. reactive: (steps,), the replicas without a
    forecast.
    """
    needed = np.clip(np.ceil(load / carried - 1e-9), 0, REPLICAS_MAX)
    # The replicas in a gap are unknown: the step after a gap does not count as a jump.
    before = np.where(np.isnan(load), np.inf, reactive)
    needed[~(needed > np.concatenate([before[:1], before[:-1]]))] = 0
    since = (np.arange(len(load)) - len(load)) % steps_per_day
    apart = steps_per_day / HOURS
    costs = np.array(COSTS) / mean_replicas
    replicas = np.zeros((len(COSTS), HOURS), np.int64)
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
        best, _ = worth_most(suffices, extra, costs)
        replicas[:, hour] = counts[best]
    return tuple(tuple(row) for row in replicas.tolist())


def spike_replicas(
    spikes: Spikes, running: Floats, carried: float | Floats, ceiling: Floats, costs: Sequence[float | Floats]
) -> Counts:
    """
    (costs, origins): replicas worth their cost in the minute for which a pod that is requested now becomes Ready.

    running, ceiling: (origins,), as in `provisioned_replicas`, running in whole replicas. carried, and each cost: one
    number, or (origins,). `spikes` has heights only where P(spike) > the lowest cost.
    """
    replicas = np.zeros((len(costs), len(running)), np.int16)
    # Among spikes that need the same number of pods the highest has the largest cdf, so the largest gain. In reversed
    # order it comes first, and `worth_most` takes the first of equals.
    load, cdf = np.broadcast_to(spikes.load, spikes.cdf.shape)[:, ::-1], spikes.cdf[:, ::-1]
    carried_by, *prices = (np.broadcast_to(values, len(running))[spikes.at] for values in (carried, *costs))
    chance, runs, highest = spikes.chance[spikes.at], running[spikes.at], ceiling[spikes.at]
    for begin in range(0, len(spikes.at), _ORIGINS_AT_ONCE):
        rows = slice(begin, begin + _ORIGINS_AT_ONCE)
        pods = np.ceil(np.minimum(load[rows], highest[rows, None]) / carried_by[rows, None] - 1e-9)
        suffices = chance[rows, None] * cdf[rows]
        extra = np.maximum(pods - runs[rows, None], 0.0)
        for of_cost, price in zip(replicas, prices, strict=True):
            # At all other origins price >= P(spike): no pod is worth it.
            likely = np.flatnonzero(chance[rows] > price[rows])
            best, gain = worth_most(suffices[likely], extra[likely], price[rows][likely])
            chosen = pods[likely, best]
            is_worth = (gain > 0) & (chosen > runs[rows][likely])
            of_cost[spikes.at[rows][likely]] = np.where(is_worth, np.clip(chosen, 0, REPLICAS_MAX), 0)
    return replicas
