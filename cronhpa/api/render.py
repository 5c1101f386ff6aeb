"""
A decision becomes a status, conditions and events. The texts of the upstream's conditions are the upstream's.

A status is the JSON object that the API serves. `render` builds it anew from the one before, so that transition times
and what a failed turn leaves alone are carried over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from cronhpa.core.decision import (
    Decision,
    Edge,
    Failed,
    Outcome,
    DecisionKind,
    Proposal,
    Rule,
    Scaled,
    Source,
    Window,
    WindowState,
)
from cronhpa.core.forecast import Forecast, TrackRecord, in_days
from cronhpa.core.instant import SECOND, format_instant, format_instant_exact
from cronhpa.core.memory import Memory, makes_zero
from cronhpa.core.observation import Absent
from cronhpa.core.quantity import format_milli
from cronhpa.core.reactive.arithmetic import INT32_MAX
from cronhpa.core.reactive.replicas import MetricProposal
from cronhpa.core.scheduled.conflicts import Conflict
from cronhpa.core.spec import (
    ExternalMetric,
    LabelSelector,
    Metric,
    Mode,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    Spec,
    UnknownMetric,
)

Status = dict[str, Any]
Condition = dict[str, Any]

STABILIZED = {
    Rule.SCALE_DOWN_STABILIZED: "recent recommendations were higher than current one, "
    "applying the highest recent recommendation",
    Rule.SCALE_UP_STABILIZED: "recent recommendations were lower than current one, "
    "applying the lowest recent recommendation",
}
LIMITED = {
    Rule.SCALE_UP_LIMIT: "the desired replica count is increasing faster than the maximum scale rate",
    Rule.SCALE_DOWN_LIMIT: "the desired replica count is decreasing faster than the maximum scale rate",
    Rule.TOO_MANY_REPLICAS: "the desired replica count is more than the maximum replica count",
    Rule.TOO_FEW_REPLICAS: "the desired replica count is less than the minimum replica count",
}
# The event that tells of a selector that cannot be used has its own reason and text where the condition's differ.
_SELECTOR_CONDITION = {"SelectorRequired": ("InvalidSelector", "the HPA target's scale is missing a selector")}
MEMORY_VERSION = 1
_TEXT_MAX = 4096


class Event(Struct, frozen=True):
    """One event to be recorded on the object."""

    type: str
    reason: str
    message: str


class Turn(Struct, frozen=True):
    """All that a status is rendered from."""

    spec: Spec
    decision: Decision
    outcome: Outcome
    memory: Memory
    generation: int
    owner_problem: str | None = None
    spec_problems: tuple[str, ...] = ()
    forecast: Forecast | None = None
    budget_used: int | None = None
    conflicts: tuple[Conflict, ...] = ()


def render(previous: Status, turn: Turn) -> Status:
    """The status after a turn."""
    decision, spec = turn.decision, turn.spec
    status: Status = {"observedGeneration": turn.generation, "target": f"{spec.target.kind}/{spec.target.name}"}
    if decision.kind is DecisionKind.UNREACHABLE:
        kept = ("currentReplicas", "desiredReplicas", "lastScaleTime", "currentMetrics")
        status |= {key: previous[key] for key in kept if key in previous}
    else:
        is_settled = decision.kind is not DecisionKind.HELD and not isinstance(turn.outcome, Failed)
        status["currentReplicas"] = decision.current
        status["desiredReplicas"] = decision.desired if is_settled else previous.get("desiredReplicas", 0)
        if isinstance(turn.outcome, Scaled):
            status["lastScaleTime"] = format_instant(turn.outcome.at)
        elif "lastScaleTime" in previous:
            status["lastScaleTime"] = previous["lastScaleTime"]
        status["currentMetrics"] = _metrics(spec, decision)
    status["effectiveMinReplicas"] = decision.minimum
    status["effectiveMaxReplicas"] = decision.maximum
    if turn.memory.start_up is not None:
        status["podStartupSeconds"] = turn.memory.start_up // SECOND
    status["decision"] = _explained(decision, turn.owner_problem)
    if spec.schedules:
        problems = {item.name: item.message for item in decision.abstentions if item.source is Source.SCHEDULE}
        status["schedules"] = [_window(item, problems.get(item.name)) for item in decision.windows]
    if decision.next_edge is not None:
        status["nextEdge"] = _edge(decision.next_edge)
    if spec.forecast is not None and turn.forecast is not None:
        status["forecast"] = _forecast(turn.forecast, turn.budget_used)
    status["conditions"] = _conditions(previous.get("conditions", []), turn)
    status["memory"] = render_memory(turn.memory.pruned(spec.behavior, spec.options, decision.at))
    return status


def render_memory(memory: Memory) -> dict[str, Any]:
    """The memory as the status keeps it; `parse_memory` reads it back."""
    text: dict[str, Any] = {"version": MEMORY_VERSION}
    text["recommendations"] = [
        {"replicas": item.replicas, "time": format_instant_exact(item.at)} for item in memory.recommendations
    ]
    for key, events in (("scaleUpEvents", memory.scale_ups), ("scaleDownEvents", memory.scale_downs)):
        text[key] = [
            {
                "change": item.change,
                "time": format_instant_exact(item.at),
                **({"outdated": True} if item.outdated else {}),
            }
            for item in events
        ]
    if memory.zero is not None:
        text["zero"] = memory.zero
    if memory.scheduled_zero:
        text["scheduledZero"] = True
    if memory.start_up is not None:
        text["startUpSeconds"] = memory.start_up // SECOND
    if memory.request_per_pod:
        text["requestPerPod"] = {name: format_milli(milli) for name, milli in sorted(memory.request_per_pod.items())}
    if memory.intent is not None:
        text["intent"] = {
            "from": memory.intent.before,
            "to": memory.intent.after,
            "time": format_instant_exact(memory.intent.at),
            **({"fromScheduledZero": True} if memory.intent.from_scheduled_zero else {}),
        }
    if memory.leads:
        text["leads"] = [
            {
                "schedule": item.schedule,
                "start": format_instant_exact(item.start),
                "seconds": item.length // SECOND,
            }
            for item in memory.leads
        ]
    return text


def events(turn: Turn) -> Iterator[Event]:
    """The turn's events, in the upstream's order."""
    decision = turn.decision
    if decision.kind is DecisionKind.UNREACHABLE:
        assert decision.failure is not None
        yield Event("Warning", "FailedGetScale", decision.failure.message)
        return
    for result in decision.metrics:
        if isinstance(result, Absent):
            yield Event("Warning", result.reason, result.message)
    if decision.failure is not None and not decision.metrics:
        yield Event("Warning", decision.failure.reason, decision.failure.message)
    if decision.failure is not None:
        yield Event("Warning", "FailedComputeMetricsReplicas", _failure_text(decision))
    if isinstance(turn.outcome, Failed):
        text = f"New size: {decision.desired}; reason: {decision.reason}; error: {turn.outcome.message}"
        yield Event("Warning", "FailedRescale", text)
    if isinstance(turn.outcome, Scaled):
        yield Event("Normal", "SuccessfulRescale", f"New size: {decision.desired}; reason: {decision.reason}")


def new_conflict_events(previous: Status, turn: Turn) -> Iterator[Event]:
    """The events of what was not so in the status before: each contradiction once, however often it comes."""
    told = [item.get("message", "") for item in previous.get("conditions", ()) if item["type"] == "BoundsConsistent"]
    for conflict in turn.conflicts:
        if not any(conflict.text in message for message in told):
            yield Event("Warning", conflict.reason, str(conflict))


def _failure_text(decision: Decision) -> str:
    assert decision.failure is not None
    if not decision.metrics:
        return decision.failure.error or decision.failure.message
    bad = sum(isinstance(result, Absent) for result in decision.metrics)
    first = decision.failure.error or decision.failure.message
    return f"invalid metrics ({bad} invalid out of {len(decision.metrics)}), first error is: {first}"


def clip(text: str) -> str:
    """A text as long as a status may hold: an answer from elsewhere can be of any length, and a refused status lost."""
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 3] + "..."


def _conditions(previous: Iterable[Condition], turn: Turn) -> list[Condition]:
    stated = (*_upstream_conditions(turn), *_own_conditions(turn))
    kinds = {kind for kind, *_ in stated}
    # What schedules or a forecast were, once there are none any more, is nothing to go on telling.
    conditions = [dict(item) for item in previous if item["type"] in kinds or item["type"] not in _WHERE_ASKED_FOR]
    stamp = format_instant(turn.decision.at)
    for kind, is_true, reason, message in stated:
        condition = next((item for item in conditions if item["type"] == kind), None)
        if condition is None:
            condition = {"type": kind}
            conditions.append(condition)
        value = "True" if is_true else "False"
        if condition.get("status") != value:
            condition["lastTransitionTime"] = stamp
        condition |= {
            "status": value,
            "reason": reason,
            "message": clip(message),
            "observedGeneration": turn.generation,
        }
    return conditions


ConditionText = tuple[str, bool, str, str]
_WHERE_ASKED_FOR = {"BoundsConsistent", "ForecastActive"}


def _upstream_conditions(turn: Turn) -> Iterator[ConditionText]:
    """The conditions that the upstream sets, in the order in which a turn sets them: the last word wins."""
    decision = turn.decision
    if decision.kind is DecisionKind.UNREACHABLE:
        assert decision.failure is not None
        text = f"the HPA controller was unable to get the target's current scale: {decision.failure.message}"
        yield "AbleToScale", False, "FailedGetScale", text
        return
    yield "AbleToScale", True, "SucceededGetScale", "the HPA controller was able to get the target's current scale"
    if decision.kind is DecisionKind.SUSPENDED:
        text = "scaling is disabled since the replica count of the target is zero"
        yield "ScalingActive", False, "ScalingDisabled", text
        return
    if decision.kind in {DecisionKind.HELD, DecisionKind.COMPUTED}:
        yield _scaling_active(decision)
    if decision.kind is DecisionKind.COMPUTED:
        yield from _limits(decision)
    yield from _rescaled(turn)


def _scaling_active(decision: Decision) -> ConditionText:
    failure = decision.failure
    if failure is None:
        if not decision.metrics:
            return "ScalingActive", True, "ScheduledOnly", "the schedules decide: there is no metric to ask"
        text = f"the HPA was able to successfully calculate a replica count from {decision.named}"
        return "ScalingActive", True, "ValidMetricFound", text
    if not decision.metrics:
        reason, text = _SELECTOR_CONDITION.get(failure.reason, (failure.reason, failure.message))
        return "ScalingActive", False, reason, text
    text = f"the HPA was unable to compute the replica count: {failure.message}"
    return "ScalingActive", False, failure.reason, text


def _limits(decision: Decision) -> Iterator[ConditionText]:
    stabilized, limited = decision.stabilized, decision.limited
    if stabilized is None:
        yield "AbleToScale", True, "ReadyForNewScale", "recommended size matches current size"
    else:
        yield "AbleToScale", True, str(stabilized), STABILIZED[stabilized]
    if limited is None:
        text = "the desired count is within the acceptable range"
        yield "ScalingLimited", False, "DesiredWithinRange", text
    else:
        yield "ScalingLimited", True, str(limited), LIMITED[limited]


def _rescaled(turn: Turn) -> Iterator[ConditionText]:
    outcome, decision = turn.outcome, turn.decision
    if isinstance(outcome, Failed):
        text = f"the HPA controller was unable to update the target scale: {outcome.message}"
        yield "AbleToScale", False, "FailedUpdateScale", text
    if isinstance(outcome, Scaled):
        text = f"the HPA controller was able to update the target scale to {decision.desired}"
        yield "AbleToScale", True, "SucceededRescale", text
        if makes_zero(decision, turn.spec):
            yield "ScaledToZero", True, "ScaledToZero", "the HPA controller scaled the workload to zero"
        else:
            yield "ScaledToZero", False, "NotScaledToZero", "the HPA controller did not scale the workload to zero"


def _own_conditions(turn: Turn) -> Iterator[ConditionText]:
    decision = turn.decision
    owned = turn.owner_problem is None
    unreadable = [item for item in decision.abstentions if item.source is Source.SCHEDULE]
    problems = (*turn.spec_problems, *(f"schedule {item.name}: {item.message}" for item in unreadable))
    if problems:
        yield "SpecAccepted", False, "Unreadable", "; ".join(problems)
    else:
        yield "SpecAccepted", True, "Accepted", "every part of the spec can be read"
    if owned:
        yield "TargetOwned", True, "OnlyOwner", "nothing else scales the target"
    else:
        yield "TargetOwned", False, "OtherOwner", turn.owner_problem or ""
    if turn.spec.is_timed:
        if turn.conflicts:
            yield "BoundsConsistent", False, turn.conflicts[0].reason, "; ".join(map(str, turn.conflicts))
        else:
            yield "BoundsConsistent", True, "Consistent", "no schedule contradicts another one or the spec's bounds"
    if turn.spec.forecast is not None:
        yield _forecast_active(turn)
    yield _ready(turn, problems)


def _forecast_active(turn: Turn) -> ConditionText:
    decision = turn.decision
    abstained = next((item for item in decision.abstentions if item.source is Source.FORECAST), None)
    proposal = next((item for item in decision.proposals if item.source is Source.FORECAST), None)
    assert turn.spec.forecast is not None
    if abstained is not None:
        return "ForecastActive", False, abstained.reason, abstained.message
    if proposal is None:
        return "ForecastActive", False, "NotAsked", f"this turn went another way: {decision.kind}"
    if turn.spec.forecast.mode is Mode.PREVIEW:
        return "ForecastActive", False, "Preview", f"it would ask for at least {proposal.replicas}: {proposal.reason}"
    if turn.forecast is None or turn.forecast.track_record is None:
        return "ForecastActive", True, "Acting", proposal.reason
    return "ForecastActive", True, "BeatsReactive", f"{_tried(turn.forecast.track_record)}; {proposal.reason}"


def _tried(record: TrackRecord) -> str:
    return (
        f"{record.avoided:.0f} of {record.of:.0f} under-provisioned minutes avoided at {record.extra_percent:+.1f} % "
        f"pod-hours over {in_days(record.days)}"
    )


def _ready(turn: Turn, problems: tuple[str, ...]) -> ConditionText:
    """Whether the object does what its user wants, in one word for tools that know no other."""
    decision = turn.decision
    if turn.owner_problem is not None:
        return "Ready", False, "OtherOwner", turn.owner_problem
    if problems:
        return "Ready", False, "SpecUnreadable", "; ".join(problems)
    if decision.kind is DecisionKind.UNREACHABLE:
        assert decision.failure is not None
        return "Ready", False, "TargetUnreachable", decision.failure.message
    if isinstance(turn.outcome, Failed):
        return "Ready", False, "FailedUpdateScale", turn.outcome.message
    if decision.failure is not None:
        return "Ready", False, decision.failure.reason, decision.failure.message
    if turn.spec.mode is Mode.PREVIEW:
        return "Ready", True, "Preview", "decisions are made and reported, nothing is scaled"
    return "Ready", True, "Deciding", "decisions are made and acted on"


def _explained(decision: Decision, owner_problem: str | None) -> dict[str, Any]:
    text: dict[str, Any] = {}
    if decision.decided_by:
        text["decidedBy"] = decision.decided_by
    if decision.reason:
        text["reason"] = clip(decision.reason)
    elif decision.kind not in {DecisionKind.COMPUTED, DecisionKind.HELD}:
        text["reason"] = str(decision.kind)
    if owner_problem is not None:
        text["withheld"] = owner_problem
    text["proposals"] = [_proposal(item) for item in decision.proposals]
    text["abstentions"] = [
        {"source": str(item.source), "name": item.name, "reason": item.reason, "message": clip(item.message)}
        for item in decision.abstentions
    ]
    text["steps"] = [{"rule": str(item.rule), "from": item.before, "to": item.after} for item in decision.steps]
    return text


def _proposal(item: Proposal) -> dict[str, Any]:
    text: dict[str, Any] = {"source": str(item.source)}
    if item.name:
        text["name"] = item.name
    text |= {"role": str(item.role), "replicas": item.replicas}
    if item.until is not None:
        text["until"] = format_instant(item.until)
    if item.reason:
        text["reason"] = item.reason
    return text


def _window(item: Window, problem: str | None) -> dict[str, Any]:
    text: dict[str, Any] = {"name": item.name, "state": str(item.state)}
    if item.changes is not None:
        text["closes" if item.state is WindowState.OPEN else "opens"] = format_instant(item.changes)
    if item.lead is not None:
        text["leadSeconds"] = item.lead // SECOND
    if problem is not None:
        text["message"] = clip(problem)
    return text


def _edge(edge: Edge) -> dict[str, Any]:
    return {"time": format_instant(edge.at), "schedule": edge.schedule, "state": str(edge.state)}


def _forecast(forecast: Forecast, budget_used: int | None) -> dict[str, Any]:
    text: dict[str, Any] = {"model": forecast.model, "quantilePercent": forecast.quantile_percent}
    if forecast.coverage_percent is not None:
        text["coveragePercent"] = forecast.coverage_percent
    if budget_used is not None:
        text["budgetUsedPermille"] = budget_used
    text["issuedAt"] = format_instant(forecast.issued_at)
    text["trainedUntil"] = format_instant(forecast.trained_until)
    return text


def _metrics(spec: Spec, decision: Decision) -> list[dict[str, Any]] | None:
    """status.currentMetrics; None where no metric was asked, an empty entry for one that said nothing."""
    if decision.kind not in {DecisionKind.HELD, DecisionKind.COMPUTED} or not decision.metrics:
        return None
    return [
        _metric(metric, result) if isinstance(result, MetricProposal) else {"type": ""}
        for metric, result in zip(spec.metrics, decision.metrics, strict=True)
    ]


def _metric(metric: Metric, measured: MetricProposal) -> dict[str, Any]:
    current: dict[str, Any] = {}
    if isinstance(metric, ResourceMetric):
        binary = metric.name == "memory"
        assert measured.average_value is not None
        current["averageValue"] = format_milli(measured.average_value, binary=binary)
        if measured.average_utilization is not None:
            current["averageUtilization"] = max(-INT32_MAX, min(measured.average_utilization, INT32_MAX))
        if metric.container is None:
            return {"type": "Resource", "resource": {"name": metric.name, "current": current}}
        entry = {"name": metric.name, "container": metric.container, "current": current}
        return {"type": "ContainerResource", "containerResource": entry}
    if measured.average_value is not None:
        current["averageValue"] = format_milli(measured.average_value)
    elif measured.value is not None:
        current["value"] = format_milli(measured.value)
    assert not isinstance(metric, UnknownMetric)
    identifier = {"name": metric.name, **({"selector": _selector(metric.selector)} if metric.selector else {})}
    if isinstance(metric, PodsMetric):
        return {"type": "Pods", "pods": {"metric": identifier, "current": current}}
    if isinstance(metric, ExternalMetric):
        return {"type": "External", "external": {"metric": identifier, "current": current}}
    assert isinstance(metric, ObjectMetric)
    described = {"kind": metric.described.kind, "name": metric.described.name}
    if metric.described.api_version:
        described["apiVersion"] = metric.described.api_version
    return {"type": "Object", "object": {"metric": identifier, "current": current, "describedObject": described}}


def _selector(selector: LabelSelector) -> dict[str, Any]:
    text: dict[str, Any] = {}
    if selector.match_labels:
        text["matchLabels"] = dict(selector.match_labels)
    if selector.match_expressions:
        text["matchExpressions"] = [
            {"key": item.key, "operator": item.operator, **({"values": list(item.values)} if item.values else {})}
            for item in selector.match_expressions
        ]
    return text
