"""`helm test` of the chart: its pod's command, run as its account, tells whether the release can do its work."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest

from testbed.control_plane import CHART
from testbed.twin import cron_hpa
from testbed.wait import wait_until

RELEASE = "tried"
VALUES = {"replicas": 1, "crds": {"install": False}, "fullnameOverride": RELEASE, "persistence": {"enabled": False}}


@pytest.fixture
def kubelet(control_plane, namespace):
    """Runs the test's pod as a kubelet would: its arguments as its account; its end is in the pod's status."""
    pod = ("pod", f"{RELEASE}-test", "-n", namespace)
    said = []

    def run():
        listed_pod = wait_until(
            lambda: control_plane.kubectl("get", *pod, "-o", "json", "--ignore-not-found"), within_s=60
        )
        spec = json.loads(listed_pod)["spec"]
        account = control_plane.service_account_kubeconfig(namespace, spec["serviceAccountName"])
        command = [sys.executable, "-m", "cronhpa.cli", *spec["containers"][0]["args"], "--kubeconfig", str(account)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        said.append(ended.stdout + ended.stderr)
        phase = {"status": {"phase": "Failed" if ended.returncode else "Succeeded"}}
        control_plane.kubectl("patch", *pod, "--subresource=status", "--type=merge", "-p", json.dumps(phase))

    thread = threading.Thread(target=run)
    thread.start()
    yield said
    thread.join(90)


@pytest.mark.slow
def test_a_release_whose_account_reads_the_objects_passes(helm, kubelet, namespace):
    code, text = helm("install", RELEASE, str(CHART), values=VALUES | {"namespaces": [namespace]})
    assert 0 == code, text

    code, text = helm("test", RELEASE, "--timeout", "60s")

    assert 0 == code, text
    assert [f"no CronHPA in namespace {namespace}\n"] == kubelet


@pytest.mark.long  # helm goes on waiting for a pod that has failed
def test_an_object_that_nobody_decides_on_fails_it_by_name(helm, kubelet, control_plane, namespace, no_operator):
    control_plane.apply(cron_hpa("web", namespace))
    code, text = helm("install", RELEASE, str(CHART), values=VALUES | {"namespaces": [namespace]})
    assert 0 == code, text

    code, text = helm("test", RELEASE, "--timeout", "10s")

    assert 1 == code, text
    assert "web" in kubelet[0]
    assert "Undecided" in kubelet[0]
