"""The testbed does what the tests, the demo and the benchmarks that stand on it take for granted."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from datetime import datetime
from pathlib import Path

import pytest

from testbed.control_plane import PROJECT, ControlPlaneError, Request
from testbed.objects import deployment, horizontal_pod_autoscaler
from testbed.plant import Fault
from testbed.wait import wait_until


def pods(plane, namespace):
    return plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]


def condition(pod, kind):
    return next(
        (
            stated_condition
            for stated_condition in pod["status"].get("conditions", ())
            if stated_condition["type"] == kind
        ),
        None,
    )


def ready_pods(plane, namespace):
    with_condition = [pod for pod in pods(plane, namespace) if condition(pod, "Ready")]
    return [pod for pod in with_condition if condition(pod, "Ready")["status"] == "True"]


def measured(plane, namespace):
    """Millicores of each pod, as the metrics API says through the API server."""
    answer = plane.get(f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?labelSelector=app%3Dweb")
    quantities = [pod_metrics["containers"][0]["usage"]["cpu"] for pod_metrics in answer["items"]]
    return [round(int(quantity.removesuffix("n")) / 1e6) for quantity in quantities]


def test_pods_run_at_once_and_are_ready_after_their_start_up_time(control_plane, namespace):
    control_plane.apply(deployment("web", namespace=namespace, start_up_time="4s"))

    (running,) = wait_until(
        lambda: [pod for pod in pods(control_plane, namespace) if pod["status"]["phase"] == "Running"]
    )
    (ready,) = wait_until(lambda: ready_pods(control_plane, namespace))

    assert "False" == condition(running, "Ready")["status"]
    began, ended = (datetime.fromisoformat(text) for text in (
        ready["status"]["startTime"], condition(ready, "Ready")["lastTransitionTime"],
    ))  # fmt: skip
    # Both are cut to the second, and kwok takes a moment of its own.
    assert 4 <= (ended - began).total_seconds() <= 20


def test_two_pods_share_the_load_in_two_and_three_in_three(control_plane, plant, namespace):
    control_plane.apply(deployment("web", namespace=namespace, replicas=2))
    plant.add_target(namespace, {"app": "web"}, 1.2)

    wait_until(lambda: measured(control_plane, namespace), lambda seen: seen == [600, 600])
    control_plane.kubectl("scale", "deployment/web", "--replicas=3", "--namespace", namespace)

    wait_until(lambda: measured(control_plane, namespace), lambda seen: seen == [400, 400, 400])


@pytest.mark.slow
def test_kubectl_top_and_the_upstream_hpa_read_the_plant(control_plane, plant, namespace):
    """1.5 cores over 1 pod that requests 1 core, target 50 %: 3 pods."""
    control_plane.apply(deployment("web", namespace=namespace, replicas=None))
    plant.add_target(namespace, {"app": "web"}, 1.5)
    wait_until(lambda: measured(control_plane, namespace), lambda seen: seen == [1500])

    top = control_plane.kubectl("top", "pods", "--no-headers", "--namespace", namespace)
    control_plane.apply(horizontal_pod_autoscaler("web", namespace=namespace, cpu_percent=50))
    wait_until(lambda: measured(control_plane, namespace), lambda seen: seen == [500, 500, 500])

    assert "1500m" == top.split()[1]
    hpa = control_plane.get(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/web")
    assert 3 == hpa["status"]["desiredReplicas"]
    reads = Request("system:horizontal-pod-autoscaler", "list", "metrics.k8s.io", "pods")
    assert control_plane.requests()[reads] > 0


def test_the_metrics_api_goes_and_comes_back(control_plane, plant, namespace):
    control_plane.apply(deployment("web", namespace=namespace))
    plant.add_target(namespace, {"app": "web"}, 1.0)
    wait_until(lambda: measured(control_plane, namespace), lambda seen: seen == [1000])

    plant.stop_serving()
    with pytest.raises(ControlPlaneError, match="ServiceUnavailable"):
        control_plane.kubectl("top", "pods", "--namespace", namespace)
    plant.start_serving()

    assert [1000] == wait_until(lambda: measured(control_plane, namespace))


def test_a_fault_reaches_whoever_asks(control_plane, plant, namespace):
    control_plane.apply(deployment("web", namespace=namespace))
    wait_until(lambda: measured(control_plane, namespace))
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"

    with plant.failing(Fault.NAN):
        assert "NaN" == control_plane.get(path)["items"][0]["containers"][0]["usage"]["cpu"]
    with plant.failing(Fault.EMPTY):
        assert [] == control_plane.get(path)["items"]
    with plant.failing(Fault.MALFORMED), pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        control_plane.get(path)
    with plant.failing(Fault.SERVER_ERROR), pytest.raises(ControlPlaneError, match="told to answer so"):
        control_plane.kubectl("get", "--raw", path)


def test_a_service_account_may_do_what_its_roles_say_and_no_more(control_plane, namespace):
    control_plane.kubectl("create", "serviceaccount", "reader", "--namespace", namespace)
    control_plane.kubectl("create", "role", "reader", "--verb=list", "--resource=pods", "--namespace", namespace)
    control_plane.kubectl(
        "create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:reader",
        "--namespace", namespace,
    )  # fmt: skip
    kubeconfig = f"--kubeconfig={control_plane.service_account_kubeconfig(namespace, 'reader')}"

    assert "" == control_plane.kubectl(kubeconfig, "get", "pods", "--namespace", namespace)
    with pytest.raises(ControlPlaneError, match=f"system:serviceaccount:{namespace}:reader.* cannot delete"):
        control_plane.kubectl(kubeconfig, "delete", "pod", "web", "--namespace", namespace)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(number, tmp_path):
    """After SIGKILL the folder is still there, and the next start removes it."""
    program = textwrap.dedent("""
        import time
        from testbed.control_plane import ControlPlane
        with ControlPlane() as plane:
            print(plane.folder, *plane.pids.values(), flush=True)
            time.sleep(600)
    """)
    environment = dict(os.environ) | {"PYTHONPATH": str(PROJECT / "tests"), "TMPDIR": str(tmp_path)}

    def start():
        return subprocess.Popen(
            [sys.executable, "-c", program], env=environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    with start() as process:
        folder, *pids = process.stdout.readline().split()
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        process.send_signal(number)
    wait_until(lambda: [pid for pid in pids if Path(f"/proc/{pid}").exists()], lambda left: left == [])

    if number == signal.SIGKILL:
        with start() as process:
            process.stdout.readline()
            process.terminate()
    assert 5 == len(pids)
    assert not Path(folder).exists()
    assert [] == list(tmp_path.iterdir())


def test_a_component_that_does_not_start_says_why(monkeypatch, tmp_path):
    """Its own last words are in the error, and nothing stays."""
    from testbed import control_plane as module

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    flags = module.ControlPlane.api_server_flags
    monkeypatch.setattr(module.ControlPlane, "api_server_flags", lambda *args: [*flags(*args), "--no-such-flag"])
    began = time.monotonic()

    with pytest.raises(ControlPlaneError, match=r"kube-apiserver ended with 1:[\s\S]*no-such-flag"):
        module.ControlPlane().start()

    assert time.monotonic() - began < 30
    assert [] == list(tmp_path.iterdir())
