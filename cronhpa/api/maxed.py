"""
When an object runs at its maximum, and from when on a person should look: the one home of this rule.

The operator states it as the condition MaxedOut. Everything else reads the condition: the word Maxed in the column
STATUS, the table of `status`, the page, and by `cronhpa_object_condition` the alert CronHPAMaxedOut.
"""

from __future__ import annotations

from collections.abc import Iterable

from cronhpa.api.status_text import Condition
from cronhpa.core.model.decision import DecisionKind
from cronhpa.core.model.instant import MINUTE, Nanoseconds, parse_instant
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.spec import Mode

MAXED_OUT = "MaxedOut"
PATIENCE: Nanoseconds = 15 * MINUTE
"""So long an object may run at its maximum before it needs a person; `for` of the alert."""


def is_maxed(reconciliation: Reconciliation) -> bool | None:
    """
    Whether an object that acts asks for all replicas of its maximum in force, and the maximum is no fixed count.

    None without a computed decision: whatever was true last stays.
    """
    decision = reconciliation.decision
    if decision.kind is DecisionKind.SUSPENDED:
        return False
    if decision.kind is not DecisionKind.COMPUTED:
        return None
    acts = reconciliation.spec.mode is Mode.ACTIVE and reconciliation.owner_problem is None
    return acts and decision.desired >= decision.maximum > decision.minimum


def maxed_since(conditions: Iterable[Condition]) -> Nanoseconds | None:
    """Since when the object runs at its maximum, by the conditions of its status; None if it does not."""
    for condition in conditions:
        if condition.get("type") == MAXED_OUT and condition.get("status") == "True":
            since = condition.get("lastTransitionTime")
            return None if since is None else parse_instant(since)
    return None
