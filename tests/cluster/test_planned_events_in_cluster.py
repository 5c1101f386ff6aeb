"""PlannedEvents on a real API server: one object, many workloads."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from testbed.control_plane import ControlPlaneError
from testbed.objects import deployment
from testbed.twin import cron_hpa
from testbed.wait import wait_until

API = "/apis/cronhpa.io/v1alpha1"


def local(at):
    return at.strftime("%Y-%m-%dT%H:%M")


def event(name, namespace, *, selector, kind="PlannedEvent", start=None, minutes=30, more=None, **bounds):
    """An event that is open now, unless it starts later."""
    start = start or datetime.now(UTC) - timedelta(minutes=5)
    window = {"from": local(start), "to": local(start + timedelta(minutes=minutes))}
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    spec = {
        "selector": {"matchLabels": selector},
        "reason": "a sale",
        "schedules": [{"name": "doors"} | window | bounds],
    }
    return {"apiVersion": "cronhpa.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec | (more or {})}


def workload(plane, plant, namespace, name, **labels):
    plane.apply(deployment(name, namespace=namespace, replicas=2))
    plant.add_target(namespace, {"app": name}, 0.5)
    body = cron_hpa(name, namespace, minReplicas=2, maxReplicas=6)
    body["metadata"]["labels"] = labels
    plane.apply(body)


def replicas(plane, namespace, name):
    return plane.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")["spec"]["replicas"]


def becomes(plane, namespace, counts, within_s=30):
    wait_until(
        lambda: {name: replicas(plane, namespace, name) for name in counts},
        lambda seen: seen == counts,
        within_s=within_s,
        every_s=0.3,
    )


def status(plane, namespace, name, plural="plannedevents"):
    within = f"namespaces/{namespace}/" if namespace else ""
    return plane.get(f"{API}/{within}{plural}/{name}").get("status", {})


@pytest.mark.usefixtures("operator")
def test_an_event_raises_the_objects_that_it_picks_and_leaves_the_others(control_plane, plant, namespace):
    """shop and cart have tier web, jobs has not. 200 % of 2 are 4; edited to 6; deleted: 2 again."""
    for name, tier in (("shop", "web"), ("cart", "web"), ("jobs", "batch")):
        workload(control_plane, plant, namespace, name, tier=tier)
    becomes(control_plane, namespace, {"shop": 2, "cart": 2, "jobs": 2})

    control_plane.apply(event("sale", namespace, selector={"tier": "web"}, minReplicasPercent=200))
    becomes(control_plane, namespace, {"shop": 4, "cart": 4, "jobs": 2})
    decided = control_plane.get(f"{API}/namespaces/{namespace}/cronhpas/shop")["status"]
    assert ["Event/sale"] == [one["name"] for one in decided["schedules"]]
    assert decided["decision"]["decidedBy"] == "Event/sale"
    told = wait_until(
        lambda: status(control_plane, namespace, "sale"), lambda one: one.get("ready") == 2, within_s=60, every_s=1
    )
    assert ("Active", 2, 8, 0) == tuple(told[key] for key in ("state", "objects", "pods", "short"))
    named = "involvedObject.kind=PlannedEvent,involvedObject.name=sale"
    heard = wait_until(
        lambda: control_plane.kubectl("get", "events", "-n", namespace, "--field-selector", named), within_s=30
    )
    assert "EventStarted" in heard

    control_plane.apply(event("sale", namespace, selector={"tier": "web"}, minReplicas=6))
    becomes(control_plane, namespace, {"shop": 6, "cart": 6, "jobs": 2})

    control_plane.kubectl("label", "cronhpa", "cart", "-n", namespace, "tier=quiet", "--overwrite")
    becomes(control_plane, namespace, {"shop": 6, "cart": 2, "jobs": 2})

    control_plane.kubectl("delete", "plannedevent", "sale", "-n", namespace)
    becomes(control_plane, namespace, {"shop": 2, "cart": 2, "jobs": 2})


def test_an_operator_that_is_killed_while_an_event_is_open_comes_back_into_it(
    control_plane, plant, namespace, operator
):
    """Nothing of an event is in memory alone: it is listed before the first decision, so nothing is scaled down."""
    workload(control_plane, plant, namespace, "shop", tier="web")
    control_plane.apply(event("sale", namespace, selector={"tier": "web"}, minReplicas=5))
    becomes(control_plane, namespace, {"shop": 5})

    began = time.time()
    operator.kill()
    operator.start()
    decided = f"{API}/namespaces/{namespace}/cronhpas/shop"
    wait_until(
        lambda: control_plane.get(decided)["status"]["decision"]["decidedBy"], lambda by: by == "Event/sale",
        within_s=30,
    )  # fmt: skip
    time.sleep(5)

    scaled = [
        write
        for write in control_plane.writes()
        if write.namespace == namespace and write.resource.endswith("/scale") and write.began > began
    ]
    assert [] == scaled
    assert replicas(control_plane, namespace, "shop") == 5


@pytest.mark.usefixtures("operator")
def test_a_cluster_event_picks_by_the_labels_of_namespaces_and_a_namespaced_one_never_leaves_its_own(
    control_plane, plant, namespace
):
    other = f"{namespace}-b"
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    try:
        for where in (namespace, other):
            workload(control_plane, plant, where, "shop", tier="web")
        control_plane.kubectl("label", "namespace", other, "team=shops")
        everywhere = event("mine", namespace, selector={"tier": "web"}, minReplicas=3)
        everywhere["spec"]["namespaceSelector"] = {}
        with pytest.raises(ControlPlaneError, match=r"namespaceSelector"):
            control_plane.apply(everywhere)
        del everywhere["spec"]["namespaceSelector"]
        control_plane.apply(everywhere)
        becomes(control_plane, namespace, {"shop": 3})
        assert replicas(control_plane, other, "shop") == 2

        more = {"namespaceSelector": {"matchLabels": {"team": "shops"}}}
        name = f"sale-{namespace[-6:]}"
        control_plane.apply(
            event(name, "", kind="ClusterPlannedEvent", selector={"tier": "web"}, minReplicas=50, more=more)
        )
        becomes(control_plane, other, {"shop": 6})  # its maxReplicas
        assert replicas(control_plane, namespace, "shop") == 3
        told = wait_until(
            lambda: status(control_plane, "", name, "clusterplannedevents"), lambda one: one.get("ready") == 1,
            within_s=60, every_s=1,
        )  # fmt: skip
        fits = next(one for one in told["conditions"] if one["type"] == "Fits")
        assert ("False", 44, [other]) == (
            fits["status"],
            told["short"],
            [one["namespace"] for one in told["namespaces"]],
        )
        control_plane.kubectl("delete", "clusterplannedevent", name)
        becomes(control_plane, other, {"shop": 2})
    finally:
        control_plane.kubectl("delete", "namespace", other, "--wait=false")


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"expectedLoadPercent": 250}, "say what holds for an object whose usual load is not known"),
        ({"minReplicasPercent": 0, "minReplicas": 2}, "spec.schedules[0].minReplicasPercent"),
        ({}, "say what it asks for"),
        ({"minReplicas": 1, "to": "2020-01-01T00:00"}, "to must be after from"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_the_api_server_in_words(control_plane, namespace, change, words):
    with pytest.raises(ControlPlaneError) as refused:
        control_plane.apply(event("sale", namespace, selector={}, **change))

    assert words in str(refused.value)


@pytest.mark.usefixtures("operator")
def test_an_event_that_concerns_nobody_or_is_over_says_so(control_plane, namespace):
    control_plane.apply(
        event("nobody", namespace, selector={"tier": "none"}, minReplicas=5),
        event("past", namespace, selector={}, start=datetime.now(UTC) - timedelta(days=3), minReplicas=5),
    )

    told = wait_until(
        lambda: [status(control_plane, namespace, name) for name in ("nobody", "past")], all, within_s=60, every_s=1
    )

    assert "Empty" == told[0]["state"]
    matched = next(one for one in told[0]["conditions"] if one["type"] == "Matched")
    assert "kubectl get chpa --show-labels" in matched["message"]
    printed = control_plane.kubectl("get", "plannedevents", "-n", namespace)
    assert ["NAME", "OBJECTS", "PODS", "SHORT", "NEXT", "STATE", "AGE"] == printed.split("\n")[0].split()
    assert json.loads(control_plane.kubectl("get", "pev", "nobody", "-n", namespace, "-o", "json"))


def test_an_expected_load_of_a_window_shorter_than_a_step_leaves_the_operator_running(
    control_plane, plant, namespace, operator
):
    """A tenant's event of four minutes, an hour ahead, over an object without a history: others are served on."""
    workload(control_plane, plant, namespace, "shop", tier="web")
    becomes(control_plane, namespace, {"shop": 2})
    process = operator.pid
    short = event(
        "short", namespace, selector={"tier": "web"}, start=datetime.now(UTC) + timedelta(hours=1), minutes=4,
        minReplicas=5, expectedLoadPercent=200,
    )  # fmt: skip
    control_plane.apply(short)

    told = wait_until(
        lambda: status(control_plane, namespace, "short"), lambda one: one.get("pods") == 5, within_s=60, every_s=1
    )

    assert ("Upcoming", 1) == (told["state"], told["objects"])
    control_plane.apply(event("now", namespace, selector={"tier": "web"}, minReplicas=4))
    becomes(control_plane, namespace, {"shop": 4})
    assert (True, process) == (operator.is_running, operator.pid)
