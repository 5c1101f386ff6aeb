"""
Each change of an object's state as one line of the log, with fields for collectors: namespace, name, from, to, by.

Changes are found by comparing two statuses, as for events, so a restart logs nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

from cronhpa.api.events import Event
from cronhpa.api.status_text import Status
from cronhpa.core.model.decision import Decision
from cronhpa.core.reasons import reason
from cronhpa.operator.objects.object_state import ObjectState

LOG = logging.getLogger(__name__)

# It changes with every step of a rate policy.
_ROUTINE = "ScalingLimited"


class StateChange(NamedTuple):
    what: str
    """Replicas, bounds, source, or a condition's type."""
    before: object
    after: object
    by: str
    """The source of the change."""
    why: str = ""
    """The reason, in words."""
    is_routine: bool = False


def fields(state: ObjectState, **more: object) -> dict[str, Any]:
    """The `extra` of a record about an object. A trailing underscore of a name is dropped: `from_` is `from`."""
    named = {key.rstrip("_"): value for key, value in more.items() if value is not None}
    return {"fields": {"namespace": state.namespace, "name": state.name, **named}}


def log_scaled(state: ObjectState, decision: Decision) -> None:
    by = str(decision.decided_by or "")
    LOG.info(
        "scaled %s/%s from %d to %d, by %s: %s",
        state.namespace,
        state.name,
        decision.current,
        decision.desired,
        by,
        reason(decision),
        extra=fields(state, change="replicas", from_=decision.current, to=decision.desired, by=by),
    )


def log_changes(state: ObjectState, before: Status, after: Status) -> None:
    """Logs the changes from one status in the API to the next."""
    if before is after:
        return
    for change in changes(before, after):
        level = logging.DEBUG if change.is_routine else logging.INFO
        if LOG.isEnabledFor(level):
            why = f" ({change.why})" if change.why else ""
            extra = fields(state, change=change.what, from_=change.before, to=change.after, by=change.by)
            came = f"from {change.before} to" if change.before else "is"
            LOG.log(level, "%s/%s: %s %s %s, by %s%s", *state.key, change.what, came, *change[2:4], why, extra=extra)


def log_event(state: ObjectState, event: Event) -> None:
    """Logs a change that is an event, too: of a window, an override, a forecast, the target."""
    LOG.info("%s/%s: %s: %s", *state.key, event.reason, event.message, extra=fields(state, change=event.reason))


def changes(before: Status, after: Status) -> Iterator[StateChange]:
    decision = after.get("decision", {})
    by = decision.get("decidedBy", "")
    bounds = _bounds(before), _bounds(after)
    if bounds[0] != bounds[1] and bounds[1]:
        yield StateChange("bounds", *bounds, by)
    source = before.get("decision", {}).get("decidedBy", "")
    if source != by:
        yield StateChange("source", source, by, by, decision.get("reason", ""), is_routine=True)
    old = {condition["type"]: condition["status"] for condition in before.get("conditions", ())}
    for condition in after.get("conditions", ()):
        kind, status = condition["type"], condition["status"]
        if old.get(kind) != status and (kind in old or kind == "Ready"):
            yield StateChange(
                kind,
                old.get(kind),
                status,
                condition.get("reason", ""),
                condition.get("message", ""),
                is_routine=kind == _ROUTINE,
            )


def _bounds(status: Status) -> str:
    lower, upper = status.get("effectiveMinReplicas"), status.get("effectiveMaxReplicas")
    return "" if lower is None or upper is None else f"{lower}-{upper}"
