"""`make demo` as its user runs it: a process of its own, here cut short, and what it leaves behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.control_plane import PROJECT, ControlPlane
from testbed.demo.cluster import NAMESPACE
from testbed.plant import API_SERVICE, Plant
from testbed.wait import wait_until

CLUSTER_WIDE = ("namespaces", "customresourcedefinitions", "apiservices", "clusterroles", "clusterrolebindings")
IN_NAMESPACES = ("pods", "services", "deployments", "roles", "rolebindings", "serviceaccounts")


@pytest.fixture(scope="module")
def given():
    """A cluster as if it were somebody's: with the upstream HPA, without a metrics API and without the CRD."""
    with ControlPlane(hpa=True) as plane:
        yield plane


@pytest.fixture
def demo(tmp_path):
    """Starts demos in a folder of their own; ends those that are left."""
    started = []

    def start(**settings):
        environment = os.environ | {"PYTHONPATH": str(PROJECT / "tests"), "TMPDIR": str(tmp_path)} | settings
        process = subprocess.Popen(
            [sys.executable, "-m", "testbed.demo"],
            cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for_line(process, pattern):
    """Read what the demo prints up to a line that a pattern is found in."""
    printed = []
    for line in process.stdout:
        printed.append(line)
        if re.search(pattern, line):
            return line
    raise AssertionError(f"{pattern!r} was not printed:\n{''.join(printed)}{process.stderr.read()}")


def objects(plane):
    names = plane.kubectl("get", ",".join(CLUSTER_WIDE), "-o", "name").splitlines()
    return {*names, *plane.kubectl("get", ",".join(IN_NAMESPACES), "-A", "-o", "name").splitlines()}


def settled_as(plane, before):
    """The objects, once the API server has dropped what it keeps for a CRD by itself."""
    return wait_until(lambda: objects(plane), lambda after: after == before, within_s=30)


@pytest.mark.long
def test_a_given_cluster_is_told_used_and_left_as_it_was(given, demo, tmp_path):
    before = objects(given)
    # A forecast is there once its worker has started and fitted, and is acted on at the next reconciliation: 5 + 15 s,
    # or more where other tests run beside this one.
    process = demo(DEMO_KUBECONFIG=str(given.admin_kubeconfig), DEMO_SECONDS="35", DEMO_STARTUP_SECONDS="1")

    out, err = process.communicate(timeout=120)

    assert (0, "") == (process.returncode, err)
    announced, _, rest = out.partition("two Deployments of")
    for expected in (
        "CustomResourceDefinition cronhpas.cronhpa.io",
        f"APIService {API_SERVICE}",
        f"Namespace {NAMESPACE}",
    ):
        assert expected in announced
    assert "first decision of the CronHPA" in rest
    assert "under-provisioned seconds" in rest
    assert before == settled_as(given, before)

    document = json.loads((tmp_path / "build" / "demo.json").read_text())
    timeline = document["timeline"]
    assert 34 <= len(timeline) - 1 <= 37
    # By night both have what they need: 1.8 of 50 cores / 10m a pod at 60 %.
    assert [6, 6] == [timeline[0][name]["ready"] for name in ("upstream HPA", "CronHPA")]
    assert {0.0} == {score["under_provisioned_seconds"] for score in document["summary"]["scores"].values()}
    forecasts = [
        proposal for entry in timeline for proposal in entry["proposals"] if proposal["source"] == "Forecast/cpu"
    ]
    assert forecasts, "no forecast was made"
    assert all(forecast["role"] == "Floor" for forecast in forecasts)
    assert ["build"] == [path.name for path in tmp_path.iterdir()]
    assert f"The picture of both twins is {tmp_path}/build/demo.svg" in " ".join(out.split())
    assert "<svg" in (tmp_path / "build" / "demo.svg").read_text()[:1000]


@pytest.mark.long
def test_a_given_cluster_is_left_as_it_was_after_an_interrupt(given, demo, tmp_path):
    """The CRD was there before: it stays. A second ^C does not leave half of it behind."""
    given.install_crds()
    before = objects(given)
    process = demo(DEMO_KUBECONFIG=str(given.admin_kubeconfig), DEMO_STARTUP_SECONDS="1")
    wait_for_line(process, "both autoscalers begin")

    process.send_signal(signal.SIGINT)
    wait_for_line(process, "removing")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (130, "") == (process.returncode, err)
    assert "interrupted" in out
    assert "customresourcedefinition.apiextensions.k8s.io/cronhpas.cronhpa.io" in before
    assert before == settled_as(given, before)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_given_cluster_is_left_as_it_was_when_the_setting_up_is_ended(given, demo, tmp_path):
    before = objects(given)
    process = demo(DEMO_KUBECONFIG=str(given.admin_kubeconfig), DEMO_STARTUP_SECONDS="60")
    wait_for_line(process, "two Deployments of")

    process.terminate()
    process.communicate(timeout=60)

    assert 128 + signal.SIGTERM == process.returncode
    assert before == settled_as(given, before)
    assert [] == list(tmp_path.iterdir())


def test_a_cluster_that_has_a_metrics_api_is_refused(given, demo):
    with Plant(given.admin_kubeconfig):
        before = objects(given)
        process = demo(DEMO_KUBECONFIG=str(given.admin_kubeconfig))
        out, err = process.communicate(timeout=30)
        assert before == objects(given)

    assert (2, "") == (process.returncode, out)
    assert f"APIService {API_SERVICE} is registered already" in err
    assert "use a cluster without metrics-server" in err


@pytest.mark.long
def test_its_own_control_plane_is_gone_after_an_interrupt(demo, tmp_path):
    """First decision in time, and no process and no file left of what was started."""
    began = time.monotonic()
    process = demo()
    wait_for_line(process, "first decision of the CronHPA")
    took = time.monotonic() - began
    children = _processes_in(tmp_path)
    assert {"kube-apiserver", "etcd", "kwok"} <= children

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)

    assert 130 == process.returncode
    assert took < 40  # 20 s are promised, and other tests run beside this one
    assert set() == _processes_in(tmp_path)
    assert [] == list(tmp_path.iterdir())


def _processes_in(folder):
    """Names of the processes whose command line or environment names a folder."""
    process_names = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            if str(folder).encode() in command + (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                process_names.add(Path(command.split(b"\0")[0].decode()).name)
        except OSError:  # it has ended meanwhile
            continue
    return process_names
