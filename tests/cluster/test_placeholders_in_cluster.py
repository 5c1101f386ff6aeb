"""Placeholders on a real control plane: a scheduler that preempts them, the chart's rights, nodes that take a while."""

import threading
import time
import urllib.error
from datetime import UTC, datetime, timedelta
from math import ceil

import pytest

from cluster.test_minimal_rights import granted, used
from testbed.control_plane import NAMESPACE, RELEASE
from testbed.objects import deployment
from testbed.operator import SERVICE_ACCOUNT, Operator
from testbed.twin import cron_hpa
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("no_operator")

CORES = 4  # of a node
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
ROLE = f"{RELEASE}-placeholders"
BUFFER_ROLE = f"{RELEASE}-{NAMESPACE}-buffers"
CLUSTER_RBAC = "/apis/rbac.authorization.k8s.io/v1"
BUFFER_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "capacitybuffers.autoscaling.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a part of the real one"},
    },
    "spec": {
        "group": "autoscaling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "CapacityBuffer", "plural": "capacitybuffers", "singular": "capacitybuffer"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["scalableRef", "replicas"],
                                "properties": {
                                    "replicas": {"type": "integer", "minimum": 0},
                                    "scalableRef": {
                                        "type": "object",
                                        "required": ["kind", "name"],
                                        "properties": {
                                            name: {"type": "string"} for name in ("apiGroup", "kind", "name")
                                        },
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def earlier(control_plane):
    return control_plane.requests()


@pytest.fixture
def start(control_plane, earlier, tmp_path):
    """Starts the operator with the chart's rights for placeholders of these kinds."""
    running = []

    def started(kinds):
        control_plane.install_chart(values={"placeholders": {"kinds": kinds}})
        running.append(
            Operator(
                control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT),
                tmp_path,
                placeholders=kinds,
                placeholder_namespace=NAMESPACE,
                placeholder_priority_class=f"{RELEASE}-{NAMESPACE}-placeholder",
                placeholder_image="none",
                placeholder_owner=ROLE,
                placeholder_buffer_owner=BUFFER_ROLE if kinds in {"auto", "CapacityBuffer"} else "",
            )
        )
        running[-1].start()
        return running[-1]

    yield started
    for operator in running:
        if operator.is_running:
            operator.kill()
    control_plane.install_chart()
    for kind in ("roles", "rolebindings"):
        control_plane.delete(f"{RBAC}/{kind}/{ROLE}")
        control_plane.delete(f"{CLUSTER_RBAC}/cluster{kind}/{BUFFER_ROLE}")
    for made in placeholders(control_plane):
        control_plane.delete(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{made['metadata']['name']}")


class Nodes:
    """
    A pool of nodes of four cores, and its autoscaler, which looks every ten seconds, as cluster-autoscaler does, for
    pods without room: a node is there so many seconds later. `added`: when, by time.time(). The first node is there.
    """

    def __init__(self, plane, name, seconds):
        self._plane, self._name, self._seconds = plane, name, seconds
        self.added, self._coming, self._is_over = [], [], threading.Event()
        self.add()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join(10)
        for number in range(len(self.added)):
            self._plane.delete(f"/api/v1/nodes/{self._name}-{number}")

    def _run(self):
        scanned = 0.0
        while not self._is_over.wait(0.5):
            pods = self._plane.get("/api/v1/pods?fieldSelector=spec.nodeName=,status.phase=Pending")["items"]
            # A pod that preempts others has a node already, and one that nobody looked at yet may find one.
            pods = [pod for pod in pods if "nominatedNodeName" not in pod["status"] and is_unschedulable(pod)]
            waiting = sum(pod["spec"].get("nodeSelector", {}).get("pool") == self._name for pod in pods)
            now = time.time()
            if now >= max(scanned + 10, self.added[-1] + 3):
                scanned = now
                self._coming += [now + self._seconds] * (ceil(waiting / CORES) - len(self._coming))
            while self._coming and self._coming[0] <= now:
                del self._coming[0]
                self.add()

    def add(self):
        room = {"cpu": str(CORES), "memory": "100Gi", "pods": "100"}
        self._plane.apply(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": f"{self._name}-{len(self.added)}",
                    "labels": {"pool": self._name, "kubernetes.io/hostname": f"{self._name}-{len(self.added)}"},
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                },
                "status": {"allocatable": room, "capacity": room},
            }
        )
        self.added.append(time.time())


def is_unschedulable(pod):
    conditions = pod["status"].get("conditions", [])
    return any(("PodScheduled", "Unschedulable") == (one["type"], one.get("reason")) for one in conditions)


def workload(plane, namespace, pool, name="shop", replicas=2):
    """Pods of a core each that run in this pool alone."""
    made = deployment(name, namespace=namespace, replicas=replicas)
    made["spec"]["template"]["spec"]["nodeSelector"] = {"pool": pool}
    plane.apply(made)


def scaler(namespace, floor, name="shop", starts=timedelta(minutes=10), lead=0, **spec):
    """An object whose window of half an hour raises the floor of two in a while. lead: None for a measured one."""
    opens = datetime.now(UTC) + starts
    window = {"name": "doors", "minReplicas": floor} | ({} if lead is None else {"leadTimeSeconds": lead})
    window |= {key: f"{at:%Y-%m-%dT%H:%M}" for key, at in (("from", opens), ("to", opens + timedelta(minutes=30)))}
    fields = {"minReplicas": 2, "maxReplicas": 40, "metrics": None, "schedules": [window]}
    return cron_hpa(name, namespace, **fields, **spec)


def ready(plane, namespace, name="shop"):
    status = plane.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}").get("status", {})
    return status.get("readyReplicas", 0)


def ready_anew(plane, namespace, name):
    """
    How many pods are ready. One that waits for 20 s is deleted, and another comes: kube-scheduler may forget a pod that
    preempts (kubernetes#141694), for more than 20 minutes where nothing else happens in the cluster.
    """
    for pod in plane.get(f"/api/v1/namespaces/{namespace}/pods?fieldSelector=spec.nodeName=")["items"]:
        made = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
        if datetime.now(UTC) - made > timedelta(seconds=20):
            plane.delete(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}")
    return ready(plane, namespace, name)


def placeholders(plane):
    made = plane.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")["items"]
    return [one for one in made if one["metadata"]["name"].startswith("placeholder-")]


def of(role):
    """Its rights, as (verb, group, resource)."""
    return {(verb, rule["apiGroups"][0], rule["resources"][0]) for rule in role["rules"] for verb in rule["verbs"]}


def counts(plane):
    """(replicas, ready) of the placeholders."""
    return [(one["spec"]["replicas"], one["status"].get("readyReplicas", 0)) for one in placeholders(plane)]


@pytest.mark.slow
def test_pods_take_the_room_of_placeholders_and_each_right_is_used(control_plane, namespace, start, earlier):
    """
    A node of four cores, two pods, and a window of four in ten minutes: two placeholders. Two pods of somebody else
    preempt them. With five in the window three are needed; with a floor of five in force, none.
    """
    soon = {"placeholders": {"maxReplicas": 10, "nodeStartupSeconds": 3600}}
    with Nodes(control_plane, namespace, seconds=3600):
        workload(control_plane, namespace, namespace)
        control_plane.apply(scaler(namespace, 4, **soon))
        operator = start("auto")
        wait_until(lambda: counts(control_plane), lambda seen: seen == [(2, 2)], within_s=60)

        workload(control_plane, namespace, namespace, name="other")
        wait_until(lambda: ready_anew(control_plane, namespace, "other"), lambda seen: seen == 2, within_s=360)

        control_plane.apply(scaler(namespace, 5, **soon))
        wait_until(lambda: counts(control_plane), lambda seen: [of for of, _ in seen] == [3], within_s=30)
        control_plane.kubectl(
            "patch", "chpa", "shop", "-n", namespace, "--type=merge", "-p", '{"spec": {"minReplicas": 5}}'
        )
        wait_until(lambda: counts(control_plane), lambda seen: seen == [], within_s=30)
        assert operator.is_running

    own = of(control_plane.get(f"{RBAC}/roles/{ROLE}"))
    assert own <= used(control_plane, earlier)
    assert set() == used(control_plane, earlier) - granted(control_plane) - own


@pytest.mark.slow
def test_placeholders_share_no_node_where_the_pods_share_none(control_plane, namespace, start):
    """
    Nodes with room for four, and a pod that shares none with its kind. Of two placeholders one needs a node of its own.
    The pods that come take their room at once.
    """
    with Nodes(control_plane, namespace, seconds=3600) as nodes:
        made = deployment("shop", namespace=namespace, replicas=1)
        own = {"topologyKey": "kubernetes.io/hostname", "labelSelector": made["spec"]["selector"]}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
        made["spec"]["template"]["spec"] |= {"nodeSelector": {"pool": namespace}, "affinity": apart}
        control_plane.apply(made)
        wait_until(lambda: ready(control_plane, namespace), lambda seen: seen == 1, within_s=60)
        few = scaler(namespace, 3, placeholders={"maxReplicas": 10, "nodeStartupSeconds": 3600})
        few["spec"]["minReplicas"] = 1
        control_plane.apply(few)
        start("auto")
        wait_until(lambda: counts(control_plane), lambda seen: seen == [(2, 1)], within_s=60)
        for _ in range(2):
            nodes.add()
        wait_until(lambda: counts(control_plane), lambda seen: seen == [(2, 2)], within_s=60)
        few["spec"]["minReplicas"] = 3
        control_plane.apply(few)
        wait_until(lambda: ready(control_plane, namespace), lambda seen: seen == 3, within_s=60)
        wait_until(lambda: counts(control_plane), lambda seen: seen == [], within_s=30)


@pytest.mark.slow
def test_placeholders_go_with_the_setting_that_gave_the_rights(control_plane, namespace, start):
    """As `helm upgrade` with `placeholders.kinds: none` does: the Role goes, and the Deployment that it owns."""
    with Nodes(control_plane, namespace, seconds=3600):
        workload(control_plane, namespace, namespace)
        control_plane.apply(scaler(namespace, 4, placeholders={"maxReplicas": 10, "nodeStartupSeconds": 3600}))
        operator = start("Deployment")
        wait_until(lambda: counts(control_plane), lambda seen: seen == [(2, 2)], within_s=60)
        operator.kill()
        control_plane.delete(f"{RBAC}/roles/{ROLE}")

        wait_until(lambda: counts(control_plane), lambda seen: seen == [], within_s=60)


def buffers(plane, namespace):
    """Those of a namespace; none while the API server begins to serve the kind."""
    try:
        return plane.get(f"/apis/autoscaling.x-k8s.io/v1beta1/namespaces/{namespace}/capacitybuffers")["items"]
    except urllib.error.HTTPError:
        return []


@pytest.mark.slow
def test_a_cluster_with_capacity_buffers_has_one_beside_the_object(control_plane, namespace, start, earlier):
    control_plane.apply(BUFFER_CRD)
    try:
        control_plane.kubectl("wait", "--for=condition=Established", "crd/capacitybuffers.autoscaling.x-k8s.io")
        control_plane.apply(deployment("shop", namespace=namespace, replicas=2))
        control_plane.apply(scaler(namespace, 6, placeholders={"maxReplicas": 3, "nodeStartupSeconds": 3600}))
        operator = start("auto")

        (made,) = wait_until(lambda: buffers(control_plane, namespace), within_s=60)
        assert ("shop", 3) == (made["spec"]["scalableRef"]["name"], made["spec"]["replicas"])
        assert [] == placeholders(control_plane)
        control_plane.kubectl(
            "patch", "chpa", "shop", "-n", namespace, "--type=merge", "-p", '{"spec": {"minReplicas": 5}}'
        )
        wait_until(
            lambda: [one["spec"]["replicas"] for one in buffers(control_plane, namespace)], lambda seen: seen == [1]
        )

        control_plane.kubectl("delete", "chpa", "shop", "-n", namespace)
        wait_until(lambda: buffers(control_plane, namespace), lambda items: not items)
        own = of(control_plane.get(f"{CLUSTER_RBAC}/clusterroles/{BUFFER_ROLE}"))
        assert own <= used(control_plane, earlier)
        # In the chart's rights with the setting alone.
        assert not own & granted(control_plane)

        # As `helm upgrade` with `placeholders.kinds: none` does: the ClusterRole goes, and the buffers that it owns.
        control_plane.apply(scaler(namespace, 6, placeholders={"maxReplicas": 3, "nodeStartupSeconds": 3600}))
        wait_until(lambda: buffers(control_plane, namespace), within_s=60)
        operator.kill()
        control_plane.delete(f"{CLUSTER_RBAC}/clusterroles/{BUFFER_ROLE}")
        wait_until(lambda: buffers(control_plane, namespace), lambda items: not items, within_s=120)
    finally:
        control_plane.kubectl("delete", "crd", "capacitybuffers.autoscaling.x-k8s.io")


def learnt(plane, namespace, name):
    """The start-up times in an object's status, once it has that of pods which waited for a node."""
    path = f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas/{name}"
    status = wait_until(
        lambda: plane.get(path).get("status", {}), lambda seen: "podStartupWithNodeSeconds" in seen, within_s=60
    )
    return {key: status.get(key) for key in ("podStartupSeconds", "podStartupWithNodeSeconds", "nextEdge")}


@pytest.mark.slow
def test_the_wait_for_a_node_is_learnt_apart_and_leads_the_next_rise(control_plane, namespace, start):
    """Six pods of a core on nodes of four that take 30 s: two find room at once, the others wait."""
    start("none")
    with Nodes(control_plane, namespace, seconds=30):
        workload(control_plane, namespace, namespace)
        control_plane.apply(scaler(namespace, 6, starts=timedelta(seconds=-60)))
        wait_until(lambda: ready(control_plane, namespace), lambda seen: seen == 6, within_s=120)
        opens = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=10)
        control_plane.apply(scaler(namespace, 9, starts=opens - datetime.now(UTC) + timedelta(seconds=1), lead=None))
        starts = learnt(control_plane, namespace, "shop")

    assert starts["podStartupSeconds"] <= 20
    assert starts["podStartupWithNodeSeconds"] >= 30
    edge = starts["nextEdge"]
    assert "Leading" == edge["state"]
    ahead = opens - datetime.fromisoformat(edge["time"])
    assert timedelta(seconds=starts["podStartupWithNodeSeconds"]) <= ahead


@pytest.mark.long
def test_with_nodes_of_ninety_seconds_pods_are_ready_at_the_start(control_plane, namespace, start, record_property):
    """
    Ten pods of a core from the start on, two before it, nodes of four cores that take 90 s: without placeholders the
    last pods are Ready 75 s or more after the start (a lead of 10 s), with them none is. What was learnt of the wait
    leads the next rise by itself.
    """
    names = {"with": f"{namespace}-with", "without": f"{namespace}-without"}
    room = {"placeholders": {"maxReplicas": 20, "nodeStartupSeconds": 120}}
    start("Deployment")
    # The first full minute that leaves time for placeholders and their nodes.
    opens = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=4)
    with Nodes(control_plane, names["with"], 90) as early, Nodes(control_plane, names["without"], 90) as late:
        for name, pool in names.items():
            workload(control_plane, namespace, pool, name)
            more = room if name == "with" else {}
            body = scaler(namespace, 10, name, starts=opens - datetime.now(UTC), lead=10, **more)
            body["spec"]["behavior"] = {"scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}}
            control_plane.apply(body)
        seen = {}
        deadline = opens.timestamp() + 180
        while len(seen) < len(names) and time.time() < deadline:
            for name in names:
                if name not in seen and ready(control_plane, namespace, name) >= 10:
                    seen[name] = time.time() - opens.timestamp()
            time.sleep(0.5)

        extra, end, nodes = 0.0, time.time(), (len(early.added), len(late.added))
        for pool, sign in ((early, 1), (late, -1)):
            extra += sign * sum(end - added for added in pool.added)
        record_property(
            "told",
            f"pods Ready {seen['with']:+.0f} s from the start with placeholders and {seen['without']:+.0f} s without; "
            f"{extra:.0f} node-seconds more, {nodes[0]} and {nodes[1]} nodes",
        )
        # Learnt apart, and remembered: the next rise of the one without placeholders leads by the wait for nodes, too.
        opens = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=5)
        body = scaler(namespace, 20, "without", starts=opens - datetime.now(UTC), lead=None)
        body["spec"]["behavior"] = {"scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}}
        control_plane.apply(body)
        starts = learnt(control_plane, namespace, "without")
        while ready(control_plane, namespace, "without") < 20 and time.time() < opens.timestamp() + 180:
            time.sleep(0.5)
        later = time.time() - opens.timestamp()
        record_property("led", f"{starts}: the next rise, led by them, was Ready {later:+.0f} s from its start")
    assert starts["podStartupSeconds"] <= 20
    assert 90 <= starts["podStartupWithNodeSeconds"] <= 130
    # Its autoscaler looks for pods each ten seconds: the wait that was learnt may have been that much shorter.
    assert later <= 10
    # Nothing is preempted, so that no placeholder asks for a node of its own.
    assert nodes == (3, 3)
    assert seen["with"] <= 1
    assert seen["without"] >= 75
