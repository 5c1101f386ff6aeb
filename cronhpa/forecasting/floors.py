"""
The floors of candidates at some origins: many candidates of one object, or one candidate of each of many objects.

All floors come from `priced_by`, for one origin, a day or a whole recording. Many objects share one set of arrays, and
so the overhead of a call. Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cronhpa.forecasting.candidates import NO_METHOD, Candidate, thrifty
from cronhpa.forecasting.columns import Counts, Floats
from cronhpa.forecasting.fitted_models import Attempt, FittedModels, Minutes, RecentLoad
from cronhpa.forecasting.outlook import Asked, Outlook, outlooks
from cronhpa.forecasting.pricing import HOURS, priced_floors, spike_floors
from cronhpa_models.spike_hazard import Spikes

_MEDIAN = 0.5


def candidate_floors(models: FittedModels, outlook: Outlook, candidates: Sequence[Candidate]) -> Counts:
    """
    (candidates, windows, origins): the floor of each candidate at each origin of the outlook.

    A candidate without an answer of its method has its constant floor and the spike hazard.
    """
    carried, mean = models.workload.carried, models.mean_replicas
    floors = np.zeros((len(candidates), outlook.windows, len(outlook.running)), np.int16)
    # By method, then by cost.
    rows: dict[str, dict[float, list[int]]] = {}
    for row, candidate in enumerate(candidates):
        if not candidate.is_constant:
            rows.setdefault(candidate.method, {}).setdefault(candidate.cost, []).append(row)
    against: dict[float, Counts] = {}
    if outlook.spikes is not None and rows:
        said, held = outlook.spikes
        costs = sorted({cost for of_costs in rows.values() for cost in of_costs})
        priced = spike_floors(said, held, carried, outlook.ceiling, [cost / mean for cost in costs])
        against = dict(zip(costs, priced, strict=True))
    for method, of_costs in rows.items():
        of_method = priced_by(
            outlook.distributions.get(method),
            np.stack([against[cost] for cost in of_costs]) if against else None,
            outlook.running,
            carried,
            outlook.ceiling,
            np.array([*of_costs])[:, None, None] / mean,
            (len(of_costs), *floors.shape[1:]),
        )
        for members, of_cost in zip(of_costs.values(), of_method, strict=True):
            floors[members] = of_cost
    constants = np.array([models.constant(candidate) for candidate in candidates], np.int16)[:, outlook.hours % HOURS]
    return np.maximum(floors, constants[:, None, :])


def priced_by(
    distribution: tuple[Floats, Floats] | None,
    against_spikes: Counts | None,
    running: Floats,
    carried: float | Floats,
    ceiling: Floats,
    cost: float | Floats,
    shape: tuple[int, ...],
) -> Counts:
    """
    (..., windows, origins): the higher of the floors of a method's distribution and of the spike hazard; zero if there
    is neither.

    against_spikes: (..., origins), see `spike_floors`. shape: of the floors. The others as in `priced_floors`.
    """
    floors = np.zeros(shape, np.int16)
    if distribution is not None:
        floors = priced_floors(*distribution, running, carried, ceiling, cost)
    if against_spikes is not None:
        floors[..., 0, :] = np.maximum(floors[..., 0, :], against_spikes)
    return floors


@dataclass(frozen=True)
class Floors:
    """
    The floors of a policy at some origins; each (windows, origins).

    replicas: zero if the running ones suffice. load: the load that these replicas carry; for zero replicas
    min(expected load, load that the running replicas carry); NaN without a forecast. level: P(largest load of the
    window <= load). ceiling: (origins,), the largest plausible load. thrifty: replicas and load at higher costs of a
    pod, by level of `predictive.budget.thrift`.
    """

    replicas: Counts
    load: Floats
    level: Floats
    ceiling: Floats
    thrifty: tuple[tuple[Counts, Floats], ...]

    def of(self, origins: slice) -> Floors:
        """The floors at these origins."""
        thrifty = tuple((replicas[:, origins], load[:, origins]) for replicas, load in self.thrifty)
        return Floors(
            self.replicas[:, origins], self.load[:, origins], self.level[:, origins], self.ceiling[origins], thrifty
        )


@dataclass(frozen=True)
class FloorsAsked:
    """
    The candidate of an object, its models, and the origins of its floors.

    origins: see RecentLoad.origins.
    """

    candidate: Candidate
    models: FittedModels
    recent: RecentLoad
    origins: Minutes
    attempt: Attempt

    @property
    def variant(self) -> str:
        """The variant whose distribution gives the level: the candidate's own, or any variant if it has none."""
        return self.candidate.method or next(iter(self.models.variants), NO_METHOD)


class _Shape(NamedTuple):
    """
    The properties that the arrays of two objects must share to be joined.

    bins: of the distribution that gives the level; zero without one. is_priced: whether that distribution is the
    candidate's own. has_spikes: whether the spike hazard is used.
    """

    windows: int
    bins: int
    is_priced: bool
    has_spikes: bool

    @classmethod
    def of(cls, asked: FloorsAsked, said: Outlook) -> _Shape:
        distribution = said.distributions.get(asked.variant)
        return cls(
            said.windows,
            0 if distribution is None else distribution[0].shape[-1],
            asked.candidate.method in said.distributions,
            said.spikes is not None and not asked.candidate.is_constant,
        )


def floors_of(asked: Sequence[FloorsAsked]) -> list[Floors]:
    """The floors of each object: the same as if it were the only one."""
    said = outlooks(
        [
            Asked(
                question.models,
                question.recent,
                question.origins,
                {question.variant},
                question.attempt,
                question.models.cost(question.candidate),
            )
            for question in asked
        ]
    )
    alike: dict[_Shape, list[int]] = {}
    for place, (question, outlook) in enumerate(zip(asked, said, strict=True)):
        alike.setdefault(_Shape.of(question, outlook), []).append(place)
    floors: dict[int, Floors] = {}
    for shape, places in alike.items():
        together = _floors([asked[place] for place in places], [said[place] for place in places], shape)
        end = 0
        for place in places:
            mine = slice(end, end + len(asked[place].origins))
            floors[place] = together.of(mine)
            end = mine.stop
    return [floors[place] for place in range(len(asked))]


def _floors(asked: Sequence[FloorsAsked], said: Sequence[Outlook], alike: _Shape) -> Floors:
    """The floors of objects whose arrays share a shape, joined along the origins."""
    counts = [len(question.origins) for question in asked]
    carried = np.repeat([question.models.workload.carried for question in asked], counts)
    running, ceiling = (np.concatenate([getattr(outlook, name) for outlook in said]) for name in ("running", "ceiling"))
    shape = (alike.windows, len(running))
    # Without a distribution the expected load is what the running replicas carry.
    edges, cdf = np.full((*shape, 1), np.inf), np.ones((*shape, 1))
    if alike.bins:
        of_objects = [outlook.distributions[question.variant] for question, outlook in zip(asked, said, strict=True)]
        edges, cdf = (np.concatenate(parts, axis=1) for parts in zip(*of_objects, strict=True))
    joined = _joined([outlook.spikes for outlook in said if outlook.spikes is not None]) if alike.has_spikes else None
    distribution = (edges, cdf) if alike.is_priced else None

    # (levels of thrift, objects): the candidate itself first.
    levels = list(zip(*((question.candidate, *thrifty(question.candidate)) for question in asked), strict=True))
    means = np.array([question.models.mean_replicas for question in asked])
    cost = np.repeat(np.array([[candidate.cost for candidate in level] for level in levels]) / means, counts, axis=1)
    constants = np.array(
        [
            [question.models.constant(candidate) for candidate, question in zip(level, asked, strict=True)]
            for level in levels
        ],
        np.int16,
    )
    owner, hours = np.arange(len(asked)).repeat(counts), np.concatenate([outlook.hours for outlook in said])
    against_spikes = spike_floors(joined[0], joined[1], carried, ceiling, list(cost)) if joined is not None else None
    priced = priced_by(distribution, against_spikes, running, carried, ceiling, cost[:, None], (len(levels), *shape))
    replicas, *dearer = np.maximum(priced, constants[:, owner, hours % HOURS][:, None])
    median = np.take_along_axis(edges, (cdf < _MEDIAN).sum(axis=-1, keepdims=True), axis=-1)[..., 0]
    served = np.minimum(np.minimum(median, running * carried), ceiling)
    # Slightly less than the load that the replicas carry: dividing and rounding up must give the same replicas.
    load, *of_dearer = (np.where(row > 0, (row - 1e-6) * carried, served) for row in (replicas, *dearer))
    covered = (edges <= load[..., None]).sum(axis=-1, keepdims=True)
    level = np.where(covered > 0, np.take_along_axis(cdf, np.maximum(covered - 1, 0), axis=-1), 0.0)[..., 0]
    return Floors(replicas, load, level, ceiling, tuple(zip(dearer, of_dearer, strict=True)))


def _joined(several: Sequence[tuple[Spikes, Floats]]) -> tuple[Spikes, Floats]:
    chance, load, cdf = (
        np.concatenate([getattr(spikes, name) for spikes, _ in several]) for name in ("chance", "load", "cdf")
    )
    ends = np.cumsum([len(spikes.chance) for spikes, _ in several])
    at = np.concatenate([end - len(spikes.chance) + spikes.at for end, (spikes, _) in zip(ends, several, strict=True)])
    return Spikes(chance, at, load, cdf), np.concatenate([held for _, held in several])
