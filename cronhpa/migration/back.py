"""A CronHPA as a HorizontalPodAutoscaler (autoscaling/v2): the five fields that both have."""

from __future__ import annotations

from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.manifest import manifest, metadata_of

_LOST = {
    "mode": "an HPA always scales",
    "schedules": "an HPA has no windows: its bounds are minReplicas and maxReplicas, always",
    "schedulesFrom": "an HPA knows no calendar",
    "timeZone": "",
    "forecast": "an HPA does not look ahead",
    "podSelection": "an HPA counts all pods that the target's selector matches",
    "fallback": "an HPA keeps its replicas while a metric is unknown",
    "override": "an HPA has no override",
    "placeholders": "an HPA makes no room on nodes ahead of its pods",
    "syncPeriodSeconds": "the cluster's own holds: --horizontal-pod-autoscaler-sync-period",
    "cpuInitializationPeriodSeconds": "the cluster's own holds: --horizontal-pod-autoscaler-cpu-initialization-period",
    "initialReadinessDelaySeconds": "the cluster's own holds: --horizontal-pod-autoscaler-initial-readiness-delay",
    "metricMaxAgeSeconds": "an HPA takes samples of any age",
}
_DEFAULTS = {"mode": "Active", "podSelection": "All", "timeZone": "UTC"}


def to_hpa(document: FieldReader) -> Json:
    """
    The HPA; losses are remarks on the document.

    Raises Unconvertible without a metric: an HPA would take the upstream's default and scale by CPU.
    """
    document.ignore("apiVersion", "kind", "status")
    spec = document.mapping("spec")
    metrics = spec.items("metrics")
    if not metrics:
        raise spec.unconvertible(
            "metrics",
            "there is none: the schedules alone decide",
            "an HPA would scale by 80 % of CPU: add the metric that it shall follow",
        )
    for key, meaning in _LOST.items():
        value = spec.raw(key)
        if value is not None and value != _DEFAULTS.get(key) and meaning:
            spec.remark(key, f"found {_named(value)}", meaning)
    out = {
        "scaleTargetRef": spec.raw("scaleTargetRef"),
        "minReplicas": spec.raw("minReplicas"),
        "maxReplicas": spec.raw("maxReplicas"),
        "metrics": metrics,
        "behavior": spec.raw("behavior"),
    }
    return manifest("HorizontalPodAutoscaler", "autoscaling/v2", metadata_of(document), out)


def _named(value: object) -> str:
    """A value in words; a list of schedules as their names."""
    if isinstance(value, list):
        return ", ".join(str(element.get("name")) if isinstance(element, dict) else str(element) for element in value)
    return "settings" if isinstance(value, dict) else str(value)
