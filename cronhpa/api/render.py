"""
A reconciliation becomes a status.

A status is the JSON object that the API serves. `render` builds a new one from the previous one: transition times, and
fields that a failed reconciliation does not touch, are carried over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cronhpa.api.columns import columns, unreadable
from cronhpa.api.conditions import conditions, dated
from cronhpa.api.metric_status import current_metrics, measured_metrics
from cronhpa.api.status_memory import render_memory
from cronhpa.api.status_text import Status, clip
from cronhpa.core.model.decision import (
    Decision,
    DecisionKind,
    Edge,
    ExpectedLoad,
    Failed,
    Held,
    Proposal,
    Rate,
    Scaled,
    Source,
    Step,
    Window,
    WindowState,
)
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import SECOND, Nanoseconds, format_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.reasons import proposal_reason, reason, step_reason

# Fields that stay as they were where a reconciliation tells nothing of them, as of a target that cannot be reached.
_KEPT = ("operator", "currentReplicas", "desiredReplicas", "lastScaleTime", "currentMetrics")


def render(previous: Status, reconciliation: Reconciliation) -> Status:
    """The status after a reconciliation."""
    decision, spec = reconciliation.decision, reconciliation.spec
    status: Status = {
        "observedGeneration": reconciliation.generation,
        "target": f"{spec.target.kind}/{spec.target.name}",
    }
    status |= {key: previous[key] for key in _KEPT if key in previous}
    if decision.kind is not DecisionKind.UNREACHABLE:
        status["currentReplicas"] = decision.current
        # Before the first decision there is no count, and 0 would be one.
        if decision.kind is not DecisionKind.HELD and not isinstance(reconciliation.outcome, Failed):
            status["desiredReplicas"] = decision.desired
        if isinstance(reconciliation.outcome, Scaled):
            status["lastScaleTime"] = format_instant(reconciliation.outcome.at)
        status["currentMetrics"] = current_metrics(spec, decision)
    status["effectiveMinReplicas"] = decision.minimum
    status["effectiveMaxReplicas"] = decision.maximum
    status.update(_start_ups(reconciliation.memory))
    status["decision"] = _explained(reconciliation, status.get("currentMetrics"))
    if spec.schedules:
        problems = {
            abstention.name: abstention.message
            for abstention in decision.abstentions
            if abstention.source is Source.SCHEDULE
        }
        status["schedules"] = [_window(window, problems.get(window.name)) for window in decision.windows]
    if decision.next_edge is not None:
        status["nextEdge"] = _edge(decision.next_edge)
    if spec.forecast is not None and reconciliation.forecast is not None:
        status["forecast"] = _forecast(reconciliation.forecast, reconciliation.budget_used)
    status["conditions"] = conditions(previous.get("conditions", []), reconciliation)
    status["columns"] = columns(reconciliation, status)
    in_force = None if decision.kind is DecisionKind.UNREACHABLE else max(decision.current, decision.desired)
    status["memory"] = render_memory(reconciliation.memory.pruned(spec.behavior, spec.options, decision.at), in_force)
    return status


def render_unreadable(previous: Status, problems: Sequence[str], generation: int, now: Nanoseconds) -> Status:
    """The status of an object whose spec cannot be read."""
    # It has no edges: the column NEXT must not promise one.
    unaffected = {key: value for key, value in previous.items() if key not in {"nextEdge", "schedules"}}
    stated = [(kind, False, "Unreadable", "; ".join(problems)) for kind in ("SpecAccepted", "Ready")]
    return {
        **unaffected,
        "conditions": dated(previous.get("conditions", []), stated, generation, now),
        "columns": unreadable(previous),
    }


def _start_ups(memory: Memory) -> Status:
    """How long pods take to become Ready, with and without a wait for a node, as far as it is known."""
    node = memory.node_start
    known = {
        "podStartupSeconds": memory.start_up,
        "podStartupWithNodeSeconds": None if node is None else node.length,
    }
    return {name: length // SECOND for name, length in known.items() if length is not None}


def _explained(reconciliation: Reconciliation, current: list[dict[str, Any]] | None) -> dict[str, Any]:
    decision, owner_problem = reconciliation.decision, reconciliation.owner_problem
    text: dict[str, Any] = {}
    if decision.decided_by is not None:
        text["decidedBy"] = str(decision.decided_by)
    text["reason"] = clip(reason(decision))
    if owner_problem is not None:
        text["withheld"] = clip(owner_problem)
    text["proposals"] = [_proposal(proposal) for proposal in decision.proposals]
    text["abstentions"] = [
        {
            "source": str(abstention.source),
            "name": abstention.name,
            "reason": abstention.reason,
            "message": clip(abstention.message),
        }
        for abstention in decision.abstentions
    ]
    if measured := measured_metrics(reconciliation.spec, decision, current, reconciliation.observation):
        text["metrics"] = measured
    text["steps"] = [_step(step, decision) for step in decision.steps]
    return text


def _proposal(proposal: Proposal) -> dict[str, Any]:
    text: dict[str, Any] = {"source": str(proposal.source)}
    if proposal.name:
        text["name"] = proposal.name
    text |= {"role": str(proposal.role), "replicas": proposal.replicas}
    if proposal.until is not None:
        text["until"] = format_instant(proposal.until)
    basis = proposal.basis
    if basis is None:
        return text
    text["reason"] = clip(proposal_reason(proposal))
    if isinstance(basis, ExpectedLoad):
        # Numbers of a resource have no fractions.
        text["expectedLoad"] = {
            "load": f"{basis.load:.4g}",
            "podLoad": f"{basis.carried:.4g}",
            "limit": str(basis.limit),
        }
        text["expectedLoad"] |= {"time": format_instant(basis.at), "headroomPercent": basis.headroom_percent}
        if basis.percent is not None:
            text["expectedLoad"]["probabilityPercent"] = basis.percent
    return text


def _step(step: Step, decision: Decision) -> dict[str, Any]:
    text: dict[str, Any] = {"rule": str(step.rule), "from": step.before, "to": step.after}
    cause = step.cause
    if isinstance(cause, Held):
        text |= {"asked": cause.asked, "time": format_instant(cause.at), "until": format_instant(cause.until)}
        cause = cause.by
    elif isinstance(cause, Rate):
        text["start"] = cause.start
        if cause.policy is not None:
            policy = cause.policy
            text["policy"] = {
                "type": policy.type,
                "value": policy.value,
                "periodSeconds": policy.period // SECOND,
            }
        cause = None
    if cause is not None:
        text["by"] = str(cause)
    text["message"] = clip(step_reason(step, decision))
    return text


def _window(window: Window, problem: str | None) -> dict[str, Any]:
    text: dict[str, Any] = {"name": window.name, "state": str(window.state)}
    if window.changes is not None:
        text["closes" if window.state is WindowState.OPEN else "opens"] = format_instant(window.changes)
    if window.lead is not None:
        text["leadSeconds"] = window.lead // SECOND
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
