"""
The provisioned replicas of candidates at some origins: many candidates of one object, or one of each of many objects.

All come from `provisioned_by_method`, for one origin, a day or a whole recording. Many objects share one set of arrays,
and so the overhead of a call. Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cronhpa.forecasting.candidates import NO_METHOD, Candidate, at_budget_levels
from cronhpa.forecasting.columns import Counts, Floats
from cronhpa.forecasting.fitted_models import Attempt, FittedModels, Minutes, RecentLoad
from cronhpa.forecasting.predictions import Predictions, PredictionsRequest, predict_all
from cronhpa.forecasting.pricing import HOURS, provisioned_replicas, spike_replicas
from cronhpa_models.spike_hazard import Spikes

_MEDIAN = 0.5


def provisioned_by_candidate(models: FittedModels, predictions: Predictions, candidates: Sequence[Candidate]) -> Counts:
    """
    (candidates, windows, origins): the provisioned replicas of each candidate at each origin of the predictions.

    A candidate without an answer of its method has its constant count and the spike hazard.
    """
    carried, mean = models.workload.carried, models.mean_replicas
    replicas = np.zeros((len(candidates), predictions.windows, len(predictions.running)), np.int16)
    rows_by_cost_by_method: dict[str, dict[float, list[int]]] = {}
    for row, candidate in enumerate(candidates):
        if not candidate.is_constant:
            rows_by_cost_by_method.setdefault(candidate.method, {}).setdefault(candidate.cost, []).append(row)
    for_spikes: dict[float, Counts] = {}
    if predictions.spikes is not None and rows_by_cost_by_method:
        spikes, held_replicas = predictions.spikes
        costs = sorted({cost for rows_by_cost in rows_by_cost_by_method.values() for cost in rows_by_cost})
        by_cost = spike_replicas(spikes, held_replicas, carried, predictions.ceiling, [cost / mean for cost in costs])
        for_spikes = dict(zip(costs, by_cost, strict=True))
    for method, rows_by_cost in rows_by_cost_by_method.items():
        by_cost = provisioned_by_method(
            predictions.distributions.get(method),
            np.stack([for_spikes[cost] for cost in rows_by_cost]) if for_spikes else None,
            predictions.running,
            carried,
            predictions.ceiling,
            np.array([*rows_by_cost])[:, None, None] / mean,
            (len(rows_by_cost), *replicas.shape[1:]),
        )
        for rows, of_cost in zip(rows_by_cost.values(), by_cost, strict=True):
            replicas[rows] = of_cost
    constants = np.array([models.constant(candidate) for candidate in candidates], np.int16)[
        :, predictions.hours % HOURS
    ]
    return np.maximum(replicas, constants[:, None, :])


def provisioned_by_method(
    distribution: tuple[Floats, Floats] | None,
    for_spikes: Counts | None,
    running: Floats,
    carried: float | Floats,
    ceiling: Floats,
    cost: float | Floats,
    shape: tuple[int, ...],
) -> Counts:
    """
    (..., windows, origins): the larger of the replicas for a method's distribution and for the spike hazard; zero if
    there is neither.

    for_spikes: (..., origins), see `spike_replicas`. shape: of the result. The others as in `provisioned_replicas`.
    """
    replicas = np.zeros(shape, np.int16)
    if distribution is not None:
        replicas = provisioned_replicas(*distribution, running, carried, ceiling, cost)
    if for_spikes is not None:
        replicas[..., 0, :] = np.maximum(replicas[..., 0, :], for_spikes)
    return replicas


@dataclass(frozen=True)
class Provisioned:
    """The replicas that a policy provisions at some origins, with their load; arrays of (windows, origins)."""

    replicas: Counts
    """Zero if the running ones suffice."""
    load: Floats
    """The load that these replicas carry; for zero replicas min(expected load, load that the running replicas carry).
    NaN without a forecast."""
    level: Floats
    """P(largest load of the window <= load)."""
    ceiling: Floats
    """(origins,): the largest plausible load."""
    by_budget_level: tuple[tuple[Counts, Floats], ...]
    """Replicas and load at the higher costs of a pod of budget levels 1, 2 and so on (`predictive/budget`)."""

    def of(self, origins: slice) -> Provisioned:
        """The part of these origins."""
        return Provisioned(
            self.replicas[:, origins],
            self.load[:, origins],
            self.level[:, origins],
            self.ceiling[origins],
            tuple((replicas[:, origins], load[:, origins]) for replicas, load in self.by_budget_level),
        )


@dataclass(frozen=True)
class ProvisioningRequest:
    """The candidate of an object, its models, and the origins at which it provisions."""

    candidate: Candidate
    models: FittedModels
    recent: RecentLoad
    origins: Minutes
    """See RecentLoad.origins."""
    attempt: Attempt

    @property
    def variant(self) -> str:
        """The variant whose distribution gives the level: the candidate's own, or any variant if it has none."""
        return self.candidate.method or next(iter(self.models.variants), NO_METHOD)


class _Shape(NamedTuple):
    """The properties that the arrays of two objects must share to be joined."""

    windows: int
    bins: int
    """Bins of the distribution that gives the level; zero without one."""
    is_priced: bool
    """Whether that distribution is the candidate's own."""
    has_spikes: bool
    """Whether the spike hazard is used."""

    @classmethod
    def of(cls, request: ProvisioningRequest, predictions: Predictions) -> _Shape:
        distribution = predictions.distributions.get(request.variant)
        return cls(
            predictions.windows,
            0 if distribution is None else distribution[0].shape[-1],
            request.candidate.method in predictions.distributions,
            predictions.spikes is not None and not request.candidate.is_constant,
        )


def provision_all(requests: Sequence[ProvisioningRequest]) -> list[Provisioned]:
    """What each object provisions: the same as if it were the only one."""
    predicted = predict_all(
        [
            PredictionsRequest(
                request.models,
                request.recent,
                request.origins,
                {request.variant},
                request.attempt,
                request.models.cost(request.candidate),
            )
            for request in requests
        ]
    )
    indices_by_shape: dict[_Shape, list[int]] = {}
    for index, (request, predictions) in enumerate(zip(requests, predicted, strict=True)):
        indices_by_shape.setdefault(_Shape.of(request, predictions), []).append(index)
    provisioned: dict[int, Provisioned] = {}
    for shape, indices in indices_by_shape.items():
        alike = [requests[index] for index in indices]
        joined = _provision_joined(alike, [predicted[index] for index in indices], shape)
        begin = 0
        for index in indices:
            end = begin + len(requests[index].origins)
            provisioned[index] = joined.of(slice(begin, end))
            begin = end
    return [provisioned[index] for index in range(len(requests))]


def _provision_joined(
    requests: Sequence[ProvisioningRequest], predicted: Sequence[Predictions], of_all: _Shape
) -> Provisioned:
    """What objects provision whose arrays share a shape, joined along the origins."""
    counts = [len(request.origins) for request in requests]
    carried = np.repeat([request.models.workload.carried for request in requests], counts)
    running = np.concatenate([predictions.running for predictions in predicted])
    ceiling = np.concatenate([predictions.ceiling for predictions in predicted])
    shape = (of_all.windows, len(running))
    # Without a distribution the expected load is what the running replicas carry.
    edges, cdf = np.full((*shape, 1), np.inf), np.ones((*shape, 1))
    if of_all.bins:
        distributions = [
            predictions.distributions[request.variant] for request, predictions in zip(requests, predicted, strict=True)
        ]
        edges, cdf = (np.concatenate(parts, axis=1) for parts in zip(*distributions, strict=True))
    distribution = (edges, cdf) if of_all.is_priced else None

    # (budget levels, objects): the candidate itself first.
    levels = list(
        zip(*((request.candidate, *at_budget_levels(request.candidate)) for request in requests), strict=True)
    )
    means = np.array([request.models.mean_replicas for request in requests])
    cost = np.repeat(np.array([[candidate.cost for candidate in level] for level in levels]) / means, counts, axis=1)
    constants = np.array(
        [
            [request.models.constant(candidate) for candidate, request in zip(level, requests, strict=True)]
            for level in levels
        ],
        np.int16,
    )
    owner, hours = (
        np.arange(len(requests)).repeat(counts),
        np.concatenate([predictions.hours for predictions in predicted]),
    )
    for_spikes = None
    if of_all.has_spikes:
        spikes, held_replicas = _joined(
            [predictions.spikes for predictions in predicted if predictions.spikes is not None]
        )
        for_spikes = spike_replicas(spikes, held_replicas, carried, ceiling, list(cost))
    priced = provisioned_by_method(
        distribution, for_spikes, running, carried, ceiling, cost[:, None], (len(levels), *shape)
    )
    replicas, *dearer = np.maximum(priced, constants[:, owner, hours % HOURS][:, None])
    median = np.take_along_axis(edges, (cdf < _MEDIAN).sum(axis=-1, keepdims=True), axis=-1)[..., 0]
    served = np.minimum(np.minimum(median, running * carried), ceiling)
    # Slightly less than the load that the replicas carry: dividing and rounding up must give the same replicas.
    load, *of_dearer = (np.where(row > 0, (row - 1e-6) * carried, served) for row in (replicas, *dearer))
    covered = (edges <= load[..., None]).sum(axis=-1, keepdims=True)
    level = np.where(covered > 0, np.take_along_axis(cdf, np.maximum(covered - 1, 0), axis=-1), 0.0)[..., 0]
    return Provisioned(replicas, load, level, ceiling, tuple(zip(dearer, of_dearer, strict=True)))


def _joined(several: Sequence[tuple[Spikes, Floats]]) -> tuple[Spikes, Floats]:
    """The spikes of several objects, and their held replicas, along the origins."""
    chance, load, cdf = (
        np.concatenate([getattr(spikes, name) for spikes, _ in several]) for name in ("chance", "load", "cdf")
    )
    ends = np.cumsum([len(spikes.chance) for spikes, _ in several])
    at = np.concatenate([end - len(spikes.chance) + spikes.at for end, (spikes, _) in zip(ends, several, strict=True)])
    return Spikes(chance, at, load, cdf), np.concatenate([held for _, held in several])
