"""`cronhpa report` of a real API server: it reads by its ClusterRole alone, and writes nothing."""

import asyncio
import json
import threading

import pytest
import yaml
from typer.testing import CliRunner

from cronhpa.cli import app
from cronhpa.core.model.instant import MINUTE, SECOND
from forecasting.answering import Answering
from reporting.made_targets import MONDAY, deployment, hpa, rush


@pytest.fixture
def server():
    """A server with the load of made_targets.rush for every query."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    answering = Answering(lambda at: str(rush(at * SECOND // MINUTE * MINUTE)) if at * SECOND >= MONDAY else None)
    asyncio.run_coroutine_threadsafe(answering.__aenter__(), loop).result(10)
    yield answering
    asyncio.run_coroutine_threadsafe(answering.__aexit__(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.fixture
def shop(control_plane, namespace):
    """An HPA that allows 10 pods where 20 are needed, on a Deployment without pods."""
    workload = deployment()
    pod = workload["spec"]["template"]
    workload["spec"] = {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "shop"}},
        "template": {
            "metadata": {"labels": {"app": "shop"}},
            "spec": {"containers": [{**pod["spec"]["containers"][0], "image": "none"}]},
        },
    }
    for body in (workload, hpa(maximum=10)):
        control_plane.apply({**body, "metadata": {**body["metadata"], "namespace": namespace}})
    return namespace


def reader(control_plane, namespace, without=()):
    """A kubeconfig of an account with the rights of --print-rbac alone, less some resources, in this namespace."""
    role = yaml.safe_load(CliRunner().invoke(app, ["report", "--print-rbac"]).stdout)
    role["metadata"]["name"] += f"-{namespace}"
    for rule in role["rules"]:
        rule["resources"] = [one for one in rule["resources"] if one not in without] or ["nothing"]
    subject = {"kind": "ServiceAccount", "name": "reporter", "namespace": namespace}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]}
    control_plane.apply(role)
    account = {"name": "reporter", "namespace": namespace}
    control_plane.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    control_plane.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reporter", "namespace": namespace},
            "roleRef": ref,
            "subjects": [subject],
        }
    )
    return control_plane.service_account_kubeconfig(namespace, "reporter")


@pytest.mark.slow
def test_a_reader_of_one_namespace_gets_its_report_and_changes_nothing(shop, control_plane, server):
    kubeconfig = reader(control_plane, shop)
    arguments = ["--prometheus", server.url, "-n", shop, "--weeks", "0.6", "--jobs", "1", "-o", "json"]

    result = CliRunner().invoke(app, ["report", *arguments, "--time-zone", "UTC", "--kubeconfig", str(kubeconfig)])

    assert 0 == result.exit_code, result.stderr
    (target,) = json.loads(result.stdout)["targets"]
    assert f"{shop}/Deployment/shop" == target["target"]
    assert any("maxReplicas" in suggestion["change"] for suggestion in target["suggestions"])
    user = f"system:serviceaccount:{shop}:reporter"
    # Finding out which kinds there are is a get of a path.
    assert {"get", "list"} == {request.verb for request in control_plane.requests() if request.user == user}


@pytest.mark.slow
def test_what_may_not_be_read_is_named_and_left_out(shop, control_plane, server):
    kubeconfig = reader(control_plane, shop, without=("pods", "replicasets"))
    arguments = ["--prometheus", server.url, "-n", shop, "--weeks", "0.6", "--jobs", "1", "-o", "json"]

    result = CliRunner().invoke(app, ["report", *arguments, "--time-zone", "UTC", "--kubeconfig", str(kubeconfig)])

    assert 0 == result.exit_code, result.stderr
    answer = json.loads(result.stdout)
    assert ["Pods may not be read", "ReplicaSets may not be read"] == [
        remark.partition(":")[0] for remark in answer["remarks"]
    ]
    assert [f"{shop}/Deployment/shop"] == [target["target"] for target in answer["targets"]]


@pytest.mark.slow
def test_a_selector_is_read_as_kubectl_reads_it(shop, control_plane, server):
    """The HPA has the label app=shop; the API server reads sets and inequalities, too."""
    arguments = ["report", "--prometheus", server.url, "-n", shop, "--weeks", "0.6", "--jobs", "1", "-o", "json"]
    admin = ["--kubeconfig", str(control_plane.admin_kubeconfig)]

    codes = [
        CliRunner().invoke(app, [*arguments, *admin, "-l", selector]).exit_code
        for selector in ("app in (shop)", "app!=shop", "app==other")
    ]

    assert [0, 1, 1] == codes
