"""The two twins: equal Deployments, the upstream HPA of one and the CronHPA of the other."""

from __future__ import annotations

import time
from typing import Any

from cronhpa.core.model.instant import HOUR, format_instant
from testbed.demo.api import Api, path_of
from testbed.demo.scenario import BOUNDS, TARGET_PERCENT, Scenario
from testbed.objects import deployment, horizontal_pod_autoscaler
from testbed.wait import wait_until

UPSTREAM, CRONHPA = "shop-hpa", "shop-cronhpa"
TWINS = (UPSTREAM, CRONHPA)
IMAGE = "registry.k8s.io/pause:3.10"
_SETTLED_WITHIN_S = 180


def deployments(scenario: Scenario, namespace: str, start_up_seconds: int) -> list[dict[str, Any]]:
    """Both Deployments, with the night's replicas."""
    return [_deployment(name, scenario, namespace, start_up_seconds) for name in TWINS]


def _deployment(name: str, scenario: Scenario, namespace: str, start_up_seconds: int) -> dict[str, Any]:
    cpu = f"{round(scenario.request * 1000)}m"
    made = deployment(name, namespace=namespace, replicas=scenario.night, cpu=cpu, start_up_time=f"{start_up_seconds}s")
    (container,) = made["spec"]["template"]["spec"]["containers"]
    # Simulated nodes read the annotation that `deployment` sets. Real ones run this, and probe it later.
    container |= {
        "image": IMAGE,
        "readinessProbe": {
            "exec": {"command": ["/pause", "-v"]}, "initialDelaySeconds": start_up_seconds, "periodSeconds": 1,
        },
        "resources": {"requests": {"cpu": cpu, "memory": "8Mi"}},
    }  # fmt: skip
    return made


def autoscalers(scenario: Scenario, namespace: str) -> list[dict[str, Any]]:
    """An HPA and a CronHPA with the same bounds, the same metric and the default behavior; one has more besides."""
    hpa = horizontal_pod_autoscaler(UPSTREAM, namespace=namespace, cpu_percent=TARGET_PERCENT, bounds=BOUNDS)
    ours = {
        "apiVersion": "cronhpa.io/v1alpha1",
        "kind": "CronHPA",
        "metadata": {"name": CRONHPA, "namespace": namespace},
        "spec": hpa["spec"]
        | {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": CRONHPA},
            # One in ten pod-hours for the fewest seconds short of pods; the default is one in twenty.
            "forecast": {"budgetPercent": 10},
        }
        | ({"schedules": scenario.schedules()} if scenario.has_schedule else {}),
    }
    return [hpa, ours]


def settle(api: Api, made: list[dict[str, Any]], *, simulated: bool) -> None:
    """
    Wait until both Deployments have the night's pods, all of them ready.

    simulated: say that they have been ready for an hour, where a real node would take its time: then neither side
    takes them for pods that have just started. (kwok's own stage still comes due, and says how long they took.)
    """
    namespace = made[0]["metadata"]["namespace"]
    pods = f"/api/v1/namespaces/{namespace}/pods"
    wanted = sum(manifest["spec"]["replicas"] for manifest in made)
    if simulated:
        running = wait_until(
            lambda: [pod for pod in api.get(pods)["items"] if pod["status"]["phase"] == "Running"],
            lambda ready: len(ready) == wanted,
            within_s=_SETTLED_WITHIN_S,
        )
        since = format_instant(time.time_ns() - HOUR)
        for pod in running:
            api.patch(f"{pods}/{pod['metadata']['name']}/status", {"status": _ready_since(since)})
    wait_until(
        lambda: sum(api.get(path_of(manifest))["status"].get("readyReplicas", 0) for manifest in made),
        lambda ready: ready == wanted,
        within_s=_SETTLED_WITHIN_S,
    )


def _ready_since(since: str) -> dict[str, Any]:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": since} for kind in ("Ready", "ContainersReady")
    ]
    return {
        "startTime": since,
        "conditions": conditions,
    }
