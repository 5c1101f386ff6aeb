"""
Each command of each page, run in its order on a real API server with the real helm, kubectl and operator.

The operator runs beside the control plane; kwok leads the ports of its pod there, and runs there what kubectl executes.
testbed/documented.py says which commands are run elsewhere; the tutorial has a test of its own, test_tutorial.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.control_plane import CHART, ControlPlane
from testbed.documented import PAGES, PROJECT, commands, is_followed
from testbed.objects import deployment, horizontal_pod_autoscaler
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.plant import Plant
from testbed.wait import wait_until

pytestmark = pytest.mark.long

FOLLOWED = {
    str(page.relative_to(PROJECT)): followed
    for page in PAGES
    if page.name != "tutorial.md" and (followed := [command for command in commands(page) if is_followed(command)])
}
CALENDAR = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//a reader//
BEGIN:VEVENT
UID:1
DTSTART;VALUE=DATE:20261224
SUMMARY:Closed
END:VEVENT
END:VCALENDAR
"""
# What a reader puts in place of a word, and what here takes the place of a past, of a port, and of process 1.
STANDS_FOR = (
    (r"\bNAMESPACE\b", "prod"),
    (r"\bNAME\b", "shop"),
    (r"\bSERVICEACCOUNT\b", "reader"),
    (r"\bFILE\b", "shop.yaml"),
    (r"--reason \.\.\.", "--reason INC-4711"),
    (r"\b(YOUR|REGISTRY)/cronhpa", "localhost/cronhpa"),
    (r"helm install cronhpa \.", "helm install cronhpa deploy/chart"),
    # From the first release on: deploy/published_pages.py.
    (r"oci://ghcr\.io/cronhpa/charts/cronhpa", "deploy/chart"),
    (r"(override shop) --min 30 --above-max", r"\1 -n prod --min 30 --above-max"),
    (r"chpa/shop --for|chpa shop -o wide", r"-n prod \g<0>"),
    (r'--at "(yesterday )?08:02"', "--at now"),
    (r'--from "(yesterday 06:00|last tuesday)"( --to 8h)?', '--from "1h ago"'),
    (r"pod/cronhpa-0 8083", "pod/cronhpa-0 :8083"),
    (r"adopt shop -n prod", "adopt shop -n prod --watch 4 --timeout 60"),
    (r"cronhpa backtest shop -n prod", r"\g<0> --pod-request cpu=1 --history load.csv --to 1h"),
)
# Exit codes that say what was found: a difference, and an object that needs a person.
FOUND = {"cronhpa preview --diff": 1, "cronhpa status": 3}
INSTALL = f"helm install cronhpa deploy/chart --namespace {NAMESPACE}"
MANIFEST = {
    "apiVersion": "cronhpa.io/v1alpha1",
    "kind": "CronHPA",
    "metadata": {"name": "shop", "namespace": "prod"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
        "minReplicas": 2,
        "maxReplicas": 60,
        "syncPeriodSeconds": 1,
        "cpuInitializationPeriodSeconds": 0,
        "initialReadinessDelaySeconds": 0,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
            }
        ],
        "schedules": [{"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 3}],
    },
}
SCALED_OBJECT = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "queue", "namespace": "prod"},
    "spec": {
        "scaleTargetRef": {"name": "queue"},
        "triggers": [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}],
    },
}
SOURCES = """sources:
  inflight:
    pods: {port: metrics, metric: http_requests_in_flight}
"""


def of_the_pod(kind, **spec):
    """Plays the kubelet of the operator's first pod, as kwok does."""
    meta = {"name": "cronhpa-0", "namespace": NAMESPACE}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class World:
    """A cluster as the pages presuppose it: metrics, the release, a shop in prod under a load."""

    def __init__(self, plane, operator, folder):
        self.plane, self.operator, self.folder = plane, operator, folder
        kubeconfig = yaml.safe_load(plane.service_account_kubeconfig("default", "platform").read_text())
        (context,) = kubeconfig["contexts"]
        kubeconfig["contexts"].append({"name": "prod", "context": {**context["context"], "namespace": "prod"}})
        (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        homes = {f"HELM_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        self.environment = os.environ | homes | {
            "PATH": f"{plane.binaries}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(folder / "kubeconfig"),
            "CRONHPA_STORE": str(folder / "copied.db"),
        }  # fmt: skip

    def told(self, command, *accepted, cwd=None):
        """What a command prints. Raises AssertionError with its words where it ends with another code."""
        ended = subprocess.run(
            ["bash", "-ec", command], cwd=cwd or self.folder, env=self.environment, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        assert ended.returncode in (0, *accepted), f"{command}: {ended.returncode}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def forwarded(self, command):
        """Starts what forwards a port, asks at that port, and ends it."""
        with subprocess.Popen(
            ["bash", "-c", f"exec {command}"], env=self.environment, text=True, stdout=subprocess.PIPE
        ) as it:
            try:
                port = re.search(r"127\.0\.0\.1:(\d+)", it.stdout.readline())[1]
                return self.told(f"curl -sf http://127.0.0.1:{port}/")
            finally:
                it.send_signal(signal.SIGTERM)

    def installed(self, command):
        """What a first installation says. The operator's account is another one afterwards."""
        self.operator.kill()
        self.told(f"helm uninstall cronhpa --namespace {NAMESPACE}")
        said = self.told(command, cwd=PROJECT)
        self.told(f"kubectl -n {NAMESPACE} rollout status statefulset/cronhpa --timeout 60s")
        self.plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
        self.operator.start()
        return said

    def as_before(self):
        """The shop is decided on again, by a CronHPA alone; nothing else is left of another page."""
        self.told("kubectl delete hpa,chpa --all -n prod; kubectl delete chpa --all -n default")
        self.plane.apply(MANIFEST, horizontal_pod_autoscaler("web", namespace="prod"))
        wait_until(lambda: self.told("kubectl get chpa shop -n prod"), lambda shown: "Deciding" in shown, within_s=60)

    def run(self, command, folder):
        if "helm install cronhpa " in command:
            return self.installed(command)
        if "helm uninstall cronhpa " in command:
            return self.installed(INSTALL)
        if "cronhpa adopt shop" in command and "--back" not in command:  # what is adopted is an HPA
            self.told("kubectl delete chpa shop -n prod")
            self.plane.apply(horizontal_pod_autoscaler("shop", namespace="prod", cpu_percent=60, bounds=(2, 60)))
        if "kubectl logs" in command:  # as a kubelet keeps them
            lines = self.operator.log.read_text().splitlines()
            (self.folder / "pod.log").write_text("".join(f"2026-11-22T08:00:00Z stderr F {line}\n" for line in lines))
        if "port-forward" in command:
            return self.forwarded(command)
        if "os.kill(1, " in command:
            command = command.replace("os.kill(1, ", f"os.kill({self.operator.pid}, ")
        return self.told(command, *(code for words, code in FOUND.items() if words in command), cwd=folder)


@contextlib.contextmanager
def on_the_path(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    ports = {8082: free_port(), 8083: free_port()}
    forwards = [{"ports": [port], "target": {"address": "127.0.0.1", "port": own}} for port, own in ports.items()]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = [
        {"name": "CRONHPA_STORE", "value": str(folder / "history.db")},
        {"name": "PATH", "value": path},
    ]
    kubelet = (
        of_the_pod("PortForward", forwards=forwards),
        of_the_pod("Exec", execs=[{"local": {"workDir": str(folder), "envs": environment}}]),
        {**of_the_pod("ClusterLogs", logs=[{"logsFile": str(folder / "pod.log")}]), "metadata": {"name": "all"}},
    )
    with (
        on_the_path(path),  # kwok looks there for what kubectl executes
        ControlPlane(kubelet=kubelet, hpa=True, hpa_sync_period="2s") as plane,
        Plant(plane.admin_kubeconfig, window=10**9, delay=2 * 10**8) as plant,
    ):
        for name in (NAMESPACE, "prod", "argocd"):
            plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        # What a cluster's storage does with the claims of the chart.
        for number in range(2):
            bind(plane, f"history-cronhpa-{number}")
        for namespace, name, role in (("default", "platform", "cluster-admin"), ("prod", "reader", "view")):
            account = {"name": name, "namespace": namespace}
            plane.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
            plane.kubectl(
                "create", "clusterrolebinding", name, f"--clusterrole={role}", f"--serviceaccount={namespace}:{name}"
            )
        for kind in ("ServiceMonitor", "PrometheusRule"):
            plane.apply(kind_of_the_prometheus_operator(kind))
        plane.create("/apis/apps/v1/namespaces/prod/deployments", [deployment("shop", namespace="prod", replicas=2)])
        plant.add_target("prod", {"app": "shop"}, 1.1)
        plant.add_target(NAMESPACE, {"app.kubernetes.io/name": "cronhpa"}, 0.1)
        # The release makes the account that the operator runs as.
        helm = {f"HELM_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        subprocess.run(
            [plane.binaries / "helm", "install", "cronhpa", CHART, "--namespace", NAMESPACE],
            env=os.environ | helm | {"KUBECONFIG": str(plane.admin_kubeconfig)}, check=True, capture_output=True,
        )  # fmt: skip
        settings: dict[str, Any] = {
            "history_port": str(ports[8082]),
            "page_port": str(ports[8083]),
            "leader_elect_identity": "cronhpa-0",
        }
        own = plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
        with Operator(own, folder, **settings) as operator:
            made = World(plane, operator, folder)
            made.as_before()
            time.sleep(7)  # the operator writes what it decided every five seconds
            yield made


def bind(plane, name):
    claim = {"namespace": NAMESPACE, "name": name}
    volume = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}, "volumeName": name}
    plane.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": volume,
         "metadata": {**claim, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
         "spec": {"capacity": {"storage": "4Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": claim,
                  "hostPath": {"path": "/nowhere"}}},
    )  # fmt: skip
    for kind, where in (("pvc", ["-n", NAMESPACE]), ("pv", [])):
        plane.kubectl(
            "patch", kind, name, *where, "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Bound"}}'
        )


def kind_of_the_prometheus_operator(kind):
    plural = f"{kind.lower()}s"
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture
def folder(tmp_path, world):
    """A reader's own files: manifests, in a repository as well, a load, values."""
    (world.folder / "copied.db").unlink(missing_ok=True)
    for name in ("crds", "benchmarks"):
        (tmp_path / name).symlink_to(PROJECT / name)
    (tmp_path / "deploy").mkdir()
    for name in ("chart", "argocd"):
        (tmp_path / "deploy" / name).symlink_to(PROJECT / "deploy" / name)
    changed = json.loads(json.dumps(MANIFEST))
    changed["spec"]["maxReplicas"] = 90
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    for name, content in (
        ("shop.yaml", MANIFEST), ("old/shop.yaml", MANIFEST), ("new/shop.yaml", changed),
        ("deploy/shop.yaml", MANIFEST),
        ("scaledobject.yaml", SCALED_OBJECT), ("values.yaml", {"replicas": 2}),
        ("hpa.yaml", horizontal_pod_autoscaler("web", namespace="prod")),
    ):  # fmt: skip
        (tmp_path / name).write_text(yaml.safe_dump(content))
    (tmp_path / "sources.yaml").write_text(SOURCES)
    for name in ("company.ics", "download.ics"):
        (tmp_path / name).write_text(CALENDAR)
    began = int(time.time()) // 60 * 60 - 3 * 86_400
    rows = [
        f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(began + 60 * n))},{1 + n % 1440 / 720:.3f}"
        for n in range(4320)
    ]
    (tmp_path / "load.csv").write_text("\n".join(["timestamp,value", *rows, ""]))
    world.told(
        "git init -q -b main && git add shop.yaml && git -c user.name=a -c user.email=a@b commit -qm shop"
        " && cronhpa history import prod/shop load.csv --store history.db"
        f" && cronhpa history import prod/shop load.csv --store {world.operator.store}",
        cwd=tmp_path,
    )
    return tmp_path


@pytest.mark.parametrize("page", FOLLOWED)
def test_each_command_of_the_page_ends_well(world, folder, page):
    world.as_before()
    for command in FOLLOWED[page]:
        text = command.text
        for pattern, standing in STANDS_FOR:
            text = re.sub(pattern, standing, text)
        world.run(text, folder)
    for name in re.findall(r"--picture (\S+)", " ".join(command.text for command in FOLLOWED[page])):
        assert (folder / name).stat().st_size > 1000
