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
# Of a day with a thousand earlier spikes, what is worked out in between would not fit a cache otherwise.
_ORIGINS_AT_ONCE = 64


def priced_floors(
    load: Floats, cdf: Floats, running: Floats, carried: float | Floats, ceiling: Floats, cost: float | Floats
) -> NDArray[np.int16]:
    """
    Replicas worth their cost, zero where the running ones suffice.

    load, cdf: (..., bins), a predictive distribution; cdf may have leading axes of its own. running: (...), replicas
    without a forecast. carried: load that one pod is planned for. ceiling: (...), the largest load that is believed.
    cost: of one pod beyond `running`, as a probability. carried and cost are of all, or (...).
    """
    carried, cost = np.asarray(carried)[..., None], np.asarray(cost)[..., None]
    pods = np.ceil(np.minimum(load, ceiling[..., None]) / carried - 1e-9)
    penalty = cost * np.maximum(pods - running[..., None], 0.0)
    best = np.argmax(cdf - penalty, axis=-1)
    chosen = np.take_along_axis(np.broadcast_to(pods, cdf.shape), best[..., None], axis=-1)[..., 0]
    return np.where(chosen > running, np.clip(np.where(np.isnan(chosen), 0, chosen), 0, FLOOR_MAX), 0).astype(np.int16)


def constant_floors(reactive: Floats) -> tuple[int, ...]:
    """The constant floor of each of CONSTANT_SHARES: the highest that adds no more pod-hours than that."""
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

    Of the steps of all days within an hour and a half of the hour's middle: the share that reactive scaling is too low
    for and the count suffices for, against the pods that the count adds. load, reactive: (steps,), NaN for a gap, and
    the replicas without a forecast.
    """
    needed = np.clip(np.ceil(load / carried - 1e-9), 0, FLOOR_MAX)
    # Nobody knows what ran in a gap: the step behind it is no jump.
    before = np.where(np.isnan(load), np.inf, reactive)
    needed[~(needed > np.concatenate([before[:1], before[:-1]]))] = 0
    since = (np.arange(len(load)) - len(load)) % steps_per_day
    apart = steps_per_day / HOURS
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
        floors[:, hour] = [counts[np.argmax(suffices - cost / mean_replicas * extra)] for cost in COSTS]
    return tuple(tuple(row) for row in floors.tolist())


def spike_floors(
    spikes: Spikes, running: Floats, carried: float | Floats, ceiling: Floats, costs: Sequence[float | Floats]
) -> Counts:
    """
    (costs, origins): replicas worth their cost in the one minute for which a pod requested now becomes Ready.

    running, ceiling: (origins,), as in `priced_floors`; carried, and each of the costs: of all, or (origins,).
    """
    count = len(running)
    # Spikes that take equally many pods share their gain but for the probability: the last of them has it whole. The
    # first largest of the reversed ones is the last.
    load, cdf = spikes.load[..., ::-1], spikes.cdf[..., ::-1]
    of_each = [np.broadcast_to(values, count) for values in (carried, *costs)]
    floors = np.zeros((len(costs), count), np.int16)
    for begin in range(0, count, _ORIGINS_AT_ONCE):
        rows = slice(begin, begin + _ORIGINS_AT_ONCE)
        carried_by, *cost_of = (values[rows, None] for values in of_each)
        pods = np.ceil(np.minimum(load[rows], ceiling[rows, None]) / carried_by - 1e-9)
        needed = spikes.chance[rows, None] * cdf[rows]
        more = np.maximum(pods - running[rows, None], 0.0)
        for row, cost in enumerate(cost_of):
            gain = needed - cost * more
            best = gain.argmax(axis=1)[:, None]
            is_worth = np.take_along_axis(gain, best, axis=1)[:, 0] > 0
            chosen = np.take_along_axis(pods, best, axis=1)[:, 0]
            floors[row, rows] = np.where(is_worth & (chosen > running[rows]), np.clip(chosen, 0, FLOOR_MAX), 0)
    return floors
