"""
Placeholders: how many pods the rises of the next minutes add, so that nodes can be ready before these pods are.

A rise is known as long before its lead as a node takes to start. From then on placeholders fill the gap between the
replicas and the coming floor. Seconds before each step the room of its pods is given free, so that they preempt none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from cronhpa.core.behavior import Limits, approach
from cronhpa.core.forecasts.floor import predict
from cronhpa.core.model.decision import DecisionKind, Lead, Proposal, WindowState
from cronhpa.core.model.instant import FOR_EVER, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.levelled import levelled
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Crowd
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.spec import Mode, Spec
from cronhpa.core.schedules.bounds import Bounds, resolve, resolve_anew

# Of schedules that change more often within a node's start-up, the first edges count: each takes up to milliseconds.
_EDGES_MAX = 16
# Room is free as long before the pods that take it: placeholders are gone within a few seconds, by three controllers of
# the cluster, on busy machines too. Autoscalers of nodes look longer before they take one (Karpenter 15 s).
_FREE_BEFORE = 10 * SECOND
_STUCK = {DecisionKind.UNREACHABLE, DecisionKind.SUSPENDED}
_COUNTING = {WindowState.OPEN, WindowState.LEADING}


def pods_to_come(latest: Reconciliation, replicas: int, now: Nanoseconds) -> int:
    """
    The pods that the coming floor asks for beyond the target's `replicas`, at most `spec.placeholders.maxReplicas`.

    0 for a target that is not scaled up: of another owner, set back by somebody, in a preview, or at a person's zero.
    """
    spec = latest.spec
    settings = spec.room
    if settings is None or spec.mode is Mode.PREVIEW or latest.decision.kind in _STUCK:
        return 0
    if latest.owner_problem is not None or latest.contested:
        return 0
    floor = max(_floors(latest, replicas, now, settings.node_start_up), default=0)
    return min(max(floor - replicas, 0), settings.max_replicas)


def pods_at_once(latest: Reconciliation, memory: Memory, replicas: int, now: Nanoseconds) -> int:
    """
    The pods that the next step may add to the target's `replicas` within ten seconds: their room is to be free.

    memory: the newest, with the steps since that reconciliation.
    """
    spec, soon = latest.spec, now + _FREE_BEFORE
    bounds = resolve(spec, now, memory.lead_start_up(spec), memory.leads, memory.crowd)
    minimums = (later.minimum for later in _bounds_until(spec, memory, bounds, soon))
    floor = max((bounds.minimum, *minimums, *_forecast_floors(latest, bounds, now, _FREE_BEFORE)))
    _, step = approach(floor, replicas, Limits(floor, floor), spec.behavior, memory, soon)
    return max(step - replicas, 0)


def shares(missing: Mapping[tuple[str, str], int], most: int) -> dict[tuple[str, str], int]:
    """
    The placeholders of each object, by namespace and name: as many as are missing, together at most `most`.

    Beyond that namespaces get equal shares, and so do the objects of one: who asks for little gets all of it, and
    nobody gets more by asking for more.
    """
    by_namespace: dict[str, dict[tuple[str, str], int]] = {}
    for key, count in missing.items():
        by_namespace.setdefault(key[0], {})[key] = count
    limits = levelled({namespace: sum(of.values()) for namespace, of in by_namespace.items()}, most)
    return {
        key: count
        for namespace, of in by_namespace.items()
        for key, count in levelled(of, limits[namespace]).items()
        if count
    }


def _floors(latest: Reconciliation, replicas: int, now: Nanoseconds, ahead: Nanoseconds) -> Iterator[int]:
    """The floors from now on until `ahead`: of schedules, events and overrides, and of the forecast."""
    spec, memory = latest.spec, latest.memory
    bounds = resolve(spec, now, memory.lead_start_up(spec), memory.leads, memory.crowd)
    # The present floor is no rise to come, but its pods may be on their way still: while a schedule leads, and for as
    # long after the rise as before it. Not longer: a target that does not follow must not hold nodes for a window.
    if (
        bounds.minimum > replicas
        and _has_room(spec, bounds)
        and (_leads(bounds) or _minimum_at(latest, now - ahead) < bounds.minimum)
    ):
        yield bounds.minimum
    yield _coming_minimum(spec, memory, bounds, now, ahead)
    yield from _forecast_floors(latest, bounds, now, ahead)


class _Coming(Struct, frozen=True, gc=False):
    """The largest minimum that begins within the time ahead, for each instant from `begin` up to `end`."""

    minimum: int
    begin: Nanoseconds
    end: Nanoseconds
    inputs: tuple[Nanoseconds, Nanoseconds | None, tuple[Lead, ...], Crowd | None]


def _coming_minimum(spec: Spec, memory: Memory, bounds: Bounds, now: Nanoseconds, ahead: Nanoseconds) -> int:
    """The largest minimum that begins within `ahead`, 0 if none does. bounds: those of now."""
    inputs = (ahead, memory.lead_start_up(spec), memory.leads, memory.crowd)
    cached: _Coming | None = spec.computed.get("coming")
    if cached is None or cached.inputs != inputs or not cached.begin <= now < cached.end:
        coming = [*_bounds_until(spec, memory, bounds, now + ahead)]
        highest = max((later.minimum for later in coming if _has_room(spec, later)), default=0)
        # Until an edge is over, or another one comes near: beyond the most edges none counts before one is over.
        end = FOR_EVER if bounds.next_edge is None else bounds.next_edge.at
        edge = (coming[-1] if coming else bounds).next_edge
        if edge is not None and len(coming) < _EDGES_MAX:
            end = min(end, max(edge.at - ahead, now + 1))
        cached = spec.computed["coming"] = _Coming(highest, now, end, inputs)
    return cached.minimum


def _bounds_until(spec: Spec, memory: Memory, bounds: Bounds, until: Nanoseconds) -> Iterator[Bounds]:
    """The bounds after each edge up to `until`; of many edges the first. bounds: those of now."""
    for _ in range(_EDGES_MAX):
        edge = bounds.next_edge
        if edge is None or edge.at > until:
            return
        bounds = resolve_anew(spec, edge.at, memory.lead_start_up(spec), bounds.leads, memory.crowd)
        yield bounds


def _has_room(spec: Spec, bounds: Bounds) -> bool:
    """Whether placeholders are asked for: for every rise, or by a schedule of an event that leads or is open."""
    if spec.room_of_rises is not None:
        return True
    asking = {schedule.name for schedule in spec.schedules if schedule.placeholders is not None}
    return any(window.name in asking and window.state in _COUNTING for window in bounds.windows)


def _leads(bounds: Bounds) -> bool:
    return any(window.state is WindowState.LEADING for window in bounds.windows)


def _minimum_at(latest: Reconciliation, at: Nanoseconds) -> int:
    memory = latest.memory
    return resolve_anew(latest.spec, at, memory.lead_start_up(latest.spec), memory.leads, memory.crowd).minimum


def _forecast_floors(latest: Reconciliation, bounds: Bounds, now: Nanoseconds, ahead: Nanoseconds) -> Iterator[int]:
    """The floors that the newest forecast will ask for, at most the present maximum; none where it abstains."""
    spec, forecast = latest.spec, latest.forecast
    if spec.forecast is None or spec.forecast.mode is Mode.PREVIEW or forecast is None or spec.room_of_rises is None:
        return
    for later in range(ahead, 0, -max(forecast.step, MINUTE)):
        floor = predict(spec, latest.observation, forecast, latest.memory, bounds.headroom_percent, now + later)
        if isinstance(floor, Proposal):
            yield min(floor.replicas, bounds.maximum)
