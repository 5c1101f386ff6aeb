"""PlannedEvents on a real API server: one object, many workloads."""

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from testbed.control_plane import ControlPlaneError
from testbed.objects import deployment
from testbed.operator import Operator
from testbed.twin import cron_hpa
from testbed.wait import wait_until

PROJECT = Path(__file__).parents[2]
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


@pytest.mark.slow
@pytest.mark.usefixtures("operator")
def test_an_event_raises_the_objects_that_it_picks_and_leaves_the_others(control_plane, plant, namespace):
    """shop and cart have tier web, jobs has not. 200 % of 2 are 4; edited to 6; deleted: 2 again."""
    for name, tier in (("shop", "web"), ("cart", "web"), ("jobs", "batch")):
        workload(control_plane, plant, namespace, name, tier=tier)
    becomes(control_plane, namespace, {"shop": 2, "cart": 2, "jobs": 2})

    control_plane.apply(event("sale", namespace, selector={"tier": "web"}, minReplicasPercent=200))
    becomes(control_plane, namespace, {"shop": 4, "cart": 4, "jobs": 2})
    # The step comes first, and then its report.
    decided = wait_until(
        lambda: control_plane.get(f"{API}/namespaces/{namespace}/cronhpas/shop")["status"],
        lambda one: one.get("decision", {}).get("decidedBy") == "Event/sale",
    )
    assert ["Event/sale"] == [one["name"] for one in decided["schedules"]]
    told = wait_until(
        lambda: status(control_plane, namespace, "sale"), lambda one: one.get("ready") == 2, within_s=150, every_s=1
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


@pytest.mark.slow
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
    shown = re.compile(rf'cronhpa_object_desired_replicas{{[^}}]*namespace="{namespace}"[^}}]*}} (\S+)')
    (count,) = wait_until(lambda: shown.findall(operator.get("/metrics")), within_s=60)
    time.sleep(5)

    scaled = [
        write
        for write in control_plane.writes()
        if write.namespace == namespace and write.resource.endswith("/scale") and write.began > began
    ]
    assert (5, []) == (float(count), scaled)
    assert replicas(control_plane, namespace, "shop") == 5


@pytest.mark.slow
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
            within_s=150, every_s=1,
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
@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        ({"key": "tier", "operator": "in", "values": ["web"]}, "accepted are In, NotIn, Exists and DoesNotExist"),
        ({"key": "tier", "operator": "NotIn"}, "In and NotIn need some"),
        ({"key": "tier", "operator": "Exists", "values": ["web"]}, "Exists and DoesNotExist take none"),
    ],
)
def test_a_selector_with_a_slip_is_refused(control_plane, namespace, requirement, words):
    """Found: such an event concerned every object."""
    body = event("sale", namespace, selector={}, minReplicas=5)
    body["spec"]["selector"] = {"matchExpressions": [requirement]}

    with pytest.raises(ControlPlaneError) as refused:
        control_plane.apply(body)

    assert words in str(refused.value)


@pytest.mark.slow
@pytest.mark.usefixtures("operator")
def test_an_event_that_concerns_nobody_or_is_over_says_so(control_plane, namespace):
    control_plane.apply(
        event("nobody", namespace, selector={"tier": "none"}, minReplicas=5),
        event("past", namespace, selector={}, start=datetime.now(UTC) - timedelta(days=3), minReplicas=5),
    )

    told = wait_until(
        lambda: [status(control_plane, namespace, name) for name in ("nobody", "past")], all, within_s=150, every_s=1
    )

    assert "Empty" == told[0]["state"]
    matched = next(one for one in told[0]["conditions"] if one["type"] == "Matched")
    assert "kubectl get chpa --show-labels" in matched["message"]
    printed = control_plane.kubectl("get", "plannedevents", "-n", namespace)
    assert ["NAME", "OBJECTS", "PODS", "SHORT", "NEXT", "STATE", "AGE"] == printed.split("\n")[0].split()
    assert json.loads(control_plane.kubectl("get", "pev", "nobody", "-n", namespace, "-o", "json"))


@pytest.mark.slow
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
        lambda: status(control_plane, namespace, "short"), lambda one: one.get("pods") == 5, within_s=150, every_s=1
    )

    assert ("Upcoming", 1) == (told["state"], told["objects"])
    control_plane.apply(event("now", namespace, selector={"tier": "web"}, minReplicas=4))
    becomes(control_plane, namespace, {"shop": 4})
    assert (True, process) == (operator.is_running, operator.pid)


def says(plane, namespace, name, kind, within_s=90, plural="plannedevents"):
    """A condition of an event, once it has one."""

    def read():
        found = status(plane, namespace, name, plural).get("conditions", ())
        return next((one for one in found if one["type"] == kind), None)

    return wait_until(read, within_s=within_s, every_s=1)


@pytest.mark.slow
@pytest.mark.usefixtures("operator")
def test_two_hundred_events_of_one_object_with_the_longest_names_are_told_which_of_them_hold(
    control_plane, plant, namespace
):
    """Of 200 events of ten windows five hold, as wholes; the object's status holds their names of 300 letters."""
    workload(control_plane, plant, namespace, "shop", tier="web")
    many = []
    for number in range(200):
        name = f"{number:03}-" + ".".join(["e" * 61] * 4)[:249].rstrip(".")
        one = event(name, namespace, selector={}, minReplicas=3, more={"reason": "\u00e4" * 256})
        (window,) = one["spec"]["schedules"]
        one["spec"]["schedules"] = [window | {"name": f"{place}-" + "w" * 61} for place in range(10)]
        many.append(one)
    control_plane.apply(*many)
    becomes(control_plane, namespace, {"shop": 3}, within_s=60)

    decided = wait_until(
        lambda: control_plane.get(f"{API}/namespaces/{namespace}/cronhpas/shop")["status"],
        lambda told: len(told.get("schedules", ())) == 50,
        within_s=60,
    )
    assert all(one["name"].startswith("Event/00") for one in decided["schedules"])
    matched = [says(control_plane, namespace, many[place]["metadata"]["name"], "Matched") for place in (0, 4, 5, 199)]
    assert ["ObjectsMatched"] * 2 + ["TooManyEvents"] * 2 == [one["reason"] for one in matched]
    control_plane.kubectl("delete", "plannedevents", "--all", "-n", namespace)
    becomes(control_plane, namespace, {"shop": 2}, within_s=60)


@pytest.mark.slow
@pytest.mark.usefixtures("operator")
def test_a_cap_for_all_namespaces_but_some_never_holds_in_a_new_one_of_these(control_plane, plant, namespace):
    """The namespace, its label and the object come at the same instant; later the label goes, and the cap holds."""
    name = f"freeze-{namespace[-6:]}"
    but = {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["live"]},
                                {"key": "team", "operator": "In", "values": [namespace[-6:]]}]}  # fmt: skip
    control_plane.apply(
        event(name, "", kind="ClusterPlannedEvent", selector={"tier": "frozen"}, maxReplicas=3,
              more={"namespaceSelector": but})
    )  # fmt: skip
    says(control_plane, "", name, "Matched", plural="clusterplannedevents")
    new = f"{namespace}-new"
    labels = {"env": "live", "team": namespace[-6:]}
    body = cron_hpa("shop", new, minReplicas=5, maxReplicas=6)
    body["metadata"]["labels"] = {"tier": "frozen"}
    try:
        control_plane.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": new, "labels": labels}},
            deployment("shop", namespace=new, replicas=5),
            body,
        )
        plant.add_target(new, {"app": "shop"}, 0.5)
        time.sleep(20)
        assert replicas(control_plane, new, "shop") == 5

        control_plane.kubectl("label", "namespace", new, "env-")
        becomes(control_plane, new, {"shop": 3}, within_s=60)
    finally:
        control_plane.kubectl("delete", "clusterplannedevent", name)
        control_plane.kubectl("delete", "namespace", new, "--wait=false")


@pytest.mark.slow
@pytest.mark.usefixtures("operator")
def test_edits_in_the_seconds_of_the_start_end_in_the_last_one(control_plane, plant, namespace):
    for name in ("shop", "cart"):
        workload(control_plane, plant, namespace, name, tier="web")
    becomes(control_plane, namespace, {"shop": 2, "cart": 2})
    start = (datetime.now(UTC) + timedelta(seconds=75)).replace(second=0, microsecond=0)
    control_plane.apply(event("sale", namespace, selector={}, start=start, minReplicas=3))
    time.sleep(max(start.timestamp() - time.time() - 4, 0))
    while time.time() < start.timestamp() + 4:
        for count in (5, 4, 6):
            control_plane.apply(event("sale", namespace, selector={}, start=start, minReplicas=count))
    becomes(control_plane, namespace, {"shop": 6, "cart": 6})
    told = wait_until(
        lambda: status(control_plane, namespace, "sale"), lambda one: one.get("ready") == 2, within_s=150, every_s=1
    )
    assert told["report"]["opened"] == start.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.slow
def test_an_operator_that_is_away_over_the_end_of_an_event_reports_the_end_that_it_had(
    control_plane, plant, namespace, operator
):
    workload(control_plane, plant, namespace, "shop", tier="web")
    start = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)
    minutes = 7 + (datetime.now(UTC).second > 20)
    control_plane.apply(event("sale", namespace, selector={}, start=start, minutes=minutes, minReplicas=5))
    becomes(control_plane, namespace, {"shop": 5})
    wait_until(lambda: status(control_plane, namespace, "sale").get("report"), within_s=150, every_s=1)
    end = start + timedelta(minutes=minutes)
    operator.kill()
    time.sleep(max(end.timestamp() - time.time() + 5, 0))
    assert replicas(control_plane, namespace, "shop") == 5
    operator.start()

    becomes(control_plane, namespace, {"shop": 2}, within_s=400)
    told = wait_until(
        lambda: status(control_plane, namespace, "sale"),
        lambda one: "closed" in one.get("report", {}),
        within_s=60,
        every_s=1,
    )
    assert end.strftime("%Y-%m-%dT%H:%M:%SZ") == told["report"]["closed"]
    assert "Ended" == told["state"]
    assert "NoWindow" == says(control_plane, namespace, "sale", "Scheduled")["reason"]


@pytest.mark.slow
@pytest.mark.usefixtures("operator")
def test_two_events_that_contradict_and_a_percentage_of_nothing_say_so(control_plane, plant, namespace):
    workload(control_plane, plant, namespace, "shop", tier="web")
    control_plane.apply(
        event("most", namespace, selector={}, maxReplicas=3),
        event("least", namespace, selector={}, minReplicas=5),
        event("least-2", namespace, selector={}, minReplicas=1),
    )

    def consistent():
        return {
            name: says(control_plane, namespace, name, "Consistent")["status"] for name in ("most", "least", "least-2")
        }

    wait_until(consistent, lambda seen: seen == {"most": "False", "least": "False", "least-2": "True"}, within_s=120)
    told = says(control_plane, namespace, "least", "Consistent")["message"]
    assert "Event/least asks for at least 5, Event/most for at most 3" in told


@pytest.mark.slow
@pytest.mark.usefixtures("no_operator")
@pytest.mark.parametrize("is_given", [False, True])
def test_an_operator_of_some_namespaces_reads_cluster_events_where_it_has_the_right(
    control_plane, plant, namespace, tmp_path, is_given
):
    """Without the right the operator says so in its log; with it, the author is told which namespaces it sees."""
    release = f"some-{namespace[-8:].strip('-')}"
    control_plane.install_chart(
        namespace=namespace, release=release, values={"namespaces": [namespace], "clusterPlannedEvents": is_given}
    )
    account = control_plane.service_account_kubeconfig(namespace, f"{release}-cronhpa")
    workload(control_plane, plant, namespace, "shop", tier="web")
    only = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    name = f"sale-{namespace[-8:].strip('-')}"
    control_plane.apply(
        event(name, "", kind="ClusterPlannedEvent", selector={}, minReplicas=4, more={"namespaceSelector": only}),
        event("mine", namespace, selector={}, minReplicas=3),
    )
    try:
        with Operator(account, tmp_path, namespaces=namespace, leader_elect="false") as operator:
            becomes(control_plane, namespace, {"shop": 4 if is_given else 3}, within_s=60)
            if is_given:
                told = says(control_plane, "", name, "Matched", plural="clusterplannedevents")
                assert f"the operator acts in {namespace} alone" in told["message"]
                assert status(control_plane, "", name, "clusterplannedevents")["pods"] == 4
            else:
                assert "clusterplannedevents may not be listed: no planned event holds by it" in operator.tail(200)
                assert status(control_plane, "", name, "clusterplannedevents") == {}
    finally:
        control_plane.kubectl("delete", "clusterplannedevent", name)


@pytest.mark.slow
@pytest.mark.usefixtures("operator")
def test_the_how_to_page_is_followed_by_a_team_that_may_only_edit_its_namespace(
    control_plane, plant, namespace, tmp_path
):
    """The manifest and the commands as the page has them; the namespace and the dates are this test's."""
    page = (PROJECT / "docs" / "how-to" / "planned-events.md").read_text()
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n)+", page, re.MULTILINE)]
    start = datetime.now(UTC) + timedelta(days=1)
    manifest = blocks[0].replace("prod", namespace)
    manifest = re.sub(r"2026-11-2\dT(\d\d:\d\d)", lambda found: f"{start:%Y-%m-%d}T{found[1]}", manifest)
    manifest = manifest.replace(f'to: "{start:%Y-%m-%d}T00:00"', f'to: "{start:%Y-%m-%d}T23:00"')
    (tmp_path / "sale.yaml").write_text(manifest)
    (tmp_path / "old.yaml").write_text(manifest.replace("minReplicas: 6", "minReplicas: 3"))
    for name in ("shop", "cart"):
        workload(control_plane, plant, namespace, name, tier="web")
    becomes(control_plane, namespace, {"shop": 2, "cart": 2})
    control_plane.kubectl("create", "serviceaccount", "team", "-n", namespace)
    control_plane.kubectl(
        "create", "rolebinding", "team", "-n", namespace, "--clusterrole=edit", f"--serviceaccount={namespace}:team"
    )
    environment = os.environ | {
        "KUBECONFIG": str(control_plane.service_account_kubeconfig(namespace, "team")),
        "PATH": f"{Path(sys.executable).parent}:{control_plane.binaries}:{os.environ['PATH']}",
    }
    said = []
    for line in blocks[1].replace("prod", namespace).splitlines():
        command = line.partition("#")[0].strip()
        ended = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip
        said.append(f"$ {command}\n{ended.returncode}\n{ended.stdout}{ended.stderr}")
        print(said[-1])
        assert ended.returncode == int("--diff" in command), said[-1]

    assert re.search(rf"{namespace}/shop +2 +2 to 6 +6 to 6", said[0]), said[0]
    assert f"{namespace}/cart: 3 to 6 -> 6 to 6" in said[1]
    told = wait_until(
        lambda: control_plane.kubectl("get", "plannedevents", "-n", namespace), lambda text: "Upcoming" in text,
        within_s=150, every_s=1,
    )  # fmt: skip
    assert ["black-friday", "2", "12", "0"] == told.splitlines()[1].split()[:4]
    preview = subprocess.run(
        ["cronhpa", "preview", "shop", "-n", namespace], env=environment, capture_output=True, text=True, check=False
    )
    assert "Event/black-friday" in preview.stdout, preview.stdout + preview.stderr
