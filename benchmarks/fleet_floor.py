"""
The floor under the CPU of a fleet: what the same calls to the API take by themselves, by the operator's own client.

Run by fleet.py (scenario `floor`) under its API server, without an operator. For so many seconds:

- LISTs of the pod metrics of each namespace in turn, decoded and summed by object, evenly spread;
- once a second together: external metrics, each by a query of its own; merge patches of the status of each object in
  number, with the fields of a drift; scale writes; events.

Nothing is watched, decided, rendered, compared or kept. Prints the CPU as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import msgspec

from cronhpa.api.identity import GROUP, KIND, PLURAL, VERSION
from cronhpa.core.model.instant import format_instant
from cronhpa.core.model.spec import ExternalMetric, MetricTarget, ResourceMetric
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.credentials import load_configuration
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.metrics import MetricReader, PodMetricsByName, list_pod_metrics
from cronhpa.operator.writes.writer import StatusAnswer

_AVERAGE = MetricTarget("AverageValue", average_value=1)
_CPU = ResourceMetric("cpu", _AVERAGE)
_SECONDS = 60.0
_PODS = 10
_KINDS = {
    "lists": "list metrics.k8s.io/pods",
    "externals": "get external.metrics.k8s.io",
    "statuses": "patch cronhpas/status",
    "scales": "patch deployments/scale",
    "events": "post events",
}
_DRIFTS = ("metrics", "memory", "columns")


class _Meta(msgspec.Struct):
    name: str
    namespace: str


class _Object(msgspec.Struct):
    metadata: _Meta
    status: dict[str, Any]


class _Answer(msgspec.Struct):
    kind: str = ""


class Calls:
    """Calls for the objects and namespaces in turn."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._objects: list[_Object] = []
        # By namespace the names of pods, an object's together.
        self._pods: dict[str, list[tuple[str, ...]]] = {}
        self._number = itertools.count()

    async def look(self) -> None:
        """Reads the objects."""
        async for raws, _ in self._client.pages(path_of("apis", GROUP, VERSION, PLURAL)):
            self._objects += [msgspec.json.decode(raw, type=_Object) for raw in raws]
        for cron_hpa in self._objects:
            self._pods.setdefault(cron_hpa.metadata.namespace, [])

    async def list_pod_metrics(self, number: int) -> None:
        namespace = [*self._pods][number % len(self._pods)]
        listed = await self._listed(namespace)
        objects = self._pods[namespace]
        if not objects or any(listed.usage(_CPU, names) is None for names in objects):
            # The first list, or pods are gone: so many names in a row count as those of an object.
            names = sorted(listed)
            objects[:] = [(*names[first : first + _PODS],) for first in range(0, len(names), _PODS)]

    async def _listed(self, namespace: str) -> PodMetricsByName:
        listed = await list_pod_metrics(self._client, namespace)
        if not isinstance(listed, PodMetricsByName):
            raise SystemExit(f"no pod metrics of {namespace}: {listed}")
        return listed

    async def read_external(self, number: int) -> None:
        of = self._objects[number % len(self._objects)].metadata
        reader = MetricReader(self._client, Discovery(self._client))
        value = await reader.external(of.namespace, ExternalMetric(f"queue-{of.name}", _AVERAGE))
        if not isinstance(value, int):
            raise SystemExit(f"no external metric for {of.namespace}/{of.name}: {value}")

    async def write_status(self, number: int) -> None:
        of = self._objects[number % len(self._objects)]
        changed = {name: of.status[name] for name in _DRIFTS if name in of.status}
        body = {"status": {**changed, "observedGeneration": next(self._number)}}
        meta = of.metadata
        path = path_of("apis", GROUP, VERSION, "namespaces", meta.namespace, PLURAL, meta.name, "status")
        await self._client.merge_patch(path, body, StatusAnswer)

    async def write_scale(self, number: int) -> None:
        of = self._objects[number % len(self._objects)].metadata
        path = path_of("apis", "apps", "v1", "namespaces", of.namespace, "deployments", of.name, "scale")
        await self._client.merge_patch(path, {"spec": {"replicas": 10 + number % 2}}, _Answer)

    async def write_event(self, number: int) -> None:
        of = self._objects[number % len(self._objects)].metadata
        event = {
            "apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "SuccessfulRescale",
            "metadata": {"name": f"{of.name}.{next(self._number):x}", "namespace": of.namespace},
            "message": "New size: 12; reason: cpu resource utilization above target (67 % of 60 %)", "count": 1,
            "firstTimestamp": format_instant(time.time_ns()), "lastTimestamp": format_instant(time.time_ns()),
            "involvedObject": {"kind": KIND, "namespace": of.namespace, "name": of.name},
            "source": {"component": "cronhpa"},
        }  # fmt: skip
        await self._client.post(path_of("api", "v1", "namespaces", of.namespace, "events"), event)


async def spread(call: Callable[[int], Coroutine[Any, Any, None]], count: int, seconds: float, bursts: int) -> None:
    """Calls so many times, in evenly spread bursts: calls that begin together share passes of the event loop."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.TaskGroup() as calls:
        for burst in range(bursts):
            await asyncio.sleep(begun + seconds * burst / bursts - loop.time())
            for number in range(count * burst // bursts, count * (burst + 1) // bursts):
                calls.create_task(call(number))


async def measured(options: argparse.Namespace) -> dict[str, Any]:
    async with Client(load_configuration(options.kubeconfig)) as client:
        calls = Calls(client)
        await calls.look()
        before, begun = time.process_time(), time.monotonic()
        async with asyncio.TaskGroup() as kinds:
            for call, count in (
                (calls.read_external, options.externals),
                (calls.write_status, options.statuses),
                (calls.write_scale, options.scales),
                (calls.write_event, options.events),
            ):
                kinds.create_task(spread(call, count, options.seconds, round(options.seconds)))
            kinds.create_task(spread(calls.list_pod_metrics, options.lists, options.seconds, max(options.lists, 1)))
        seconds = time.monotonic() - begun
        cpu = time.process_time() - before
    return {"cpu_seconds": cpu, "seconds": seconds, "cpu_percent_of_a_core": 100 * cpu / seconds}


def floor_of(calls: Mapping[str, int], seconds: float, kubeconfig: Path) -> float:
    """Percent of a core that a process takes for calls at this rate. calls: by verb and resource, in these seconds."""
    command = [sys.executable, __file__, "--kubeconfig", str(kubeconfig), "--seconds", f"{_SECONDS:.0f}"]
    for name, kind in _KINDS.items():
        command += [f"--{name}", f"{calls.get(kind, 0) * _SECONDS / seconds:.0f}"]
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return round(float(told["cpu_percent_of_a_core"]), 2)


def main() -> int:
    parser = argparse.ArgumentParser(description="The CPU of calls to the API of a fleet, without an operator.")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    for name in _KINDS:
        parser.add_argument(f"--{name}", type=int, default=0, help="how many of them in these seconds")
    print(json.dumps(asyncio.run(measured(parser.parse_args()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
