"""
`status.columns`: the texts that `kubectl get chpa` prints and that no other field has in that form.

A printer column can only read a field. All of these texts follow from other fields of the status, so they are never a
reason to write a status.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from cronhpa.api.maxed import maxed_since
from cronhpa.api.metric_status import PER_POD, current_and_target
from cronhpa.api.status_text import Condition, Status, clip
from cronhpa.core.model.local_time import format_ahead
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.spec import Metric, PodsMetric, ResourceMetric, UnknownMetric

# As the upstream's printer: so many metrics, then "+ N more...".
_METRICS_SHOWN = 2
_UNKNOWN = "<unknown>"


class StatusWord(StrEnum):
    """The column STATUS."""

    SPEC_UNREADABLE = "SpecUnreadable"
    NO_TARGET = "NoTarget"
    NO_METRICS = "NoMetrics"
    OTHER_OWNER = "OtherOwner"
    HOLDING = "Holding"  # the count stays: one metric is missing, the scale cannot be written, or a person's zero
    MAXED = "Maxed"  # as Deciding, and it asks for all replicas of its maximum
    LEARNING = "Learning"  # as Deciding, and the forecast is not there yet
    PREVIEW = "Preview"
    DECIDING = "Deciding"


_BY_READY_REASON = {
    "Deciding": StatusWord.DECIDING,
    "Preview": StatusWord.PREVIEW,
    "OtherOwner": StatusWord.OTHER_OWNER,
    "SpecUnreadable": StatusWord.SPEC_UNREADABLE,
    "TargetUnreachable": StatusWord.NO_TARGET,
    "ScaledToZeroByHand": StatusWord.HOLDING,
    "FailedUpdateScale": StatusWord.HOLDING,
}


def columns(reconciliation: Reconciliation, status: Status) -> dict[str, str]:
    """The texts for a status whose other fields are complete."""
    text = {
        "targets": clip(targets(reconciliation.spec.metrics, status.get("currentMetrics") or ())),
        "status": str(_word(reconciliation, status["conditions"])),
    }
    edge = reconciliation.decision.next_edge
    if edge is not None:
        text["next"] = format_ahead(edge.at, reconciliation.zone, reconciliation.decision.at)
    return text


def unreadable(status: Status) -> dict[str, str]:
    """The texts of an object whose spec cannot be read: there is no next edge."""
    unchanged = {key: text for key, text in status.get("columns", {}).items() if key != "next"}
    return {**unchanged, "status": str(StatusWord.SPEC_UNREADABLE)}


def targets(metrics: Sequence[Metric], current: Sequence[dict[str, Any]]) -> str:
    """
    The column TARGETS as `kubectl get hpa` prints it.

    current: `status.currentMetrics`.
    """
    if not metrics:
        return "<none>"
    texts = [_target(metric, current[index] if index < len(current) else {}) for index, metric in enumerate(metrics)]
    more = len(texts) - _METRICS_SHOWN
    return ", ".join(texts[:_METRICS_SHOWN]) + (f" + {more} more..." if more > 0 else "")


def _word(reconciliation: Reconciliation, conditions: Sequence[Condition]) -> StatusWord:
    """The word for the reason of the Ready condition."""
    reasons = {condition["type"]: condition.get("reason") for condition in conditions}
    word = _BY_READY_REASON.get(reasons["Ready"] or "")
    if word is None:
        # Ready has the problem of a metric as its reason. While one of several metrics is missing, the target may grow.
        is_blind = all(isinstance(result, Absent) for result in reconciliation.decision.metrics)
        word = StatusWord.NO_METRICS if is_blind else StatusWord.HOLDING
    if word is StatusWord.DECIDING and maxed_since(conditions) is not None:
        return StatusWord.MAXED
    if word is StatusWord.DECIDING and reasons.get("ForecastActive") == "Learning":
        return StatusWord.LEARNING
    return word


def _target(metric: Metric, entry: dict[str, Any]) -> str:
    """One metric. entry: its part of `status.currentMetrics`, empty if the metric is absent."""
    if isinstance(metric, UnknownMetric):
        return "<unknown type>"
    current, target, scope = current_and_target(metric, entry)
    shown = f"{current or _UNKNOWN}/{target or '<auto>'}"
    if isinstance(metric, ResourceMetric):
        return f"{metric.name}: {shown}"
    return f"{shown} (avg)" if scope == PER_POD and not isinstance(metric, PodsMetric) else shown
