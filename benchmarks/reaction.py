"""
`make bench-reaction`: from a step of the load to the first scale write, of 200 objects at once.

BENCH_OBJECTS=40: fewer. BENCH_GROUPS=pods,upstream: not all five. BENCH_NAMESPACES=1: not ten.

One run on one machine, on the control plane of the testbed: pods asked each second, a real Prometheus asked each
second, the External API of an adapter each 15 s as by default, the upstream HPA with the same adapter, and the upstream
HPA on CPU behind a metrics-server that asks each 15 s and answers with what is 10 s old. Each group has its step in
reconciliation. No delay of an adapter is in it: the testbed's answers with what is true at that moment. What makes pods
of a scale write stands still meanwhile.

Then what the machine can do: the same scale writes at one instant from a bare client that decides nothing.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import ssl
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from cronhpa.core.model.instant import SECOND
from testbed.control_plane import ControlPlane
from testbed.loads import Constant, Trace
from testbed.objects import deployment, horizontal_pod_autoscaler
from testbed.operator import NAMESPACE as SYSTEM
from testbed.operator import SERVICE_ACCOUNT, Operator
from testbed.plant import Plant
from testbed.pod_pages import INGRESS_METRIC, METRIC, PodPages
from testbed.prometheus_server import PrometheusServer
from testbed.usage import cpu_seconds
from testbed.wait import wait_until
from testbed.world import Target

OBJECTS = int(os.environ.get("BENCH_OBJECTS") or 200)
# The reconciliations of a namespace share a phase: ten namespaces meet the step at ten of them.
NAMESPACES = int(os.environ.get("BENCH_NAMESPACES") or 10)
BEFORE, AFTER, TARGET = 12.0, 28.0, 8
# 12 / 8 = 1.5: two pods; 28 / 8 = 3.5: four.
PODS_BEFORE, PODS_AFTER = 2, 4
# A core of a pod is busy with ten requests, and a pod may use 80 % of it: the same counts.
IN_FLIGHT_A_CORE = 10
CONNECTIONS = 16
NETWORK = "127.64.0.0/10"
IDLE_S = 10.0
GOAL_S = 2.0


@dataclass
class Group:
    """
    key: what its objects are called after. period: of their reconciliations, in seconds. watched, settled: for how many
    seconds after the step, and before.

    cores, queries: of the operator before the step, a second; of Prometheus queries alone.
    """

    key: str
    label: str
    metric: dict[str, Any]
    period: int | None
    watched: float
    settled: float = 20.0
    is_upstream: bool = False
    step: float = 0.0
    cores: float = 0.0
    queries: float = 0.0
    reactions: dict[tuple[str, str], float] = field(default_factory=dict)
    targets: dict[tuple[str, str], Target] = field(default_factory=dict)

    @property
    def plural(self) -> str:
        return "horizontalpodautoscalers" if self.is_upstream else "cronhpas"

    @property
    def api(self) -> str:
        return "/apis/autoscaling/v2" if self.is_upstream else "/apis/cronhpa.io/v1alpha1"

    @property
    def objects(self) -> list[tuple[str, str]]:
        return [(f"{self.key}-{number % NAMESPACES}", f"{self.key}-{number}") for number in range(OBJECTS)]

    def autoscaler(self, namespace: str, name: str) -> dict[str, Any]:
        metric = json.loads(json.dumps(self.metric).replace("NAME", name))
        hpa = horizontal_pod_autoscaler(name, namespace=namespace, bounds=(1, 10), metrics=[metric])
        if self.is_upstream:
            return hpa
        period = {} if self.period is None else {"syncPeriodSeconds": self.period}
        meta = {"name": name, "namespace": namespace}
        return {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "metadata": meta, "spec": hpa["spec"] | period}


def metric(kind: str, name: str, selector: dict[str, str] | None = None) -> dict[str, Any]:
    stated: dict[str, Any] = {"name": name}
    if selector:
        stated["selector"] = {"matchLabels": selector}
    return {
        "type": kind,
        kind.lower(): {"metric": stated, "target": {"type": "AverageValue", "averageValue": str(TARGET)}},
    }


ADAPTER = metric("External", "load", {"app": "NAME"})
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
GROUPS = (
    Group("pods", "CronHPA, pods asked, 1 s", metric("Pods", "inflight"), 1, 15),
    Group("prometheus", "CronHPA, one query of Prometheus, 1 s", metric("External", "requests"), 1, 15),
    Group("adapter", "CronHPA, External API, 15 s", ADAPTER, None, 30),
    Group("upstream", "upstream HPA, External API, 15 s", ADAPTER, None, 30, is_upstream=True),
    Group("resource", "upstream HPA, CPU by metrics-server", CPU, None, 60, settled=60, is_upstream=True),
)
_KEYS = {group.key for group in GROUPS}
_ASKED = set(filter(None, os.environ.get("BENCH_GROUPS", "").split(","))) or _KEYS
if unknown := _ASKED - _KEYS:
    sys.exit(f"BENCH_GROUPS: {', '.join(sorted(unknown))}: accepted are {', '.join(group.key for group in GROUPS)}")
MEASURED = [group for group in GROUPS if group.key in _ASKED]


class ReplicaWatch:
    """When .spec.replicas of a Deployment first rose above what it began with, by (namespace, name)."""

    def __init__(self, plane: ControlPlane) -> None:
        self.rose: dict[tuple[str, str], float] = {}
        url = f"{plane.url}/apis/apps/v1/deployments?watch=1"
        self._request = urllib.request.Request(url, headers={"Authorization": f"Bearer {plane.admin_token}"})
        self._tls = ssl.create_default_context(cafile=str(plane.ca_file))
        threading.Thread(target=self._read, daemon=True, name="watch of Deployments").start()

    def _read(self) -> None:
        while True:
            # The API server ends a watch that is read too slowly. A new one begins with what is there.
            with suppress(OSError, ValueError), urllib.request.urlopen(self._request, context=self._tls) as lines:
                for line in lines:
                    self._note(json.loads(line)["object"], time.time())
            time.sleep(0.05)

    def _note(self, body: dict[str, Any], now: float) -> None:
        if body["spec"]["replicas"] > PODS_BEFORE:
            self.rose.setdefault((body["metadata"]["namespace"], body["metadata"]["name"]), now)


def percentile(values: list[float], percent: int) -> float:
    """Of all objects: one without a scale write took longer than any other."""
    ranked = [*sorted(values), *[math.inf] * (OBJECTS - len(values))]
    return ranked[-(-OBJECTS * percent // 100) - 1]


def sources(port: int, prometheus: str) -> dict[str, Any]:
    joined = {"namespace": "namespace", "target": "deployment"}
    return {
        "sources": {
            "inflight": {"pods": {"port": port, "metric": METRIC, "podNetworks": [NETWORK]}},
            "requests": {
                "prometheus": {"url": prometheus, "query": INGRESS_METRIC, "join": joined, "maxAgeSeconds": 10}
            },
        }
    }


def stands(group: Group, plane: ControlPlane, plant: Plant, pages: PodPages) -> None:
    """The Deployments of a group with their pods, at the load before; then its autoscalers."""
    spaces = sorted({namespace for namespace, _ in group.objects})
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}} for space in spaces]
    plane.create("/api/v1/namespaces", made)
    for namespace, name in group.objects:
        pages.loads[namespace, name] = Constant(BEFORE)
        if group.metric is ADAPTER:
            plant.set_external_metric(namespace, "load", BEFORE, series={"app": name})
        if group.metric is CPU:
            load = BEFORE / IN_FLIGHT_A_CORE
            group.targets[namespace, name] = plant.add_target(namespace, {"app": name}, load)
    for space in spaces:
        mine = [name for namespace, name in group.objects if namespace == space]
        documents = [deployment(name, namespace=space, replicas=PODS_BEFORE) for name in mine]
        plane.create(f"/apis/apps/v1/namespaces/{space}/deployments", documents)

    def ready() -> int:
        return sum(pod.ready and pod.namespace in spaces for pod in plant.seen_pods())

    wait_until(lambda: ready() == PODS_BEFORE * OBJECTS, within_s=600, every_s=2)
    for space in spaces:
        autoscalers = [group.autoscaler(space, name) for namespace, name in group.objects if namespace == space]
        plane.create(f"{group.api}/namespaces/{space}/{group.plural}", autoscalers)


def step(group: Group, plant: Plant, pages: PodPages) -> None:
    """The load of all objects of a group rises at one instant, two seconds from now."""
    at = time.time_ns() + 2 * SECOND
    load = Trace((at - 1, at), (BEFORE, AFTER))
    for namespace, name in group.objects:
        pages.loads[namespace, name] = load
        if group.metric is ADAPTER:
            plant.set_external_metric(namespace, "load", load, series={"app": name})
        if group.metric is CPU:
            cores = Trace(load.instants, [value / IN_FLIGHT_A_CORE for value in load.values])
            plant.set_load(group.targets[namespace, name], cores)
    group.step = at / SECOND


@contextmanager
def standing_still(plane: ControlPlane) -> Iterator[None]:
    """No pod follows a scale write: on one machine pods would take the cores of the writes that are to come."""
    pids = [plane.pids[name] for name in ("kube-controller-manager", "kube-scheduler", "kwok")]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def requests_of(operator: Operator, source: str) -> float:
    line = next(
        sample for sample in operator.get("/metrics").splitlines() if f'requests_total{{source="{source}"}}' in sample
    )
    return float(line.split()[-1])


def measure(
    group: Group, plane: ControlPlane, plant: Plant, pages: PodPages, operator: Operator, watch: ReplicaWatch
) -> None:
    """One group from its first pod to the end of its step; nobody looks at its objects after that."""
    stands(group, plane, plant, pages)
    time.sleep(group.settled)
    cpu, asked, begun = cpu_seconds(operator.pid), requests_of(operator, "requests"), time.time()
    time.sleep(IDLE_S)
    elapsed = time.time() - begun
    group.cores = (cpu_seconds(operator.pid) - cpu) / elapsed
    group.queries = (requests_of(operator, "requests") - asked) / elapsed
    step(group, plant, pages)
    with standing_still(plane):
        time.sleep(max(0.0, group.step + group.watched - time.time()))
    group.reactions = {key: watch.rose[key] - group.step for key in group.objects if key in watch.rose}
    for space in sorted({namespace for namespace, _ in group.objects}):
        plane.kubectl("delete", group.plural, "--all", "-n", space, "--wait=false")


async def bare(plane: ControlPlane, group: Group) -> list[float]:
    """Seconds until each scale write of a group was answered, all of them sent at once by a client of its own."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(plane.ca_file)), limit=CONNECTIONS)
    headers = {"Authorization": f"Bearer {plane.admin_token}", "Content-Type": "application/merge-patch+json"}
    body = json.dumps({"spec": {"replicas": PODS_AFTER + 1}})
    async with aiohttp.ClientSession(connector=connector, headers=headers, raise_for_status=True) as session:
        begun = time.monotonic()

        async def write(namespace: str, name: str) -> float:
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"
            async with session.patch(plane.url + path, data=body) as answer:
                await answer.read()
            return time.monotonic() - begun

        return await asyncio.gather(*(write(*key) for key in group.objects))


def main() -> int:
    with (
        tempfile.TemporaryDirectory(prefix="cronhpa-reaction-") as folder,
        ControlPlane(hpa=True, pod_network=NETWORK, nodes=10) as plane,
        Plant(plane.admin_kubeconfig) as plant,
        PodPages(plant) as pages,
        PrometheusServer({"ingress": f"127.0.0.1:{pages.port}"}) as prometheus,
    ):
        plane.install_chart()
        file = Path(folder) / "sources.yaml"
        file.write_text(yaml.safe_dump(sources(pages.port, prometheus.url)))
        kubeconfig = plane.service_account_kubeconfig(SYSTEM, SERVICE_ACCOUNT)
        with Operator(kubeconfig, Path(folder), sources=str(file)) as operator:
            watch = ReplicaWatch(plane)
            for group in MEASURED:
                measure(group, plane, plant, pages, operator, watch)
            with standing_still(plane):
                time.sleep(IDLE_S)
                floor = asyncio.run(bare(plane, MEASURED[-1]))
    print(f"from a step of the load to the first scale write, {OBJECTS} objects at once, seconds:")
    print(f"  {'':40} {'p50':>6} {'p99':>6} {'worst':>6} {'operator, cores':>16} {'queries/s':>10}")
    for group in MEASURED:
        reactions = list(group.reactions.values())
        missing = f"  ({OBJECTS - len(reactions)} not within {group.watched:.0f} s)" if len(reactions) < OBJECTS else ""
        cells = " ".join(f"{percentile(reactions, percent):6.1f}" for percent in (50, 99, 100))
        print(f"  {group.label:40} {cells} {group.cores:16.2f} {group.queries:10.2f}{missing}")
    cells = " ".join(f"{percentile(floor, percent):6.1f}" for percent in (50, 99, 100))
    print(f"  {f'the scale writes alone, {CONNECTIONS} connections':40} {cells}")
    print(f"load average: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if GROUPS[0] not in MEASURED:
        return 0
    good = percentile(list(GROUPS[0].reactions.values()), 99) <= GOAL_S
    print(f"goal: p99 of the pods' own numbers within {GOAL_S:.0f} s: {'met' if good else 'missed'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
