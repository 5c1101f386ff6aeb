"""A reconciliation becomes Kubernetes events. The reasons and texts of the upstream's events are the upstream's."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from cronhpa.api.status_text import Status
from cronhpa.core.model.decision import Decision, DecisionKind, Failed, Scaled
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.reasons import event_reason


class Event(Struct, frozen=True):
    """One event to be recorded on the object."""

    type: str
    reason: str
    message: str


def events(reconciliation: Reconciliation) -> Iterator[Event]:
    """The reconciliation's events, in the upstream's order."""
    decision = reconciliation.decision
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
    if isinstance(reconciliation.outcome, Failed):
        text = f"New size: {decision.desired}; reason: {_why(reconciliation)}; error: {reconciliation.outcome.message}"
        yield Event("Warning", "FailedRescale", text)
    if isinstance(reconciliation.outcome, Scaled):
        yield Event("Normal", "SuccessfulRescale", f"New size: {decision.desired}; reason: {_why(reconciliation)}")


def new_conflict_events(previous: Status, reconciliation: Reconciliation) -> Iterator[Event]:
    """
    An event for each conflict that the previous status does not state: each is reported once, however often it recurs.
    """
    told_before = [
        condition.get("message", "")
        for condition in previous.get("conditions", ())
        if condition["type"] == "BoundsConsistent"
    ]
    for conflict in reconciliation.conflicts:
        if not any(conflict.text in message for message in told_before):
            yield Event("Warning", conflict.reason, str(conflict))


def _why(reconciliation: Reconciliation) -> str:
    spec = reconciliation.spec
    return event_reason(reconciliation.decision, is_upstream=spec.is_upstream)


def _failure_text(decision: Decision) -> str:
    assert decision.failure is not None
    first = decision.failure.error or decision.failure.message
    bad = sum(isinstance(result, Absent) for result in decision.metrics)
    if not bad:
        return first
    return f"invalid metrics ({bad} invalid out of {len(decision.metrics)}), first error is: {first}"
