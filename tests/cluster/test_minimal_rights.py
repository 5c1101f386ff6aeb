"""The chart's rights are those that the operator uses, no fewer and no more: from the API server's audit log."""

import time
import urllib.error
import urllib.request

import pytest

from testbed.control_plane import NAMESPACE, RELEASE
from testbed.objects import deployment
from testbed.operator import SERVICE_ACCOUNT, Operator
from testbed.twin import CPU_50, cron_hpa
from testbed.wait import wait_until

USER = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"
# The names of metrics are resources in these APIs, so that the rights are to all of them.
NAMED_BY_METRICS = {"custom.metrics.k8s.io", "external.metrics.k8s.io"}
VALUE = {"type": "AverageValue", "averageValue": "10"}
METRICS = [
    CPU_50,
    {"type": "ContainerResource", "containerResource": {
        "name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 50},
    }},
    {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": VALUE}},
    {"type": "Object", "object": {
        "metric": {"name": "backlog"}, "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "front"},
        "target": VALUE,
    }},
    {"type": "Object", "object": {
        "metric": {"name": "sessions"}, "describedObject": {"apiVersion": "v1", "kind": "Namespace", "name": "any"},
        "target": VALUE,
    }},
    {"type": "External", "external": {"metric": {"name": "queue"}, "target": VALUE}},
]  # fmt: skip
# An event that comes again is patched, and no sooner than after five minutes: the long test waits for it.
LATE = {("patch", "", "events")}


def workload(kind, api_version, namespace):
    """One of the four kinds of the chart, with the pods of a Deployment."""
    made = deployment(kind.lower(), namespace=namespace)
    made |= {"kind": kind, "apiVersion": api_version}
    if kind == "StatefulSet":
        made["spec"]["serviceName"] = "none"
    if kind == "ReplicationController":
        made["spec"]["selector"] = made["spec"]["selector"]["matchLabels"]
    target = {"apiVersion": api_version, "kind": kind, "name": kind.lower()}
    return made, cron_hpa(kind.lower(), namespace, scaleTargetRef=target, minReplicas=2, metrics=METRICS)


@pytest.fixture
def own_operator(control_plane, no_operator, tmp_path):
    """An API server that comes back refuses what it has not read yet; that stays out of the log of the shared one."""
    with Operator(control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT), tmp_path) as operator:
        yield operator


def granted(control_plane):
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = control_plane.get(f"{rbac}/clusterroles/{RELEASE}-{NAMESPACE}")
    election = control_plane.get(f"{rbac}/namespaces/{NAMESPACE}/roles/{RELEASE}-leader-election")
    return {
        (verb, group, resource)
        for rule in (*role["rules"], *election["rules"])
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def used(control_plane):
    """What it asked for, allowed or not. Paths that are no resource, such as /apis, are everybody's."""
    return {
        (each.verb, each.group, "*" if each.group in NAMED_BY_METRICS else each.resource)
        for each in control_plane.requests()
        if each.user == USER and not each.resource.startswith("/")
    }


@pytest.mark.usefixtures("no_operator")
def test_every_right_is_used_and_everything_used_is_a_right(control_plane, plant, namespace, own_operator):
    """Each kind of target and of metric, somebody who asks for the past, and an API server that is away for a while."""
    plant.set_pods_metric(namespace, {}, "rps", 30)
    plant.set_object_metric(namespace, "services", "front", "backlog", 30)
    plant.set_object_metric(namespace, "namespaces", namespace, "sessions", 30)
    plant.set_external_metric(namespace, "queue", 30)
    for kind, api_version in (
        ("Deployment", "apps/v1"),
        ("StatefulSet", "apps/v1"),
        ("ReplicaSet", "apps/v1"),
        ("ReplicationController", "v1"),
    ):
        made, scaler = workload(kind, api_version, namespace)
        control_plane.apply(made)
        control_plane.apply(scaler)
    wait_until(lambda: ("patch", "", "replicationcontrollers/scale") in used(control_plane))
    # Somebody who may not ask is reviewed, too.
    token = control_plane.kubectl("create", "token", "default", "-n", namespace).strip()
    path = f"/v1/namespaces/{namespace}/cronhpas/deployment/decision?at=2026-11-23T08:00:00Z"
    request = urllib.request.Request(own_operator.past_url + path, headers={"Authorization": f"Bearer {token}"})
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(request, timeout=10)

    # A status that may have been written or not is read anew.
    control_plane.components["kube-apiserver"].kill()
    time.sleep(3)
    control_plane.restart("kube-apiserver")

    wait_until(lambda: granted(control_plane) - used(control_plane), lambda unused: unused <= LATE)
    assert set() == used(control_plane) - granted(control_plane)


@pytest.mark.long
def test_an_event_that_comes_again_is_patched(control_plane, namespace, operator):
    """Its target is not there at any turn."""
    control_plane.apply(cron_hpa("orphan", namespace))

    wait_until(lambda: used(control_plane), lambda seen: seen >= LATE, within_s=330)
