"""Two Deployments whose selectors match the same pods: the upstream's words and ours, on one control plane."""

import time

import pytest

from testbed.objects import deployment, horizontal_pod_autoscaler
from testbed.twin import cron_hpa
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("operator")

HPAS = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"
CRON_HPAS = "/apis/cronhpa.io/v1alpha1/namespaces/{}/cronhpas"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
LABELS = {"web": {"app": "web"}, "batch": {"app": "web", "tier": "batch"}}


@pytest.fixture
def other_namespace(control_plane, namespace):
    name = f"{namespace}-upstream"
    control_plane.create("/api/v1/namespaces", [{"metadata": {"name": name}}])
    yield name
    control_plane.delete(f"/api/v1/namespaces/{name}")


def create_deployments(plane, namespace):
    """Two pods each; the selector of `web` matches those of `batch`, too."""
    for name, labels in LABELS.items():
        made = deployment(name, namespace=namespace, replicas=2)
        made["spec"]["selector"]["matchLabels"] = made["spec"]["template"]["metadata"]["labels"] = labels
        plane.create(DEPLOYMENTS.format(namespace), [made])


def replicas(plane, namespace):
    return {name: plane.get(f"{DEPLOYMENTS.format(namespace)}/{name}")["spec"]["replicas"] for name in LABELS}


def scaling_active(plane, path):
    conditions = plane.get(path).get("status", {}).get("conditions", ())
    return next(((one["status"], one["reason"]) for one in conditions if one["type"] == "ScalingActive"), None)


@pytest.mark.slow
def test_both_hold_as_with_the_upstream(control_plane, namespace, other_namespace, plant):
    """4 pods of 1 core use 2 cores, which is the target; then 4, for which the pods would double."""
    sides = {namespace: CRON_HPAS.format(namespace), other_namespace: HPAS.format(other_namespace)}
    loads = []
    for side in sides:
        create_deployments(control_plane, side)
        loads.append(plant.add_target(side, LABELS["web"], 2.0))
    control_plane.create(
        HPAS.format(other_namespace), [horizontal_pod_autoscaler(name, namespace=other_namespace) for name in LABELS]
    )
    control_plane.create(CRON_HPAS.format(namespace), [cron_hpa(name, namespace) for name in LABELS])

    def told():
        return {scaling_active(control_plane, f"{path}/{name}") for path in sides.values() for name in LABELS}

    wait_until(told, lambda found: found == {("False", "AmbiguousSelector")}, within_s=60)
    for load in loads:
        plant.set_load(load, 4.0)
    time.sleep(6)  # six periods of ours, three of the upstream

    assert replicas(control_plane, namespace) == replicas(control_plane, other_namespace) == {"web": 2, "batch": 2}
    assert {("False", "AmbiguousSelector")} == told()

    for side, path in sides.items():
        control_plane.delete(f"{path}/batch")
        wait_until(lambda side=side: replicas(control_plane, side), lambda found: found["web"] > 2, within_s=60)
