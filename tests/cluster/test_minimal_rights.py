"""The chart's rights are those that the operator uses, no fewer and no more: from the API server's audit log."""

import json
import time
import urllib.error
import urllib.request
from collections import Counter

import pytest

from testbed.control_plane import NAMESPACE, RELEASE
from testbed.objects import deployment
from testbed.operator import SERVICE_ACCOUNT, Operator
from testbed.twin import CPU_50, cron_hpa
from testbed.wait import wait_until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLUSTER_ROLE = f"{RELEASE}-{NAMESPACE}"
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
# Kinds that are watched: their scales are read one by one where they cannot be listed.
WATCHED = {"deployments", "statefulsets", "replicasets", "replicationcontrollers"}
# The own Lease, by the Role; those of other installations, by the ClusterRole.
LEASES, OTHERS = "leases", "leases of others"


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
def earlier(control_plane, no_operator):
    """What was asked for by operators of other tests, with other settings. Their Lease is gone: it is made anew."""
    control_plane.kubectl("delete", "lease", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found")
    return control_plane.requests()


@pytest.fixture
def give_back(control_plane, earlier):
    """The operator may not list the kinds of targets until this is called: then the chart's rules are in force."""
    role = control_plane.get(f"{RBAC}/clusterroles/{CLUSTER_ROLE}")
    fewer = [rule for rule in role["rules"] if not WATCHED & set(rule["resources"])]

    def put(rules):
        control_plane.kubectl("patch", "clusterrole", CLUSTER_ROLE, "--type=merge", "-p", json.dumps({"rules": rules}))

    put(fewer)
    yield lambda: put(role["rules"])
    put(role["rules"])


@pytest.fixture
def own_operator(control_plane, earlier, give_back, tmp_path):
    """An API server that comes back refuses what it has not read yet; that stays out of the log of the shared one."""
    with Operator(control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT), tmp_path) as operator:
        yield operator


def granted(control_plane):
    role = control_plane.get(f"{RBAC}/clusterroles/{CLUSTER_ROLE}")
    election = control_plane.get(f"{RBAC}/namespaces/{NAMESPACE}/roles/{RELEASE}-leader-election")
    return {
        (verb, group, OTHERS if resource == LEASES and of is role else resource)
        for of in (role, election)
        for rule in of["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def used(control_plane, earlier):
    """What was asked for since, allowed or not. Paths that are no resource, such as /apis, are everybody's."""
    return {
        (request.verb, request.group, _right_to(request))
        for request in control_plane.requests() - earlier
        if request.user == USER and not request.resource.startswith("/")
    }


def _right_to(request):
    if request.resource == LEASES and request.name not in {"", RELEASE}:
        return OTHERS
    return "*" if request.group in NAMED_BY_METRICS else request.resource


@pytest.mark.slow
@pytest.mark.usefixtures("no_operator")
def test_every_right_is_used_and_everything_used_is_a_right(
    control_plane, plant, namespace, earlier, own_operator, give_back
):
    """Each kind of target and of metric, somebody who asks for the past, and an API server that is away for a while."""
    plant.set_pods_metric(namespace, {}, "rps", 30)
    plant.set_object_metric(namespace, "services", "front", "backlog", 30)
    plant.set_object_metric(namespace, "namespaces", namespace, "sessions", 30)
    plant.set_external_metric(namespace, "queue", 30)
    # Targets that cannot be listed are read one by one.
    for kind, api_version in (
        ("Deployment", "apps/v1"),
        ("StatefulSet", "apps/v1"),
        ("ReplicaSet", "apps/v1"),
        ("ReplicationController", "v1"),
    ):
        made, scaler = workload(kind, api_version, namespace)
        control_plane.apply(made)
        control_plane.apply(scaler)
    # Planned events of both kinds, whose statuses are written.
    spec = {
        "selector": {},
        "reason": "a sale",
        "schedules": [{"name": "doors", "start": "0 0 * * *", "durationMinutes": 60, "minReplicas": 2}],
    }
    for kind, meta in (
        ("PlannedEvent", {"name": "sale", "namespace": namespace}),
        ("ClusterPlannedEvent", {"name": namespace}),
    ):
        control_plane.apply({"apiVersion": "cronhpa.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec})
    single = {("get", "apps" if kind != "replicationcontrollers" else "", f"{kind}/scale") for kind in WATCHED}
    wait_until(lambda: single - used(control_plane, earlier), lambda missing: not missing)
    give_back()
    wait_until(lambda: ("patch", "", "replicationcontrollers/scale") in used(control_plane, earlier))
    # An object that another installation served: does that still run?
    served = {"status": {"operator": "ops/another"}}
    control_plane.kubectl(
        "patch", "chpa", "deployment", "-n", namespace, "--subresource=status", "--type=merge", "-p", json.dumps(served)
    )
    wait_until(lambda: OTHERS in {resource for _, _, resource in used(control_plane, earlier)})
    # Somebody who may not ask is reviewed, too.
    token = control_plane.kubectl("create", "token", "default", "-n", namespace).strip()
    path = f"/v1/namespaces/{namespace}/cronhpas/deployment/decision?at=2026-11-23T08:00:00Z"
    request = urllib.request.Request(own_operator.past_url + path, headers={"Authorization": f"Bearer {token}"})
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(request, timeout=10)

    # An object that is held has no write under way.
    path = f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas/deployment"
    wait_until(lambda: control_plane.get(path)["status"]["operator"], lambda named: named != "ops/another", within_s=60)

    # They are listed every five minutes: not while the API server is away.
    listed = ("list", "autoscaling.k8s.io", "verticalpodautoscalers")
    wait_until(lambda: listed in used(control_plane, earlier), within_s=60)
    # A status that may have been written or not is read anew.
    control_plane.components["kube-apiserver"].kill()
    time.sleep(3)
    control_plane.restart("kube-apiserver")

    wait_until(
        lambda: granted(control_plane) - used(control_plane, earlier), lambda unused: unused <= LATE, within_s=120
    )
    control_plane.kubectl("delete", "clusterplannedevent", namespace)
    assert set() == used(control_plane, earlier) - granted(control_plane)


@pytest.mark.long
def test_an_event_that_comes_again_is_patched(control_plane, namespace, operator):
    """Its target is not there at any reconciliation."""
    control_plane.apply(cron_hpa("orphan", namespace))

    wait_until(lambda: used(control_plane, Counter()), lambda seen: seen >= LATE, within_s=330)
