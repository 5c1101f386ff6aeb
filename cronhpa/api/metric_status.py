"""The metrics of a decision become `status.currentMetrics`, as autoscaling/v2 shows them."""

from __future__ import annotations

from typing import Any

from cronhpa.core.decision import Decision, DecisionKind
from cronhpa.core.quantity import format_milli
from cronhpa.core.reactive.arithmetic import INT32_MAX
from cronhpa.core.reactive.replicas import MetricProposal
from cronhpa.core.spec import (
    ExternalMetric,
    LabelSelector,
    Metric,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    Spec,
    UnknownMetric,
)


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
            {"key": item.key, "operator": item.operator, **({"values": list(item.values)} if item.values else {})}
            for item in selector.match_expressions
        ]
    return text
