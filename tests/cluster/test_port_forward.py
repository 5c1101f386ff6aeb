"""
The way to the operator's pod through the API server: the real kubectl, the real API server, kwok as the kubelet.

The operator runs beside the control plane; kwok leads a port of its pod there, and runs there what kubectl executes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from typer.testing import CliRunner

from cronhpa.cli import app
from cronhpa.cli.commands.page import PORT as PAGE_PORT
from cronhpa.cli.past.past_source import COPYING, PORT
from testbed.control_plane import ControlPlane
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.twin import Scaled
from testbed.wait import wait_until

POD = "cronhpa-0"
READERS = [{"kind": "ServiceAccount", "name": name, "namespace": "default"} for name in ("reader", "stranger")]
ALWAYS = {"name": "always", "start": "0 0 * * *", "durationMinutes": 1440, "minReplicas": 4}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def of_the_pod(kind, **spec):
    """Plays the kubelet of the operator's pod, as kwok does."""
    meta = {"name": POD, "namespace": NAMESPACE}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("operator")


@pytest.fixture(scope="module")
def plane(folder):
    """An object that was decided on, by an operator whose history port is that of the pod cronhpa-0."""
    port, page_port = free_port(), free_port()
    forwards = [
        {"ports": [of], "target": {"address": "127.0.0.1", "port": target}}
        for of, target in ((PORT, port), (PAGE_PORT, page_port))
    ]
    environment = [
        {"name": "CRONHPA_STORE", "value": str(folder / "history.db")},
        {"name": "PATH", "value": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    ]
    kubelet = (
        of_the_pod("PortForward", forwards=forwards),
        of_the_pod("Exec", execs=[{"local": {"workDir": str(folder), "envs": environment}}]),
    )
    with ControlPlane(kubelet=kubelet) as plane:
        plane.install_chart(values={"decisionHistory": {"readers": READERS}})
        container = {"name": "cronhpa", "image": "cronhpa:test"}
        meta = {"name": POD, "namespace": NAMESPACE}
        plane.apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}},
            *(
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": reader["name"]}}
                for reader in READERS
            ),
        )
        # The stranger may forward the port, and get nothing.
        plane.kubectl("create", "role", "reader", "--verb=get", "--resource=cronhpas.cronhpa.io")
        plane.kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader")
        plane.kubectl("wait", "--for=condition=Ready", f"pod/{POD}", "-n", NAMESPACE, "--timeout=30s")
        account = plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
        with Operator(account, folder, history_port=str(port), page_port=str(page_port)):
            shop = Scaled(plane, "default", "web", replicas=2, metrics=None, schedules=[ALWAYS])
            wait_until(lambda: shop.replicas, lambda count: count == 4)
            time.sleep(12)  # the operator writes what it decided every five seconds
            yield plane


@pytest.fixture
def explain(plane, monkeypatch):
    monkeypatch.setenv("PATH", f"{plane.binaries}:{os.environ['PATH']}")

    def run(name, *options):
        kubeconfig = plane.service_account_kubeconfig("default", name)
        at = ("--at", "now", "--operator", f"{NAMESPACE}/{POD}")
        return CliRunner().invoke(
            app, ["explain", "web", "-n", "default", "--kubeconfig", str(kubeconfig), *at, *options]
        )

    return run


@pytest.mark.slow
def test_a_reader_with_the_two_rights_of_the_page_reads_the_past_through_port_forward(explain):
    told = explain("reader")

    assert 0 == told.exit_code, told.stderr
    assert "default/web: from 2 to 4 replicas of Deployment/web, decided by Schedule/always" in told.stdout


def test_who_may_forward_the_port_and_not_get_the_object_reads_nothing(explain):
    told = explain("stranger")

    assert (1, "") == (told.exit_code, told.stdout)
    assert 'cannot get resource "cronhpas"' in told.stderr
    assert "the operator kept no decision of it for you" in told.stderr


def test_who_may_not_forward_the_port_is_told_so_in_kubectls_words(explain):
    told = explain("default")

    assert (1, "") == (told.exit_code, told.stdout)
    assert 'pods "cronhpa-0" is forbidden' in told.stderr
    assert "the chart binds who may by decisionHistory.readers" in told.stderr


def test_the_store_is_copied_out_of_the_pod_by_the_line_that_the_command_prints(plane, folder, explain, tmp_path):
    copy = tmp_path / "copy.db"
    kubectl = [plane.binaries / "kubectl", f"--kubeconfig={plane.admin_kubeconfig}"]
    # The image has the program on its PATH and the store at the path of the chart; neither is so here.
    program, verb, noun, store, copied = COPYING.split()
    assert ("cronhpa", "/var/lib/cronhpa/history.db") == (program, store)
    ours = [sys.executable, "-m", "cronhpa.cli", verb, noun, str(folder / "history.db"), copied]
    command = [*kubectl, "exec", "-n", NAMESPACE, POD, "--", *ours]
    with copy.open("wb") as out:
        subprocess.run(command, stdout=out, check=True)

    told = explain("default", "--store", str(copy))

    assert 0 == told.exit_code, told.stderr
    assert "from 2 to 4 replicas" in told.stdout


@pytest.fixture
def page(plane):
    """Begins `cronhpa page` with a kubeconfig; returns the process."""
    environment = {**os.environ, "PATH": f"{plane.binaries}:{os.environ['PATH']}"}

    def begin(kubeconfig, *options):
        command = [sys.executable, "-m", "cronhpa.cli", "page", "--no-browser", "--kubeconfig", str(kubeconfig)]
        where = ("--operator", f"{NAMESPACE}/{POD}")
        return subprocess.Popen(
            [*command, *where, *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return begin


def ask(url, *, token=None, body=None):
    headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data=data, headers=headers), timeout=30) as answer:
        return json.load(answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "user"),
    [
        ((), f"system:serviceaccount:{NAMESPACE}:cronhpa-page"),
        (("--service-account", "default/reader"), "system:serviceaccount:default:reader"),
    ],
)
def test_an_administrator_with_a_certificate_opens_the_page_by_one_command(plane, page, options, user):
    """The account of the chart may get every object; a reader those of its namespace."""
    process = page(plane.admin_kubeconfig, *options)
    printed = "".join(process.stdout.readline() for _ in range(4))
    found = re.search(r"(http://127\.0\.0\.1:\d+/)#sign-in=([\w-]+)", printed)
    assert found, printed + process.stderr.read()
    session = ask(f"{found[1]}sign-in", body={"code": found[2]})["token"]
    told, fleet = (ask(f"{found[1]}api/{what}", token=session) for what in ("session", "fleet"))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)

    assert user == told["user"]
    assert ["web"] == [row[fleet["columns"].index("name")] for row in fleet["rows"]]
    assert (0, "") == (process.returncode, said)


def test_who_has_a_token_and_no_right_to_the_charts_account_sees_what_they_may_get(plane, page):
    process = page(plane.service_account_kubeconfig("default", "reader"))
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)

    assert "as system:serviceaccount:default:reader" in first


def test_without_the_right_or_the_account_the_page_is_refused_in_words(plane, page):
    _, forbidden = page(plane.service_account_kubeconfig("default", "default")).communicate(timeout=60)
    _, missing = page(plane.admin_kubeconfig, "--service-account", "default/nobody").communicate(timeout=60)

    assert 'pods "cronhpa-0" is forbidden' in forbidden
    assert "there is no ServiceAccount nobody in namespace default" in missing
