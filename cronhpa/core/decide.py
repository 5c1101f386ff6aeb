"""
One turn: `decide(spec, observation, forecast, memory, now) -> Decision`. Pure: equal inputs, equal decisions.

propose (metrics | schedules | forecast) -> merge -> normalize. Without schedules, override and forecast, the result is
that of the upstream's reconcileAutoscaler, v1.36, to the letter.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from cronhpa.core.behavior import Limits, normalize
from cronhpa.core.decision import (
    BY_NOBODY,
    BY_SPEC,
    Abstention,
    Decision,
    DecisionKind,
    Held,
    Proposal,
    Recommendation,
    Role,
    Rule,
    Source,
    SourceRef,
    Step,
)
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Absent, Observation, Scale
from cronhpa.core.predictive.floor import predict
from cronhpa.core.reactive.replicas import MetricProposal, measure, tolerance
from cronhpa.core.scheduled.bounds import Bounds, resolve
from cronhpa.core.spec import Mode, Spec


class Target(Struct, frozen=True):
    """
    The count that all metrics together ask for.

    name: the metric with the largest count, as the upstream prints it; source: its name in the spec. failure: why the
    metrics have no proposal; replicas is the current count then.
    """

    replicas: int
    name: str
    source: str
    measured: tuple[MetricProposal | Absent, ...]
    failure: Absent | None = None


def decide(
    spec: Spec, observation: Observation, forecast: Forecast | Absent | None, memory: Memory, now: Nanoseconds
) -> Decision:
    """The replicas to scale to, and every fact that explains the count."""
    scale = observation.scale
    bounds = resolve(spec, now, memory.start_up_after(observation), memory.leads)
    if isinstance(scale, Absent):
        return _decision(DecisionKind.UNREACHABLE, bounds, spec, now, current=0, desired=0, failure=scale)
    current = scale.spec_replicas
    kind = guard(spec, bounds, current, memory)
    if kind is DecisionKind.SUSPENDED:
        return _decision(kind, bounds, spec, now, current=current, desired=current, decided_by=BY_NOBODY)
    if kind in {DecisionKind.ABOVE_MAXIMUM, DecisionKind.BELOW_MINIMUM}:
        bound = spec.max_replicas if kind is DecisionKind.ABOVE_MAXIMUM else spec.min_replicas
        return _decision(kind, bounds, spec, now, current=current, desired=bound, decided_by=BY_SPEC)
    return _compute(spec, observation, scale, forecast, memory, bounds, now)


def guard(spec: Spec, bounds: Bounds, current: int, memory: Memory) -> DecisionKind:
    """
    The early exits, before any metric is read.

    - A zero that a person set stays. A zero that cronhpa set ends when a source asks for more.
    - In the first turn of an object with schedules, a zero counts as one that a schedule set.
    - Without schedules, a count outside the bounds jumps to the nearest bound.
    """
    if current == 0:
        is_ours = memory.zero is True or (spec.is_timed and memory.zero is None and not memory.recommendations)
        wakes = spec.is_timed or spec.min_replicas != 0 or spec.scales_to_zero
        return DecisionKind.COMPUTED if is_ours and wakes else DecisionKind.SUSPENDED
    if spec.is_timed:
        return DecisionKind.COMPUTED
    if current > bounds.maximum:
        return DecisionKind.ABOVE_MAXIMUM
    if current < bounds.minimum:
        return DecisionKind.BELOW_MINIMUM
    return DecisionKind.COMPUTED


def _compute(
    spec: Spec,
    observation: Observation,
    scale: Scale,
    forecast: Forecast | Absent | None,
    memory: Memory,
    bounds: Bounds,
    now: Nanoseconds,
) -> Decision:
    current = scale.spec_replicas
    # At a scheduled zero there is no pod to measure, so the bounds alone set the target. The memory keeps the zero as a
    # scheduled one after its schedule or override is removed: otherwise the target would stay at zero for ever.
    asleep = current == 0 and (spec.is_timed or memory.scheduled_zero)
    target = propose(spec, observation, scale, bounds, asleep=asleep)
    predicted = predict(spec, observation, forecast, memory, bounds.headroom_percent, now)
    acts = spec.forecast is not None and spec.forecast.mode is Mode.ACTIVE
    forecast_floor = predicted.replicas if isinstance(predicted, Proposal) and acts else None

    proposals = _proposals(target, predicted, bounds)
    # An unreadable schedule may be the one that allows more than the spec.
    widened = bounds.unreadable and bounds.cap is None and current > bounds.maximum
    floor, floor_by = _floor(bounds, proposals, forecast_floor)
    limits = Limits(
        bounds.minimum,
        current if widened else bounds.maximum,
        floor,
        bounds.cap,
        timed=spec.is_timed,
        minimum_by=bounds.minimum_by,
        maximum_by=_unreadable(bounds) if widened else bounds.maximum_by,
        floor_by=floor_by,
        cap_by=bounds.maximum_by,
    )
    bounded = limits.floor is not None or limits.cap is not None
    memory = memory.seeded(current, now, bounded=bounded)
    steps: list[Step] = []
    asked_by: SourceRef | None = None
    merged = limits.clamp(target.replicas)
    # While a schedule is unreadable, only a readable cap may scale down.
    if bounds.unreadable and merged < current:
        kept = limits.clamp(current)
        if kept != merged:
            # A count other than the current one is the cap: a floor above it would have raised the merged count.
            asked_by = BY_NOBODY if kept == current else bounds.maximum_by
            kept_by = _unreadable(bounds) if kept == current else bounds.maximum_by
            steps.append(Step(Rule.NO_EVIDENCE, merged, kept, kept_by))
        merged = kept

    abstentions = _abstentions(spec, target, predicted, bounds)
    is_outside = spec.is_timed and not limits.minimum <= merged <= limits.maximum
    if target.failure is not None and merged == current and not is_outside:
        return _decision(
            DecisionKind.HELD,
            bounds,
            spec,
            now,
            current=current,
            desired=current,
            bounded=bounded,
            merged=merged,
            decided_by=_asked_by(target, merged, current, bounds, limits),
            proposals=proposals,
            abstentions=abstentions,
            metrics=target.measured,
            failure=target.failure,
        )
    recommended = Recommendation(
        merged,
        now,
        target.replicas if target.source and target.failure is None else None,
        asked_by or _asked_by(target, merged, current, bounds, limits),
    )
    desired, normalized = normalize(recommended, current, limits, spec.behavior, spec.options, memory)
    if not spec.is_timed and current == 0 and spec.min_replicas != 0 and desired < spec.min_replicas:
        normalized = (*normalized, Step(Rule.FLOOR, desired, spec.min_replicas, BY_SPEC))
        desired = spec.min_replicas
    steps += normalized
    assert recommended.by is not None
    return _decision(
        DecisionKind.COMPUTED,
        bounds,
        spec,
        now,
        current=current,
        desired=desired,
        bounded=bounded,
        merged=merged,
        recommended=recommended,
        decided_by=_decided_by(recommended.by, steps),
        named=target.name,
        proposals=proposals,
        abstentions=abstentions,
        steps=tuple(steps),
        metrics=target.measured,
        failure=target.failure,
    )


def propose(spec: Spec, observation: Observation, scale: Scale, bounds: Bounds, *, asleep: bool) -> Target:
    """
    The largest count that any metric asks for.

    If some metrics fail, or some pods are not seen, the other metrics may scale up but not down. If all metrics fail,
    the current count stays. Without metrics, and at a scheduled zero (asleep), the count is the lower bound.
    """
    current = scale.spec_replicas
    if not spec.metrics or (asleep and not spec.scales_to_zero):
        return Target(bounds.minimum, "", "", ())
    if observation.selector_problem is not None:
        return Target(bounds.minimum if asleep else current, "", "", (), observation.selector_problem)
    band = tolerance(spec.behavior, spec.options)
    measured = tuple(
        measure(metric, reading, current, scale.status_replicas, band, bounds.headroom_percent)
        for metric, reading in zip(spec.metrics, observation.readings, strict=True)
    )
    replicas, name, source = 0, "", ""
    for metric, result in zip(spec.metrics, measured, strict=True):
        if isinstance(result, MetricProposal) and (replicas == 0 or result.replicas > replicas):
            replicas, name = result.replicas, result.name
            source = getattr(metric, "name", "")
    absent = [result for result in measured if isinstance(result, Absent)]
    if absent and (len(absent) == len(measured) or replicas < current):
        held = bounds.minimum if asleep else current
        return Target(held, "", "", measured, absent[0])
    if observation.unseen is not None and replicas < current:
        return Target(current, "", "", measured, observation.unseen)
    return Target(replicas, name, source, measured)


def _unreadable(bounds: Bounds) -> SourceRef:
    """The first schedule that cannot be read."""
    return SourceRef(Source.SCHEDULE, bounds.abstentions[0].name)


def _proposals(target: Target, predicted: Proposal | Abstention | None, bounds: Bounds) -> tuple[Proposal, ...]:
    metrics = (
        (Proposal(Source.METRIC, target.source, Role.TARGET, target.replicas),)
        if target.source and target.failure is None
        else ()
    )
    forecast = (predicted,) if isinstance(predicted, Proposal) else ()
    return (*metrics, *forecast, *bounds.proposals)


def _abstentions(
    spec: Spec, target: Target, predicted: Proposal | Abstention | None, bounds: Bounds
) -> tuple[Abstention, ...]:
    failed = tuple(
        Abstention(Source.METRIC, getattr(metric, "name", ""), result.reason, result.message)
        for metric, result in zip(spec.metrics, target.measured, strict=False)
        if isinstance(result, Absent)
    )
    return (*failed, *((predicted,) if isinstance(predicted, Abstention) else ()), *bounds.abstentions)


def _floor(
    bounds: Bounds, proposals: tuple[Proposal, ...], forecast_floor: int | None
) -> tuple[int | None, SourceRef | None]:
    """The larger of the floors of bounds and forecast, with its source; None if there is neither."""
    if forecast_floor is not None and (bounds.floor is None or forecast_floor > bounds.floor):
        return forecast_floor, next(proposal.by for proposal in proposals if proposal.source is Source.FORECAST)
    return bounds.floor, None if bounds.floor is None else bounds.minimum_by


def _asked_by(target: Target, merged: int, current: int, bounds: Bounds, limits: Limits) -> SourceRef:
    """
    The source of the merged count: the cap that lowered it, the floor that raised it, else the metric.

    If the metric asks for the current count and a floor equals that count, the source is the floor.
    """
    if limits.cap is not None and merged == limits.cap and merged < max(target.replicas, limits.floor or 0):
        return bounds.maximum_by
    is_floor = merged == limits.floor and (merged > target.replicas or merged == current)
    if is_floor and limits.floor_by is not None:
        return limits.floor_by
    if target.failure is not None:
        # At a zero that cronhpa set and no metric can measure, the lower bound raises the count.
        return BY_NOBODY if merged == current else bounds.minimum_by
    return SourceRef(Source.METRIC, target.source) if target.source else bounds.minimum_by


def _decided_by(asked_by: SourceRef, steps: Iterable[Step]) -> SourceRef:
    """
    The source of the decided count: that of the merged count, unless a window or a bound replaced the count.

    A rate only delays a count, so it does not change the source.
    """
    by = asked_by
    for step in steps:
        if isinstance(step.cause, Held):
            by = step.cause.by or BY_NOBODY
        elif isinstance(step.cause, SourceRef):
            by = step.cause
    return by


def _decision(  # noqa: PLR0913 - the fields of a Decision that its callers know
    kind: DecisionKind,
    bounds: Bounds,
    spec: Spec,
    now: Nanoseconds,
    *,
    current: int,
    desired: int,
    bounded: bool = False,
    decided_by: SourceRef | None = None,
    merged: int = 0,
    recommended: Recommendation | None = None,
    named: str = "",
    proposals: tuple[Proposal, ...] | None = None,
    abstentions: tuple[Abstention, ...] | None = None,
    steps: tuple[Step, ...] = (),
    metrics: tuple[MetricProposal | Absent, ...] = (),
    failure: Absent | None = None,
) -> Decision:
    """The decision, completed from the bounds in force. proposals, abstentions: None for those of the bounds alone."""
    return Decision(
        at=now,
        kind=kind,
        current=current,
        desired=desired,
        decided_by=decided_by,
        merged=merged,
        recommended=recommended,
        named=named,
        minimum=bounds.minimum,
        maximum=bounds.maximum,
        minimum_by=bounds.minimum_by,
        maximum_by=bounds.maximum_by,
        timed=spec.is_timed,
        bounded=bounded,
        proposals=bounds.proposals if proposals is None else proposals,
        abstentions=bounds.abstentions if abstentions is None else abstentions,
        steps=steps,
        metrics=metrics,
        failure=failure,
        windows=bounds.windows,
        leads=bounds.leads,
        next_edge=bounds.next_edge,
    )
