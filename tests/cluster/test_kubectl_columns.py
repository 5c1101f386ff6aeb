"""cronhpa.api.columns: on a real API server, what the real kubectl prints, beside what it prints of an HPA."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.glance import GOLDEN, SITUATIONS, named
from conformance.specs import Server, objects
from cronhpa.api.columns import targets
from cronhpa.api.parse import parse_spec
from cronhpa.cli import app
from cronhpa.core.model.spec import ControllerOptions
from testbed.objects import horizontal_pod_autoscaler
from testbed.twin import Scaled

PATCH = "application/merge-patch+json"


@pytest.fixture(scope="module")
def server(control_plane):
    return Server(control_plane)


def resource(name="cpu", container=None, **target):
    kind = "Utilization" if "averageUtilization" in target else "AverageValue"
    entry = {"name": name, "target": {"type": kind, **target}}
    if container is None:
        return {"type": "Resource", "resource": entry}
    return {"type": "ContainerResource", "containerResource": {**entry, "container": container}}


def other(kind, **target):
    entry = {"metric": {"name": "hits"}, "target": {"type": "Value" if "value" in target else "AverageValue", **target}}
    if kind == "Object":
        entry["describedObject"] = {"apiVersion": "v1", "kind": "Service", "name": "web"}
    return {"type": kind, kind.lower(): entry}


def reading(metric, **current):
    """The entry of `status.currentMetrics` for a metric."""
    (kind, field), (part, entry) = metric.items()
    identity = {key: value for key, value in entry.items() if key != "target"}
    return {kind: field, part: {**identity, "current": current}}


CPU = resource(averageUtilization=60)
MEMORY = resource("memory", averageValue="1536Mi")
DECIMAL = resource("memory", averageValue="2G")
CONTAINER = resource("cpu", "app", averageUtilization=80)
PODS = other("Pods", averageValue="1500m")
OBJECT = other("Object", value="2k")
SHARED = other("Object", averageValue="10")
QUEUE = other("External", averageValue="30")
BUS = other("External", value="100")

# Each: the metrics of a spec, and what was read of them; None where a metric is absent.
READ: dict[str, list[Any]] = {
    "one": [(CPU, {"averageUtilization": 33, "averageValue": "330m"})],
    "one absent": [(CPU, None)],
    "nothing read yet": [],
    "bytes": [(MEMORY, {"averageValue": "104857600"}), (DECIMAL, {"averageValue": "1500M"})],
    "a container": [(CONTAINER, {"averageUtilization": 90, "averageValue": "900m"})],
    "pods and an object": [(PODS, {"averageValue": "2"}), (OBJECT, {"value": "1999"})],
    "averages": [(SHARED, {"averageValue": "9900m"}), (QUEUE, {"averageValue": "31"})],
    "averages absent": [(SHARED, None), (QUEUE, None)],
    "a value of three": [
        (CPU, {"averageUtilization": 61, "averageValue": "610m"}),
        (BUS, {"value": "7"}),
        (PODS, None),
    ],
    "five": [(CPU, None), (MEMORY, {"averageValue": "1Gi"}), (PODS, None), (BUS, None), (QUEUE, None)],
}


@pytest.mark.slow
@pytest.mark.usefixtures("no_operator")
@pytest.mark.parametrize("case", READ)
def test_targets_read_as_those_of_an_hpa(server, namespace, case):
    pairs = READ[case] or [(CPU, None), (BUS, None)]
    metrics = [metric for metric, _ in pairs]
    current = (
        [{"type": ""} if read is None else reading(metric, **read) for metric, read in pairs] if READ[case] else []
    )
    hpa = horizontal_pod_autoscaler("web", namespace=namespace, metrics=metrics)
    server.kubectl("create", "-f", "-", stdin=yaml.safe_dump(hpa))
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/web/status"
    status = {"currentMetrics": current, "desiredReplicas": 1, "conditions": []}
    code, told = server.request("PATCH", path, {"status": status}, PATCH)
    assert 200 == code, told

    shown = server.kubectl("get", "hpa", "web", "--namespace", namespace, "--no-headers")

    spec = parse_spec({**hpa["spec"]}, namespace, ControllerOptions())
    assert targets(spec.metrics, current) in shown


NARROW = ["NAME", "TARGETS", "MIN", "MAX", "CURRENT", "DESIRED", "STATUS", "NEXT", "AGE"]
# The metric; or nobody, where its first value asked for fewer and the count that was found is held.
DECIDED_BY = {"Metric/cpu", "CurrentReplicas"}
WIDE = [*NARROW, "TARGET", "DECIDED-BY", "MODE", "FORECAST", "READY"]


@pytest.mark.usefixtures("operator")
def test_kubectl_get_says_what_an_object_does_and_kubectl_wait_waits_for_it(control_plane, namespace, plant):
    """1 core on 2 pods of 1 core: 50 % each, the target. In UTC the window opens a day earlier, at 19:00."""
    window = {"name": "gala", "from": "2099-11-23T08:00", "to": "2099-11-23T19:00", "minReplicas": 3}
    plant.add_target(namespace, {"app": "web"}, 1.0)
    web = Scaled(control_plane, namespace, replicas=2, timeZone="Pacific/Apia", schedules=[window], maxReplicas=20)
    place = ("-n", namespace)
    control_plane.kubectl("wait", "chpa/web", *place, "--for=condition=Ready", "--timeout=30s")
    web.says("ScalingActive", "True", "ValidMetricFound")

    header, row = control_plane.kubectl("get", "chpa", *place).splitlines()
    wide_header, wide = control_plane.kubectl("get", "chpa", *place, "-o", "wide").splitlines()

    assert NARROW == header.split()
    assert WIDE == wide_header.split()
    # The first load that was measured may be that of a part of a second, and what only drifts is written later.
    name, _, target, *counts, age = row.split()
    assert re.fullmatch(r"\d+%/50%", target), row
    assert ["web", "1", "20", "2", "2", "Deciding", "2099-11-23"] == [name, *counts]
    assert re.fullmatch(r"\d+s", age), row
    # No forecast: the column is empty.
    target, decided_by, mode, ready = wide.split()[-4:]
    assert ("Deployment/web", "Active", "True") == (target, mode, ready)
    assert decided_by in DECIDED_BY
    assert "cronhpa.cronhpa.io/web" in control_plane.kubectl("get", "all", *place)


@pytest.mark.usefixtures("operator")
def test_explain_and_status_tell_of_an_object_that_runs(control_plane, namespace, plant):
    """
    1 core on 2 pods of 1 core, and 50 % is the target.

    The first load may be that of a part of a second: it may ask for 0, 1 or 2, and the 2 that run are held for 3 s.
    """
    plant.add_target(namespace, {"app": "web"}, 1.0)
    web = Scaled(control_plane, namespace, replicas=2, maxReplicas=20)
    web.says("ScalingActive", "True", "ValidMetricFound")
    options = ("-n", namespace, "--kubeconfig", str(control_plane.admin_kubeconfig))

    explained = CliRunner().invoke(app, ["explain", "web", "--verbose", *options])
    table = CliRunner().invoke(app, ["status", *options])
    as_json = CliRunner().invoke(app, ["explain", "web", "-o", "json", *options])
    everywhere = CliRunner().invoke(app, ["status", "-A", "-o", "json", *options[2:]])

    assert (0, 0) == (explained.exit_code, table.exit_code), explained.output + table.output
    text = " ".join(explained.stdout.split())
    assert f"{namespace}/web: 2 replicas of Deployment/web" in text
    assert re.search(r"cpu: [0-9]+ % of 50 % over 2 pods(, [12] of them .*)?; asks for [0-2]", text), text
    assert re.search(r"web +Deciding +2 +1\.\.20 +cpu: [0-9]+%/50%", table.stdout), table.stdout
    told = json.loads(as_json.stdout)
    assert (2, []) == (told["currentReplicas"], told["problems"])
    assert told["decidedBy"] in DECIDED_BY
    assert (namespace, "web", "Deciding") in {
        (row["namespace"], row["name"], row["status"]) for row in json.loads(everywhere.stdout)
    }


@pytest.mark.usefixtures("operator")
def test_desired_is_blank_before_the_first_decision_and_never_zero(control_plane, namespace):
    """No Deployment: nothing was ever decided."""
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}, "maxReplicas": 5}
    cpu = [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    ]
    body = {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "metadata": {"name": "lone"}}
    control_plane.kubectl(
        "create", "-n", namespace, "-f", "-", stdin=yaml.safe_dump({**body, "spec": {**spec, "metrics": cpu}})
    )
    place = ("-n", namespace)
    control_plane.kubectl("wait", "chpa/lone", *place, "--for=condition=Ready=false", "--timeout=30s")

    _, row = control_plane.kubectl("get", "chpa", *place).splitlines()

    assert ["lone", "cpu:", "<unknown>/50%", "1", "5", "NoTarget"] == row.split()[:-1]


@pytest.mark.slow
@pytest.mark.usefixtures("no_operator")
def test_the_situations_read_as_they_did_when_a_person_looked_at_them(server, namespace):
    """The table is what the real kubectl printed; ages apart."""
    for name in SITUATIONS:
        made = named(name)
        body = {
            "apiVersion": "cronhpa.io/v1alpha1",
            "kind": "CronHPA",
            "metadata": {"name": name},
            "spec": made["spec"],
        }
        code, told = server.request("POST", objects(namespace), body)
        assert 201 == code, told
        path = f"{objects(namespace)}/{name}/status"
        code, told = server.request("PATCH", path, {"status": made["status"]}, PATCH)
        assert 200 == code, told
        # The CRD knows every field, so that none is lost.
        assert without_nulls(made["status"]) == told["status"]

    narrow = server.kubectl("get", "chpa", "-n", namespace)
    wide = server.kubectl("get", "chpa", "-n", namespace, "-o", "wide")

    assert (GOLDEN / "kubectl-get.txt").read_text() == aged(narrow)
    assert (GOLDEN / "kubectl-get-wide.txt").read_text() == aged(wide)


def without_nulls(status):
    return {key: value for key, value in status.items() if value is not None}


def aged(table):
    """A table in which each object is nine seconds old; AGE has room for three characters then."""
    return re.sub(r"\b[0-9]+s *", lambda match: "9s".ljust(len(match[0])), re.sub(r" +\n", "\n", table))


@pytest.mark.usefixtures("no_operator")
def test_an_object_that_no_operator_has_seen_has_its_name_and_its_mode(server, namespace):
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}, "maxReplicas": 5}
    body = {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "metadata": {"name": "new"}}
    code, _ = server.request("POST", objects(namespace), {**body, "spec": {**spec, "metrics": [BUS]}})

    row = server.kubectl("get", "chpa", "new", "-n", namespace, "-o", "wide", "--no-headers").split()

    assert (201, "new", "Active") == (code, row[0], row[-1])
