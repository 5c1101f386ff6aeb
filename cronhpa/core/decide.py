"""
One reconciliation: `decide(spec, observation, forecast, memory, now) -> Decision`. Pure: equal inputs, equal decisions.

propose (metrics | schedules | forecast | fallback) -> merge -> normalize. Without the last three and an override, the
result is that of the upstream's reconcileAutoscaler, v1.36, to the letter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from cronhpa.core.behavior import Limits, normalize
from cronhpa.core.fallback import fall_back, unmeasured_since
from cronhpa.core.forecasts.floor import predict
from cronhpa.core.metrics.replicas import measure, tolerance
from cronhpa.core.model.decision import (
    BY_NOBODY,
    BY_SPEC,
    Abstention,
    Decision,
    DecisionKind,
    Held,
    MetricProposal,
    Proposal,
    Recommendation,
    Role,
    Rule,
    Source,
    SourceRef,
    Step,
    WindowState,
)
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation, Scale
from cronhpa.core.model.spec import Mode, Spec
from cronhpa.core.schedules.bounds import Bounds, resolve


class Decide(Protocol):
    """`decide`, or a wrapper around it: of a test, or one that traces."""

    def __call__(
        self, spec: Spec, observation: Observation, forecast: Forecast | Absent | None, memory: Memory, now: Nanoseconds
    ) -> Decision: ...


def decide(
    spec: Spec, observation: Observation, forecast: Forecast | Absent | None, memory: Memory, now: Nanoseconds
) -> Decision:
    """The replicas to scale to, and every fact that explains the count."""
    bounds = resolve(
        spec, now, memory.lead_start_up_after(observation, spec, now), memory.leads, memory.crowd_after(observation)
    )
    scale = observation.scale
    if isinstance(scale, Absent):
        return _decision(DecisionKind.UNREACHABLE, spec, bounds, now, failure=scale, since=memory.unmeasured_since)
    current = scale.spec_replicas
    early = guard(spec, bounds, current, memory)
    if early is not None:
        kind, desired, by = early
        # No metric is read here. A zero of a person lasts; the others are over in the next reconciliation.
        since = None if kind is DecisionKind.SUSPENDED else memory.unmeasured_since
        return _decision(kind, spec, bounds, now, current, desired, decided_by=by, since=since)

    proposals = propose(spec, observation, scale, forecast, memory, bounds, now)
    merged = merge(spec, proposals, bounds, current, now)
    if merged.recommended is None:
        return _decision(DecisionKind.HELD, spec, bounds, now, current, current, proposals=proposals, merged=merged)
    memory = memory.seeded(current, now, bounded=merged.limits.bounded)
    desired, steps = normalize(merged.recommended, current, merged.limits, spec.behavior, spec.options, memory)
    return _decision(
        DecisionKind.COMPUTED, spec, bounds, now, current, desired, proposals=proposals, merged=merged, steps=steps
    )


def guard(spec: Spec, bounds: Bounds, current: int, memory: Memory) -> tuple[DecisionKind, int, SourceRef] | None:
    """
    The early exits, before any metric is read: kind of the decision, count and source; None if proposals decide.

    - A zero that a person set stays. A zero that cronhpa set ends when a source asks for more.
    - In the first reconciliation of an object with schedules, a zero counts as one that a schedule set.
    - Without schedules, a count outside the bounds jumps to the nearest bound.
    """
    if current == 0:
        is_ours = memory.zero is True or (spec.is_timed and memory.zero is None and not memory.recommendations)
        wakes = spec.is_timed or spec.min_replicas != 0 or spec.scales_to_zero
        return None if is_ours and wakes else (DecisionKind.SUSPENDED, current, BY_NOBODY)
    if spec.is_timed:
        return None
    if current > bounds.maximum:
        return DecisionKind.ABOVE_MAXIMUM, spec.max_replicas, BY_SPEC
    if current < bounds.minimum:
        return DecisionKind.BELOW_MINIMUM, spec.min_replicas, BY_SPEC
    return None


# --- propose -----------------------------------------------------------------------------------------------------


class Target(Struct, frozen=True):
    """The count that all metrics together ask for."""

    replicas: int
    by: SourceRef
    """The metric with the largest count. If no metric has a proposal: the source of the count in its place."""
    name: str = ""
    """That metric, as the upstream prints it."""
    measured: tuple[MetricProposal | Absent, ...] = ()
    """One for each metric, in order; empty if none was measured."""
    failure: Absent | None = None
    """Why the metrics have no proposal; `replicas` is the current count then, or at a zero of ours the minimum."""

    @property
    def requested(self) -> int | None:
        """The count that the metrics ask for; None if they have no proposal."""
        return self.replicas if self.by.source is Source.METRIC else None


class Proposals(Struct, frozen=True):
    """What the sources ask for."""

    target: Target
    unscheduled_floors: tuple[Proposal, ...]
    """Those that the bounds do not have: of the forecast, unless it is only to be shown (mode Preview), and of the
    fallback."""
    listed: tuple[Proposal, ...]
    """Every proposal, for the reader of the decision: metrics, forecast, fallback, override, schedules."""
    abstentions: tuple[Abstention, ...]
    unmeasured_since: Nanoseconds | None
    """Since when not all metrics are known; None if all are, or without a fallback."""


def propose(
    spec: Spec,
    observation: Observation,
    scale: Scale,
    forecast: Forecast | Absent | None,
    memory: Memory,
    bounds: Bounds,
    now: Nanoseconds,
) -> Proposals:
    """The proposals of metrics, forecast and fallback, beside those of the bounds in force."""
    # At a scheduled zero there is no pod to measure, so the bounds alone set the target. The memory keeps the zero as a
    # scheduled one after its schedule or override is removed: otherwise the target would stay at zero for ever.
    asleep = scale.spec_replicas == 0 and (spec.is_timed or memory.scheduled_zero)
    target = _target(spec, observation, scale, bounds, asleep=asleep)
    predicted = predict(spec, observation, forecast, memory, bounds.headroom_percent, now)
    requested = target.requested
    by_metrics = () if requested is None else (Proposal(Source.METRIC, target.by.name, Role.TARGET, requested),)
    by_forecast = (predicted,) if isinstance(predicted, Proposal) else ()
    failed = tuple(
        Abstention(Source.METRIC, getattr(metric, "name", ""), result.reason, result.message)
        for metric, result in zip(spec.metrics, target.measured, strict=False)
        if isinstance(result, Absent)
    )
    not_forecast = (predicted,) if isinstance(predicted, Abstention) else ()
    acts = spec.forecast is not None and spec.forecast.mode is Mode.ACTIVE
    is_unmeasured = bool(failed) or (observation.selector_problem is not None and target.failure is not None)
    since = unmeasured_since(spec, memory, now) if is_unmeasured else None
    fallback = fall_back(spec, since, now)
    by_fallback = (fallback,) if isinstance(fallback, Proposal) else ()
    no_fallback = (fallback,) if isinstance(fallback, Abstention) else ()
    return Proposals(
        target,
        (*(by_forecast if acts else ()), *by_fallback),
        (*by_metrics, *by_forecast, *by_fallback, *bounds.proposals),
        (*failed, *not_forecast, *no_fallback, *bounds.abstentions),
        since,
    )


def _target(spec: Spec, observation: Observation, scale: Scale, bounds: Bounds, *, asleep: bool) -> Target:
    """
    The largest count that any metric asks for.

    If some metrics fail, or some pods are not seen, the other metrics may scale up but not down. If all metrics fail,
    the current count stays. Without metrics, and at a scheduled zero (asleep), the count is the lower bound.
    """
    current = scale.spec_replicas
    if not spec.metrics or (asleep and not spec.scales_to_zero):
        return Target(bounds.minimum, bounds.minimum_by)

    unmeasured = bounds.minimum if asleep else current
    unmeasured_by = BY_NOBODY if unmeasured == current else bounds.minimum_by
    if observation.selector_problem is not None:
        return Target(unmeasured, unmeasured_by, failure=observation.selector_problem)
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
        return Target(unmeasured, unmeasured_by, measured=measured, failure=absent[0])
    if observation.unseen is not None and replicas < current:
        return Target(current, BY_NOBODY, measured=measured, failure=observation.unseen)
    return Target(replicas, SourceRef(Source.METRIC, source), name, measured)


# --- merge -------------------------------------------------------------------------------------------------------


class Merged(Struct, frozen=True):
    """The count of all proposals together, with its source."""

    replicas: int
    by: SourceRef
    limits: Limits
    """The bounds that the next steps must keep."""
    recommended: Recommendation | None
    """The count, to be stabilized and remembered. None without evidence for any count: the current one stays."""
    steps: tuple[Step, ...] = ()
    """The count that was kept because a schedule cannot be read."""


def merge(spec: Spec, proposals: Proposals, bounds: Bounds, current: int, now: Nanoseconds) -> Merged:
    """
    The target of the metrics, raised to the largest floor, then lowered to the cap. The last of them to set the count
    is its source. `Limits.clamp` does it; its raises and cuts are no steps, because the proposals show them.

    If the metrics ask for the current count and a floor equals that count, the source is the floor. While a schedule is
    unreadable, only a readable cap may scale down.

    The metrics' count may be the current one, as within the tolerance or while pods start: a rule that adds to it would
    add in each period.
    """
    target = proposals.target
    limits = _limits(spec, proposals.unscheduled_floors, bounds, current)
    replicas, changes = limits.clamp(target.replicas)
    by = _source_after(target.by, changes)
    if not changes and replicas == current == limits.floor and limits.floor_by is not None:
        by = limits.floor_by
    steps: tuple[Step, ...] = ()
    if bounds.unreadable is not None and replicas < current:
        # A floor above the current count would have raised the count: only the cap can change it.
        clamped, changes = limits.clamp(current)
        if clamped != replicas:
            by = _source_after(BY_NOBODY, changes)
            steps = (Step(Rule.NO_EVIDENCE, replicas, clamped, by if changes else bounds.unreadable),)
            replicas = clamped
    has_evidence = target.failure is None or replicas != current or not limits.allow(current)
    recommended = Recommendation(replicas, now, target.requested, by) if has_evidence else None
    return Merged(replicas, by, limits, recommended, steps)


def _limits(spec: Spec, floors: Iterable[Proposal], bounds: Bounds, current: int) -> Limits:
    """The bounds in force, with the largest of their floor and the floors of forecast and fallback."""
    floor, floor_by = bounds.timed_floor, bounds.minimum_by
    for proposal in floors:
        if floor is None or proposal.replicas > floor:
            floor, floor_by = proposal.replicas, proposal.by
    maximum, maximum_by = bounds.maximum, bounds.maximum_by
    # An unreadable schedule may be the one that allows more than the spec.
    if bounds.unreadable is not None and bounds.timed_cap is None and current > maximum:
        maximum, maximum_by = current, bounds.unreadable
    return Limits(
        bounds.minimum,
        maximum,
        floor,
        bounds.timed_cap,
        timed=spec.is_timed,
        minimum_by=bounds.minimum_by,
        maximum_by=maximum_by,
        floor_by=floor_by,
        cap_by=bounds.maximum_by,
        released=tuple(
            SourceRef(Source.SCHEDULE, schedule.name)
            for schedule, window in zip(spec.schedules, bounds.windows, strict=True)
            if schedule.ends_at_once and window.state is WindowState.CLOSED
        ),
    )


def _source_after(by: SourceRef, steps: Iterable[Step]) -> SourceRef:
    """
    The source of a count after these steps: `by`, unless a window or a bound replaced the count.

    A rate only delays a count, so it does not change the source.
    """
    for step in steps:
        if isinstance(step.cause, Held):
            by = step.cause.by or BY_NOBODY
        elif isinstance(step.cause, SourceRef):
            by = step.cause
    return by


def _decision(  # noqa: PLR0913 - the fields of a Decision that its callers know
    kind: DecisionKind,
    spec: Spec,
    bounds: Bounds,
    now: Nanoseconds,
    current: int = 0,
    desired: int = 0,
    *,
    decided_by: SourceRef | None = None,
    failure: Absent | None = None,
    proposals: Proposals | None = None,
    merged: Merged | None = None,
    steps: tuple[Step, ...] = (),
    since: Nanoseconds | None = None,
) -> Decision:
    """The decision, completed from the bounds in force, and from the proposals and their merge if there are any."""
    if merged is not None:
        steps = (*merged.steps, *steps)
        decided_by = _source_after(merged.by, steps)
    return Decision(
        at=now,
        kind=kind,
        current=current,
        desired=desired,
        decided_by=decided_by,
        merged=0 if merged is None else merged.replicas,
        recommended=None if merged is None else merged.recommended,
        named="" if proposals is None else proposals.target.name,
        minimum=bounds.minimum,
        maximum=bounds.maximum,
        minimum_by=bounds.minimum_by,
        maximum_by=bounds.maximum_by,
        timed=spec.is_timed,
        bounded=merged is not None and merged.limits.bounded,
        proposals=bounds.proposals if proposals is None else proposals.listed,
        abstentions=bounds.abstentions if proposals is None else proposals.abstentions,
        steps=steps,
        metrics=() if proposals is None else proposals.target.measured,
        failure=failure if proposals is None else proposals.target.failure,
        windows=bounds.windows,
        leads=bounds.leads,
        next_edge=bounds.next_edge,
        unmeasured_since=since if proposals is None else proposals.unmeasured_since,
    )
