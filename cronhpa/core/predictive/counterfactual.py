"""
The replicas of a target without its forecast: the result of the same decisions without that source.

A counterfactual exists only while it differs from the target. It carries the target's load on pods that are all ready,
which overestimates the cost of the forecast rather than underestimating it.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.decide import decide
from cronhpa.core.decision import Decision, DecisionKind, Role, Scaled, Source, Withheld
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Absent, Observation, PodCounts, Reading, ScalarReading, Scale
from cronhpa.core.spec import Mode, Spec


class Counterfactual(Struct, frozen=True):
    """replicas, memory: as they would be without the forecast."""

    replicas: int
    memory: Memory


def follow(
    counterfactual: Counterfactual | None,
    spec: Spec,
    observation: Observation,
    memory: Memory,
    decision: Decision,
    now: Nanoseconds,
) -> Counterfactual | None:
    """
    The counterfactual after a turn; None while the target is as it would be without a forecast.

    memory, decision: of the target; `memory` at the begin of the turn.
    """
    scale = observation.scale
    if isinstance(scale, Absent) or spec.forecast is None:
        return counterfactual
    if counterfactual is None:
        if not _is_raised(spec, decision):
            return None
        counterfactual = Counterfactual(scale.spec_replicas, memory)
    seen = carried_by(counterfactual.replicas, observation, scale)
    alone = decide(spec, seen, None, counterfactual.memory, now)
    outcome = Scaled(now) if alone.rescales else Withheld()
    after = Counterfactual(alone.desired, counterfactual.memory.after(alone, outcome, spec, seen))
    # Equal counts can diverge again while one of them is stabilized by a recommendation that the other lacks.
    is_met = after.replicas == decision.desired and decision.stabilized is None and alone.stabilized is None
    return None if is_met and not _is_raised(spec, decision) else after


def carried_by(replicas: int, observation: Observation, scale: Scale) -> Observation:
    """The same load on this many ready pods."""
    return replace(
        observation,
        scale=replace(scale, spec_replicas=replicas, status_replicas=replicas),
        readings=tuple(_on_pods(reading, replicas) for reading in observation.readings),
    )


def _on_pods(reading: Reading, pods: int) -> Reading:
    if isinstance(reading, ScalarReading):
        return replace(reading, ready=pods) if isinstance(reading.ready, int) else reading
    if isinstance(reading, Absent) or not reading.matched or not pods:
        return reading
    return PodCounts(
        ready=pods,
        unready=0,
        missing=0,
        counted=pods,
        matched=pods,
        usage=reading.load,
        request=reading.request * pods // reading.matched,
        missing_usage=0,
        missing_request=0,
        unready_request=0,
        load=reading.load,
    )


def _is_raised(spec: Spec, decision: Decision) -> bool:
    """Whether the forecast's floor is above every other proposal and the effective minimum."""
    if spec.forecast is None or spec.forecast.mode is not Mode.ACTIVE or decision.kind is DecisionKind.UNREACHABLE:
        return False
    floors = [proposal.replicas for proposal in decision.proposals if proposal.source is Source.FORECAST]
    others = [
        proposal.replicas
        for proposal in decision.proposals
        if proposal.source is not Source.FORECAST and proposal.role is not Role.CAP
    ]
    return bool(floors) and max(floors) > max(others, default=0) and max(floors) > decision.minimum
