"""
The metrics of a decision: `status.currentMetrics`, as autoscaling/v2 shows them, and `status.decision.metrics`, with
the pods that were measured and the count that each metric asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cronhpa.api.status_text import clip
from cronhpa.core.metrics.arithmetic import INT32_MAX
from cronhpa.core.model.decision import Decision, DecisionKind, MetricProposal
from cronhpa.core.model.observation import Absent, Observation, PodCounts, Reading, ScalarReading, Scale
from cronhpa.core.model.quantity import format_milli
from cronhpa.core.model.spec import (
    ExternalMetric,
    LabelSelector,
    Metric,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    Spec,
    UnknownMetric,
)

UTILIZATION, PER_POD, IN_ALL = "Utilization", "AverageValue", "Value"


def current_metrics(spec: Spec, decision: Decision) -> list[dict[str, Any]] | None:
    """`status.currentMetrics`: None if no metric was read, an empty entry for an absent one."""
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
            {
                "key": requirement.key,
                "operator": requirement.operator,
                **({"values": list(requirement.values)} if requirement.values else {}),
            }
            for requirement in selector.match_expressions
        ]
    return text


def measured_metrics(
    spec: Spec, decision: Decision, entries: Sequence[dict[str, Any]] | None, observation: Observation
) -> list[dict[str, Any]]:
    """
    `status.decision.metrics`: one entry for each metric of the spec; none if no metric was read.

    entries: `current_metrics` of the same decision.
    """
    if entries is None or not decision.metrics:
        return []
    readings: Sequence[Reading | None] = observation.readings
    padded = (*readings, *[None] * (len(entries) - len(readings)))
    scale = observation.scale
    return [
        _measured(metric, entry, result, reading, scale)
        for metric, entry, result, reading in zip(spec.metrics, entries, decision.metrics, padded, strict=True)
    ]


def _measured(
    metric: Metric,
    entry: dict[str, Any],
    result: MetricProposal | Absent,
    reading: Reading | None,
    scale: Scale | Absent | None,
) -> dict[str, Any]:
    text: dict[str, Any] = {"name": "" if isinstance(metric, UnknownMetric) else metric.name}
    if isinstance(metric, UnknownMetric):
        return {**text, "reason": "InvalidMetricSourceType", "message": f'unknown metric source type "{metric.given}"'}
    if isinstance(metric, ResourceMetric) and metric.container is not None:
        text["container"] = metric.container
    current, target, text["type"] = current_and_target(metric, entry)
    text |= {key: value for key, value in (("current", current), ("target", target)) if value}
    if isinstance(result, Absent):
        return {**text, "reason": result.reason, "message": clip(result.message)}
    text["replicas"] = result.replicas
    if isinstance(reading, PodCounts):
        text |= {
            "pods": reading.ready + reading.unready + reading.missing,
            "notReady": reading.unready,
            "withoutSample": reading.missing,
        }
    elif isinstance(reading, ScalarReading) and isinstance(scale, Scale):
        ready = scale.status_replicas if text["type"] == PER_POD else reading.ready
        text |= {"pods": ready} if isinstance(ready, int) else {}
    return text


def current_and_target(metric: Metric, entry: dict[str, Any]) -> tuple[str, str, str]:
    """
    (measured value, target value, which of UTILIZATION, PER_POD and IN_ALL both are); "" for an unknown value.

    entry: the metric's part of `status.currentMetrics`, empty if the metric is absent. A target is written with the
    suffix that makes it shortest: a parsed spec does not keep the user's spelling.
    """
    assert not isinstance(metric, UnknownMetric)
    target = metric.target
    current = entry.get(_field(metric), {}).get("current", {})
    if target.average_value is not None:
        return current.get("averageValue", ""), _quantity(target.average_value), PER_POD
    if isinstance(metric, ResourceMetric):
        used, wanted = current.get("averageUtilization"), target.average_utilization
        return "" if used is None else f"{used}%", "" if wanted is None else f"{wanted}%", UTILIZATION
    return current.get("value", ""), _quantity(target.value or 0), IN_ALL


def _field(metric: Metric) -> str:
    if isinstance(metric, ResourceMetric):
        return "resource" if metric.container is None else "containerResource"
    if isinstance(metric, PodsMetric):
        return "pods"
    return "object" if isinstance(metric, ObjectMetric) else "external"


def _quantity(milli: int) -> str:
    return min(format_milli(milli), format_milli(milli, binary=True), key=len)
