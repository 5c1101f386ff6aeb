"""The conditions of a reconciliation. The reasons and texts of the upstream's conditions are the upstream's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cronhpa.api.maxed import MAXED_OUT, is_maxed
from cronhpa.api.status_text import Condition, clip
from cronhpa.core.model.decision import Decision, DecisionKind, Failed, Rule, Scaled, Source
from cronhpa.core.model.forecast import TrackRecord, in_days
from cronhpa.core.model.instant import Nanoseconds, format_instant
from cronhpa.core.model.memory import makes_zero
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.spec import Mode
from cronhpa.core.reasons import proposal_reason

ConditionText = tuple[str, bool | None, str, str]
"""Type, whether it is true (None: Unknown), reason, message."""
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
# Reasons of a selector that cannot be used, where the condition's reason and text differ from the event's.
_SELECTOR_CONDITION = {"SelectorRequired": ("InvalidSelector", "the HPA target's scale is missing a selector")}
_VALUES = {True: "True", False: "False", None: "Unknown"}
_OPTIONAL = {
    "BoundsConsistent",
    "CalendarsCurrent",
    "FallbackActive",
    "ForecastActive",
    "PlaceholdersHoldRoom",
    "RequestsStable",
}


def conditions(previous: Iterable[Condition], reconciliation: Reconciliation) -> list[Condition]:
    """The conditions after a reconciliation; transition times are carried over from the previous ones."""
    present = (*_upstream_conditions(reconciliation), *_own_conditions(reconciliation))
    kinds = {kind for kind, *_ in present}
    # Conditions about schedules, a forecast, a fallback or another autoscaler are dropped once there is none.
    kept = (old for old in previous if old["type"] in kinds or old["type"] not in _OPTIONAL)
    return dated(kept, present, reconciliation.generation, reconciliation.decision.at)


def dated(
    previous: Iterable[Condition], present: Iterable[ConditionText], generation: int, now: Nanoseconds
) -> list[Condition]:
    """The previous conditions with those that are present, whose transition times are carried over."""
    conditions = [dict(old) for old in previous]
    # If somebody else wrote two conditions of one type, the first one counts.
    by_type = {condition["type"]: condition for condition in reversed(conditions)}
    for kind, is_true, reason, message in present:
        condition = by_type.get(kind)
        if condition is None and kind == MAXED_OUT and not is_true:
            continue  # only whoever has run at a maximum reads that it no longer does
        if condition is None:
            condition = by_type[kind] = {"type": kind}
            conditions.append(condition)
        value = _VALUES[is_true]
        if condition.get("status") != value:
            condition["lastTransitionTime"] = format_instant(now)
        condition |= {
            "status": value,
            "reason": reason,
            "message": clip(message),
            "observedGeneration": generation,
        }
    return conditions


def _upstream_conditions(reconciliation: Reconciliation) -> Iterator[ConditionText]:
    """The upstream's conditions, in the order in which it sets them: of one type the last one wins."""
    decision = reconciliation.decision
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
    yield from _rescaled(reconciliation)


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


def _rescaled(reconciliation: Reconciliation) -> Iterator[ConditionText]:
    outcome, decision = reconciliation.outcome, reconciliation.decision
    if isinstance(outcome, Failed):
        text = f"the HPA controller was unable to update the target scale: {outcome.message}"
        yield "AbleToScale", False, "FailedUpdateScale", text
    if isinstance(outcome, Scaled):
        text = f"the HPA controller was able to update the target scale to {decision.desired}"
        yield "AbleToScale", True, "SucceededRescale", text
        if makes_zero(decision, reconciliation.spec):
            yield "ScaledToZero", True, "ScaledToZero", "the HPA controller scaled the workload to zero"
        else:
            yield "ScaledToZero", False, "NotScaledToZero", "the HPA controller did not scale the workload to zero"


def _own_conditions(reconciliation: Reconciliation) -> Iterator[ConditionText]:
    decision = reconciliation.decision
    owned = reconciliation.owner_problem is None
    unreadable = [abstention for abstention in decision.abstentions if abstention.source is Source.SCHEDULE]
    problems = tuple(f"schedule {schedule.name}: {schedule.message}" for schedule in unreadable)
    if problems:
        yield "SpecAccepted", False, "Unreadable", "; ".join(problems)
    else:
        yield "SpecAccepted", True, "Accepted", "every part of the spec can be read"
    if owned and reconciliation.contested:
        yield "TargetOwned", None, "ReplicasContested", reconciliation.contested
    elif owned:
        yield "TargetOwned", True, "OnlyOwner", "nothing else scales the target"
    else:
        yield "TargetOwned", False, "OtherOwner", reconciliation.owner_problem or ""
    maxed = is_maxed(reconciliation)
    if maxed:
        text = (
            f"all {decision.maximum} replicas of the maximum in force are asked for: if the load rises, none is added"
        )
        yield MAXED_OUT, True, "AtMaximum", text
    elif maxed is not None:
        yield MAXED_OUT, False, "BelowMaximum", "the maximum in force leaves room, or the count is fixed"
    if reconciliation.spec.is_timed:
        if reconciliation.conflicts:
            yield (
                "BoundsConsistent",
                False,
                reconciliation.conflicts[0].reason,
                "; ".join(map(str, reconciliation.conflicts)),
            )
        else:
            yield "BoundsConsistent", True, "Consistent", "no schedule contradicts another one or the spec's bounds"
    if reconciliation.spec.calendar_problems:
        yield "CalendarsCurrent", False, "LastGoodKept", "; ".join(reconciliation.spec.calendar_problems)
    yield from _of_sources(reconciliation)
    yield _ready(reconciliation, problems)


def _of_sources(reconciliation: Reconciliation) -> Iterator[ConditionText]:
    """What forecast and fallback do, and who moves the requests that a utilization is divided by."""
    if reconciliation.spec.forecast is not None:
        yield _forecast_active(reconciliation)
    if reconciliation.spec.fallback is not None:
        yield _fallback_active(reconciliation.decision)
    problem = reconciliation.placeholder_problem
    if problem is not None:
        yield "PlaceholdersHoldRoom", False, problem.reason, problem.message
    if reconciliation.requests_changed:
        yield "RequestsStable", False, "VerticalPodAutoscaler", reconciliation.requests_changed


def _fallback_active(decision: Decision) -> ConditionText:
    proposal = next((candidate for candidate in decision.proposals if candidate.source is Source.FALLBACK), None)
    if proposal is not None:
        message = f"at least {proposal.replicas} are kept: {proposal_reason(proposal)}"
        return "FallbackActive", True, "MetricsUnknown", message
    waits = next((abstention for abstention in decision.abstentions if abstention.source is Source.FALLBACK), None)
    if waits is not None:
        return "FallbackActive", False, waits.reason, waits.message
    if decision.kind not in {DecisionKind.HELD, DecisionKind.COMPUTED}:
        return "FallbackActive", False, "NotAsked", f"this reconciliation went another way: {decision.kind}"
    return "FallbackActive", False, "NotNeeded", "no metric is asked for that is unknown"


def _forecast_active(reconciliation: Reconciliation) -> ConditionText:
    decision = reconciliation.decision
    abstained = next((abstention for abstention in decision.abstentions if abstention.source is Source.FORECAST), None)
    proposal = next((candidate for candidate in decision.proposals if candidate.source is Source.FORECAST), None)
    assert reconciliation.spec.forecast is not None
    lost = (
        (reconciliation.forecast.unusable,)
        if reconciliation.forecast is not None and reconciliation.forecast.unusable
        else ()
    )
    if abstained is not None:
        return "ForecastActive", False, abstained.reason, "; ".join((abstained.message, *lost))
    if proposal is None:
        return "ForecastActive", False, "NotAsked", f"this reconciliation went another way: {decision.kind}"
    parts = (proposal_reason(proposal), *lost)
    if reconciliation.spec.forecast.mode is Mode.PREVIEW:
        return "ForecastActive", False, "Preview", f"it would ask for at least {proposal.replicas}: {'; '.join(parts)}"
    if reconciliation.forecast is None or reconciliation.forecast.track_record is None:
        return "ForecastActive", True, "Acting", "; ".join(parts)
    return "ForecastActive", True, "BeatsReactive", "; ".join((_tried(reconciliation.forecast.track_record), *parts))


def _tried(record: TrackRecord) -> str:
    return (
        f"{record.avoided:.0f} of {record.of:.0f} under-provisioned minutes avoided at {record.extra_percent:+.1f} % "
        f"pod-hours over {in_days(record.days)}"
    )


def _ready(reconciliation: Reconciliation, problems: tuple[str, ...]) -> ConditionText:
    """The Ready condition: a summary for tools that know no other condition."""
    decision = reconciliation.decision
    is_preview = reconciliation.spec.mode is Mode.PREVIEW
    # A preview scales nothing, so another owner of its target is no problem.
    if reconciliation.owner_problem is not None and not is_preview:
        return "Ready", False, "OtherOwner", reconciliation.owner_problem
    if problems:
        return "Ready", False, "SpecUnreadable", "; ".join(problems)
    if decision.kind is DecisionKind.UNREACHABLE:
        assert decision.failure is not None
        return "Ready", False, "TargetUnreachable", decision.failure.message
    if isinstance(reconciliation.outcome, Failed):
        return "Ready", False, "FailedUpdateScale", reconciliation.outcome.message
    if decision.failure is not None:
        return "Ready", False, decision.failure.reason, decision.failure.message
    if decision.kind is DecisionKind.SUSPENDED:
        text = "the target was scaled to zero by hand, and stays there until it is scaled up by hand"
        return "Ready", True, "ScaledToZeroByHand", text
    if is_preview:
        return "Ready", True, "Preview", "decisions are made and reported, nothing is scaled"
    return "Ready", True, "Deciding", "decisions are made and acted on"
