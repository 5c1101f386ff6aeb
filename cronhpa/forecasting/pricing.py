"""
Floors from predictive distributions: choose the load that maximizes P(load suffices) - cost x (pods beyond reactive).

This is a newsvendor choice. It spends pods where they are few and the chance is high; one quantile for all hours would
pay as much for a minute at noon as for twenty at night. Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cronhpa.forecasting.candidates import CONSTANT_SHARES
from cronhpa.forecasting.columns import Counts, Floats
from cronhpa_models.spike_hazard import Spikes

FLOOR_MAX = 14_000


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
    return np.where(chosen > running, np.clip(np.nan_to_num(chosen), 0, FLOOR_MAX), 0).astype(np.int16)


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


def spike_floors(
    spikes: Spikes, running: Floats, carried: float | Floats, ceiling: Floats, costs: Sequence[float | Floats]
) -> Counts:
    """
    (costs, origins): replicas worth their cost in the one minute for which a pod requested now becomes Ready.

    running, ceiling: (origins,), as in `priced_floors`; carried, and each of the costs: of all, or (origins,).
    """
    carried = np.asarray(carried)[..., None]
    pods = np.ceil(np.minimum(spikes.load, ceiling[:, None]) / carried - 1e-9)
    needed = spikes.chance[:, None] * spikes.cdf
    more = np.maximum(pods - running[:, None], 0.0)
    floors = np.zeros((len(costs), len(running)), np.int16)
    for row, cost in enumerate(costs):
        gain = needed - np.asarray(cost)[..., None] * more
        # Spikes that take equally many pods share their gain but for the probability: the last of them has it whole.
        best = gain.shape[1] - 1 - gain[:, ::-1].argmax(axis=1)
        is_worth = np.take_along_axis(gain, best[:, None], axis=1)[:, 0] > 0
        chosen = np.take_along_axis(pods, best[:, None], axis=1)[:, 0]
        floors[row] = np.where(is_worth & (chosen > running), np.clip(chosen, 0, FLOOR_MAX), 0)
    return floors
