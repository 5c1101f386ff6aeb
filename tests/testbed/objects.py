"""Kubernetes objects that tests, demo and benchmarks make, as documents to apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testbed.control_plane import START_UP_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def deployment(
    name: str,
    *,
    namespace: str = "default",
    replicas: int | None = 1,
    cpu: str = "1",
    start_up_time: str = "1s",
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """
    A Deployment of pods labelled app=<name> with one container, "app".

    cpu: its request. start_up_time: Go duration from running to ready. annotations: more of them, for the pods.
    replicas: None leaves the number to whoever scales it, so that applying again does not take it back.
    """
    labels = {"app": name}
    container = {"name": "app", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}
    template = {
        "metadata": {"labels": labels, "annotations": {START_UP_TIME: start_up_time} | dict(annotations or {})},
        # Nothing would be told to end by them, and a pod is gone when the node says so.
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template}
        | ({} if replicas is None else {"replicas": replicas}),
    }


def horizontal_pod_autoscaler(
    name: str,
    *,
    namespace: str = "default",
    cpu_percent: int = 50,
    bounds: tuple[int, int] = (1, 10),
    metrics: Sequence[Mapping[str, Any]] | None = None,
    behavior: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """An upstream HPA for the Deployment of its name. cpu_percent: target utilization, where `metrics` is not given."""
    by_cpu = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": cpu_percent}},
    }
    minimum, maximum = bounds
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": minimum,
            "maxReplicas": maximum,
            "metrics": list(metrics or [by_cpu]),
        }
        | ({"behavior": dict(behavior)} if behavior else {}),
    }


def plain_cron_hpa(
    name: str, *, namespace: str = "default", bounds: tuple[int, int] = (1, 10), **spec: Any
) -> dict[str, Any]:
    """
    A CronHPA for the Deployment of its name, with the operator's own defaults.

    spec: further fields, of which one must be metrics or schedules.
    """
    minimum, maximum = bounds
    return {
        "apiVersion": "cronhpa.io/v1alpha1",
        "kind": "CronHPA",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": minimum,
            "maxReplicas": maximum,
        }
        | spec,
    }
