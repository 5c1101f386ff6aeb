"""
The API server of the benchmark of a fleet, a process of its own: its CPU is not the operator's.

Over TLS, as a real one: lists in pages, watches with bookmarks, scale, status and event writes that take 5 ms each,
metrics.k8s.io, discovery. Requests are counted by verb and resource. /fleet is for the benchmark alone: GET answers
the counts, POST changes the load.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import ssl
import time
from collections import Counter
from pathlib import Path
from typing import Any

import trustme
from aiohttp import web
from fleet_cluster import EVENTS, FleetCluster
from fleet_objects import Deployment, rendered_list, stamp

WRITE_S = 0.005
BOOKMARK_S = 50.0
# A page of a list stays available this long, as long as etcd keeps its old versions.
_SNAPSHOTS = 64
_WATCH_BYTES = 2**20
_KINDS = {
    "/apis/cronhpa.io/v1alpha1": {
        "cronhpas": "CronHPA", "plannedevents": "PlannedEvent", EVENTS: "ClusterPlannedEvent",
    },
    "/apis/apps/v1": {
        "deployments": "Deployment", "statefulsets": "StatefulSet", "replicasets": "ReplicaSet",
    },
    "/apis/autoscaling/v2": {"horizontalpodautoscalers": "HorizontalPodAutoscaler"},
    # kopf waits for the kinds of namespaces and custom resource definitions before it watches any other.
    "/api/v1": {
        "pods": "Pod", "events": "Event", "replicationcontrollers": "ReplicationController", "namespaces": "Namespace",
    },
    "/apis/apiextensions.k8s.io/v1": {"customresourcedefinitions": "CustomResourceDefinition"},
}  # fmt: skip
_METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/"
_EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces/"
# Of an external metric a pod is to have so much.
_QUEUED = 10
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/"


class Api:
    """calls: requests by verb and resource. reported: the uids of objects with a status."""

    def __init__(self, cluster: FleetCluster) -> None:
        self.cluster = cluster
        self.calls: Counter[str] = Counter()
        self.reported: set[str] = set()
        self._snapshots: dict[str, tuple[tuple[Any, ...], int]] = {}
        self._tokens = itertools.count(1)
        self._leases: dict[str, dict[str, Any]] = {}
        self._moves: asyncio.Task[None] | None = None

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        path, method = request.path, request.method
        if path == "/fleet":
            return await self._control(request)
        if path.startswith(_METRICS):
            self.calls["list metrics.k8s.io/pods"] += 1
            answer = self.cluster.pod_metrics(path[len(_METRICS) :].partition("/")[0])
            return web.Response(body=answer, content_type="application/json")
        if path.startswith(_EXTERNAL):
            self.calls["get external.metrics.k8s.io"] += 1
            return _external(path.rpartition("/")[2], self.cluster.pods * _QUEUED)
        if path.startswith(_LEASES):
            self.calls[f"{method.lower()} leases"] += 1
            return self._lease(method, path, await request.json() if method != "GET" else {})
        plural, namespace, name, below = parsed(path)
        if plural is None:
            self.calls["discovery"] += 1
            return _discovered(path)
        kind = "/".join(filter(None, (plural, below)))
        if method == "GET" and name is None:
            if request.query.get("watch") in {"1", "true"}:
                self.calls[f"watch {kind}"] += 1
                return await self._watch(request, plural, namespace)
            self.calls[f"list {kind}"] += 1
            return self._list(request, plural, namespace)
        self.calls[f"{method.lower()} {kind}"] += 1
        if method == "GET":
            return self._get(plural, namespace, name, below)
        body = await request.json()
        await asyncio.sleep(WRITE_S)
        return self._write(plural, namespace, name, below, body)

    def _list(self, request: web.BaseRequest, plural: str, namespace: str) -> web.Response:
        going = request.query.get("continue", "")
        token, _, first_text = going.partition("-")
        first = int(first_text or 0)
        if going:
            items, version = self._snapshots[token]
        else:
            items = self.cluster.listed(plural, namespace) if plural in self.cluster.objects else ()
            version, token = self.cluster.version, f"{next(self._tokens)}"
        limit = int(request.query.get("limit", 0)) or len(items)
        going = f"{token}-{first + limit}" if first + limit < len(items) else ""
        if going:
            self._snapshots[token] = (items, version)
            while len(self._snapshots) > _SNAPSHOTS:
                del self._snapshots[next(iter(self._snapshots))]
        return web.Response(
            body=rendered_list(items[first : first + limit], version, going), content_type="application/json"
        )

    async def _watch(self, request: web.BaseRequest, plural: str, namespace: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        cluster = self.cluster
        if plural not in cluster.objects:
            await asyncio.sleep(300)
            return response
        watcher = cluster.watch(plural, namespace, int(request.query.get("resourceVersion") or 0))
        if watcher is None:
            gone = {
                "type": "ERROR",
                "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
            }
            await response.write(json.dumps(gone).encode() + b"\n")
            return response
        try:
            while True:
                try:
                    async with asyncio.timeout(BOOKMARK_S):
                        await watcher.has_lines.wait()
                except TimeoutError:
                    meta = {"metadata": {"resourceVersion": str(cluster.version)}}
                    watcher.put(json.dumps({"type": "BOOKMARK", "object": meta}).encode() + b"\n")
                lines, watcher.lines = watcher.lines, []
                watcher.has_lines.clear()
                for first in range(0, len(lines), 100):
                    await response.write(b"".join(lines[first : first + 100]))
        except ConnectionResetError:
            return response  # whoever watched is gone
        finally:
            cluster.unwatch(plural, watcher)

    def _get(self, plural: str, namespace: str, name: str, below: str) -> web.Response:
        resource = self.cluster.objects.get(plural, {}).get((namespace, name))
        if resource is None:
            return refusal(404, "NotFound", f'{plural} "{name}" not found')
        if below == "scale":
            return web.json_response(resource.scale())
        return web.Response(text=resource.rendered(), content_type="application/json")

    def _write(self, plural: str, namespace: str, name: str | None, below: str, body: Any) -> web.Response:
        if plural == "events":
            self.calls[f"event {body.get('reason', 'repeated')}"] += 1
            return web.json_response(body, status=201)
        resource = self.cluster.objects[plural].get((namespace, name))
        if resource is None:
            return refusal(404, "NotFound", f'{plural} "{name}" not found')
        meta = body.get("metadata", {})
        if isinstance(resource, Deployment):
            assert below == "scale"
            scaled = self.cluster.scale(namespace, name or "", meta.get("resourceVersion"), body["spec"]["replicas"])
            if scaled is None:
                self.calls["conflicts"] += 1
                return refusal(409, "Conflict", "the object has been modified")
            return web.json_response(scaled.scale())
        if plural == EVENTS:
            return web.json_response(self.cluster.patch("", name or "", {"status": body["status"]}, EVENTS))
        if "conditions" in body["status"]:  # else it only names the operator that serves the object
            self.reported.add(resource.body["metadata"]["uid"])
        return web.json_response(self.cluster.patch(namespace, name or "", {"status": body["status"]}))

    def _lease(self, method: str, path: str, body: dict[str, Any]) -> web.Response:
        """One replica elects itself: a Lease is created once, read and replaced."""
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
        if method != "GET":
            self.cluster.version += 1
            body["metadata"]["resourceVersion"] = str(self.cluster.version)
            self._leases[path] = body
        lease = self._leases.get(path)
        if lease is None:
            return refusal(404, "NotFound", f"leases {path} not found")
        return web.json_response(lease, status=201 if method == "POST" else 200)

    async def _control(self, request: web.BaseRequest) -> web.Response:
        if request.method == "POST":
            order = await request.json()
            if self._moves is not None:
                self._moves.cancel()
                self._moves = None
            self.cluster.load = order.get("load", "idle")
            if order.get("load") == "scaling":
                self._moves = asyncio.create_task(self._scale_loads(order["percent_a_minute"]))
            if "edge" in order:
                self._moves = asyncio.create_task(self._add_edge(order["edge"], order["ends"]))
            if "event_edge" in order:
                self._moves = asyncio.create_task(self._put_events(order["events"], order["event_edge"], order["ends"]))
        cluster = self.cluster
        return web.json_response(
            {
                "calls": dict(self.calls),
                "watch_events": dict(cluster.events),
                "reported": len(self.reported),
                "scalings": cluster.scalings if request.query.get("scalings") else len(cluster.scalings),
                "ready": cluster.ready if request.query.get("scalings") else len(cluster.ready),
                "edited": self._moves is None or self._moves.done(),
            }
        )

    async def _scale_loads(self, percent_a_minute: int) -> None:
        """Every minute so many percent of the objects get another load: even ones 30 % more, odd ones 25 % less."""
        begun, done = time.monotonic(), 0
        while True:
            await asyncio.sleep(1)
            wanted = int((time.monotonic() - begun) / 60 * percent_a_minute / 100 * self.cluster.size)
            for moved in range(done, wanted):
                # Not one after the other: those of one namespace would scale together.
                number = moved * 7919 % self.cluster.size
                moves = 1.3 if number % 2 == 0 else 0.75
                self.cluster.factors[number] = 1.0 if self.cluster.factors[number] != 1.0 else moves
            done = wanted

    async def _add_edge(self, edge: str, ends: str) -> None:
        """Gives every object a window from `edge` on: four of five up by 2, one of five down by 2."""
        pods = self.cluster.pods
        for number, (namespace, name) in enumerate(tuple(self.cluster.objects["cronhpas"])):
            bound = {"maxReplicas": pods - 2} if number % 5 == 4 else {"minReplicas": pods + 2}
            window = {"name": "edge", "from": edge, "to": ends, "timeZone": "UTC", **bound}
            self.cluster.patch(namespace, name, {"spec": {"schedules": [window]}})
            if number % 20 == 19:
                await asyncio.sleep(0.05)

    async def _put_events(self, events: int, edge: str, ends: str) -> None:
        """As `_add_edge`, by so many planned events, each of which picks its part of the objects."""
        pods = self.cluster.pods
        for number in range(events):
            bound = {"maxReplicas": pods - 2} if number % 5 == 4 else {"minReplicas": pods + 2}
            self.cluster.put_event(
                f"event-{number}",
                {
                    "selector": {"matchLabels": {"event": f"{number}"}},
                    "reason": "an edge",
                    "timeZone": "UTC",
                    "schedules": [{"name": "edge", "from": edge, "to": ends, **bound}],
                },
            )
            await asyncio.sleep(0.05)


def parsed(path: str) -> tuple[str | None, str, Any, str]:
    """Plural, namespace, name and subresource; plural None for a path of discovery."""
    for root, plurals in _KINDS.items():
        if not path.startswith(root + "/"):
            continue
        parts = path[len(root) + 1 :].split("/")
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        if parts[0] in plurals:
            name = parts[1] if len(parts) > 1 else None
            return parts[0], namespace, name, parts[2] if len(parts) > 2 else ""
    return None, "", None, ""


def _discovered(path: str) -> web.Response:
    groups = [root.split("/")[2:] for root in _KINDS if root.startswith("/apis/")]
    if path == "/version":
        return web.json_response({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
    if path == "/api":
        return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
    if path == "/apis":
        named = [_group(group, version) for group, version in groups]
        return web.json_response({"kind": "APIGroupList", "groups": named})
    for group, version in groups:
        if path == f"/apis/{group}":
            return web.json_response({"kind": "APIGroup", **_group(group, version)})
    if path in _KINDS:
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        resources = [
            {
                "name": plural,
                "singularName": kind.lower(),
                "namespaced": kind not in {"Namespace", "CustomResourceDefinition"},
                "kind": kind,
                "verbs": verbs,
            }
            for plural, kind in _KINDS[path].items()
        ]
        version = path.removeprefix("/apis/").removeprefix("/api/")
        return web.json_response({"kind": "APIResourceList", "groupVersion": version, "resources": resources})
    return refusal(404, "NotFound", f"the server could not find {path}")


def _group(group: str, version: str) -> dict[str, Any]:
    one = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [one], "preferredVersion": one}


def _external(metric: str, value: int) -> web.Response:
    metric_value = {"metricName": metric, "metricLabels": {}, "timestamp": stamp(int(time.time())), "value": f"{value}"}
    return web.json_response({"kind": "ExternalMetricValueList", "metadata": {}, "items": [metric_value]})


def refusal(status: int, reason: str, message: str) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "reason": reason,
        "message": message,
    }
    return web.json_response(body, status=status)


def cronhpa(pods: int, *, has_queue: bool, events: int = 0) -> Any:
    """
    Makes objects. has_queue: they follow an external metric of their own, which they ask for every second. events: of
    so many planned events each picks its part of them.
    """

    def made(namespace: str, name: str, uid: str, version: int) -> dict[str, Any]:
        number = int(name.rpartition("-")[2])
        target = {"type": "Utilization", "averageUtilization": 50}
        spec: dict[str, Any] = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 2,
            "maxReplicas": 2 * pods,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        }
        if has_queue:
            target = {"type": "AverageValue", "averageValue": f"{_QUEUED}"}
            metric = {"metric": {"name": f"queue-{name}"}, "target": target}
            spec |= {"syncPeriodSeconds": 1, "metrics": [{"type": "External", "external": metric}]}
        if number % 2:
            # Its scale-downs come in the minute that is measured.
            spec["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 0}}
        fields = {"f:spec": {f"f:{key}": {} for key in spec}}
        applied = {
            "manager": "kubectl", "operation": "Apply", "apiVersion": "cronhpa.io/v1alpha1",
            "time": "2026-11-02T10:15:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
        }  # fmt: skip
        return {
            "apiVersion": "cronhpa.io/v1alpha1",
            "kind": "CronHPA",
            "metadata": {
                "name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(version), "generation": 1,
                "creationTimestamp": "2026-11-02T10:15:00Z", "managedFields": [applied],
                "labels": {"app": name, "team": "shop"} | ({"event": f"{number % events}"} if events else {}),
            },
            "spec": spec,
        }  # fmt: skip

    return made


async def serve(cluster: FleetCluster, folder: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    runner = web.ServerRunner(web.Server(Api(cluster).serve), shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    entry = {"cluster": {"server": url, "certificate-authority": str(folder / "ca.crt")}, "name": "fleet"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [entry],
        "users": [{"name": "fleet", "user": {"token": "fleet"}}],
        "contexts": [{"name": "fleet", "context": {"cluster": "fleet", "user": "fleet"}}],
        "current-context": "fleet",
    }
    # Written last: whoever reads it may ask.
    (folder / "kubeconfig.new").write_text(json.dumps(kubeconfig))
    (folder / "kubeconfig.new").rename(folder / "kubeconfig")
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=0)
    for name in ("objects", "namespaces", "pods"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--queues", action="store_true", help="objects follow an external metric each, every second")
    asked = parser.parse_args()
    gc.disable()
    made = cronhpa(asked.pods, has_queue=asked.queues, events=asked.events)
    cluster = FleetCluster(asked.objects, asked.namespaces, asked.pods, made)
    gc.freeze()
    gc.enable()
    asyncio.run(serve(cluster, asked.folder))


if __name__ == "__main__":
    main()
