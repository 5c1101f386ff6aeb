"""
A Kubernetes API of a few kinds in memory, with the rules an operator lives by: resource versions and generations, merge
patches, the status and scale subresources, lists, watches, 404 and 409, as the real one has them
(cluster/test_model_compared.py); it takes any text of a spec. And with switches for what goes wrong.

Deployments have their pods at once, of one core each, ready for an hour, or after `start_up` seconds where that is set;
`load` is what they use together, `sample_age` how old the samples of it are, in seconds.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from copied import copied
from kubernetes.client import Configuration

from cronhpa.core.model.instant import HOUR, SECOND, format_instant, parse_instant
from cronhpa.kube.client import Client
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.scale import workload_selector_text

START = parse_instant("2027-01-15T07:00:00Z")
# (API, plural) of what is served, with the kind.
KINDS = {
    ("/apis/cronhpa.io/v1alpha1", "cronhpas"): "CronHPA",
    ("/apis/apps/v1", "deployments"): "Deployment",
    ("/apis/apps/v1", "replicasets"): "ReplicaSet",
    ("/apis/apps/v1", "statefulsets"): "StatefulSet",
    ("/apis/example.com/v1", "widgets"): "Widget",
    ("/apis/autoscaling/v2", "horizontalpodautoscalers"): "HorizontalPodAutoscaler",
    ("/apis/autoscaling.k8s.io/v1", "verticalpodautoscalers"): "VerticalPodAutoscaler",
    ("/api/v1", "pods"): "Pod",
    ("/api/v1", "events"): "Event",
    ("/apis/coordination.k8s.io/v1", "leases"): "Lease",
}
PATH = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)"
    r"(/(?P<name>[^/]+)(/(?P<below>status|scale))?)?"
)
_METRICS = re.compile(r"/apis/(metrics|custom\.metrics|external\.metrics)\.k8s\.io/v1beta1/namespaces/([^/]+)/(.+)")


class RefusedError(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        self.status, self.reason, self.message = status, reason, message
        super().__init__(message)


@dataclass
class Fault:
    """
    What goes wrong with requests of a method whose path matches.

    status: the answer, 0 where the connection breaks instead. applied: after it was done. hangs: there is no answer.
    waits: it is done and answered once this is set. error: it is raised where the client expects an answer, as a bug
    in the client would be. times: how often it happens, None for ever.
    """

    method: str
    path: str
    status: int = 0
    applied: bool = False
    hangs: bool = False
    waits: asyncio.Event | None = None
    error: Exception | None = None
    times: int | None = 1
    met: int = field(default=0, init=False)


class ModelApi:
    """
    writes: the PATCHes of operators. scalings: (instant, target, from, to) of each change of a target's replicas.
    latency: seconds until a request (method, path) is looked at. unknown: fields of a status that its CRD lacks.
    kinds: what is served, as KINDS.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], dict[str, Any]]] = defaultdict(dict)
        self.faults: list[Fault] = []
        self.asked: list[tuple[int, str, str]] = []
        self.writes: list[tuple[int, str, dict[str, Any]]] = []
        self.scalings: list[tuple[int, str, int, int]] = []
        self.load: dict[tuple[str, str], int] = {}
        self.external: dict[str, int] = {}
        self.start_up: float | None = None
        self.sample_age = 0
        self.clock_offset = 0
        self.on_write: Callable[[int, bool], bool | None] | None = None
        self.latency: Callable[[str, str], float] = lambda _method, _path: 0.001
        self.version = 100  # the newest resource version
        self.unknown: tuple[str, ...] = ()
        self.kinds = dict(KINDS)
        self._watchers: dict[str, list[asyncio.Queue[tuple[str, dict[str, Any]]]]] = defaultdict(list)

    def now(self) -> int:
        return START + self.clock_offset + round(asyncio.get_running_loop().time() * SECOND)

    # What people do to the cluster.

    def create(self, plural: str, namespace: str, name: str, **body: Any) -> dict[str, Any]:
        key = (namespace, name)
        if key in self.objects[plural]:
            raise RefusedError(409, "AlreadyExists", f'{plural} "{name}" already exists')
        self.version += 1
        meta = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{plural}-{name}-{self.version}",
            "resourceVersion": str(self.version),
            "generation": 1,
            "creationTimestamp": format_instant(self.now() // SECOND * SECOND),
            **body.pop("metadata", {}),
        }
        self.objects[plural][key] = resource = {"metadata": meta, **copied(body)}
        self._tell(plural, "ADDED", resource)
        self._fit_pods(plural, resource)
        return resource

    def edit(self, plural: str, namespace: str, name: str, **body: Any) -> None:
        """A merge patch of the object itself; `status` too, as somebody with the right to it may."""
        resource = self.objects[plural][namespace, name]
        before = copied(resource)
        merge(resource, body)
        self._changed(plural, before, resource)

    def delete(self, plural: str, namespace: str, name: str) -> None:
        resource = self.objects[plural].pop((namespace, name))
        self.version += 1
        resource["metadata"]["resourceVersion"] = str(self.version)
        self._tell(plural, "DELETED", resource)
        if plural == "deployments":
            self._remove_pods(namespace, name, 0)

    def replicas(self, namespace: str, name: str) -> int:
        return self.objects["deployments"][namespace, name]["spec"]["replicas"]

    def ready(self, namespace: str, name: str) -> int:
        """How many pods of a Deployment are Ready."""
        pods = [pod for (where, of), pod in self.objects["pods"].items() if where == namespace and of.startswith(name)]
        return sum(pod["status"]["conditions"][0]["status"] == "True" for pod in pods)

    def subscribe(self, plural: str) -> asyncio.Queue[tuple[str, dict[str, Any]]]:
        """The events of a kind from now on, of all namespaces."""
        queue: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self._watchers[plural].append(queue)
        return queue

    def unsubscribe(self, plural: str, queue: asyncio.Queue[tuple[str, dict[str, Any]]]) -> None:
        """The watch of this queue has ended; of one that was cut or frozen nothing is left to end."""
        with suppress(ValueError):
            self._watchers[plural].remove(queue)

    def cut_watches(self, plural: str) -> None:
        """Breaks the connections of those who watch a kind; they may list and watch it anew."""
        for queue in self._watchers.pop(plural, []):
            queue.put_nowait(("CUT", {}))

    def freeze_watches(self, plural: str) -> None:
        """Those who watch a kind hear nothing any more, and do not find out."""
        self._watchers.pop(plural, None)

    def count(self, method: str, part: str, since: float = 0.0) -> int:
        """The requests of a method whose path holds this part, since so many seconds after the start."""
        return sum(asked == method and part in path and at >= START + since * SECOND for at, asked, path in self.asked)

    # What the API answers.

    async def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        self.asked.append((self.now(), method, path))
        await asyncio.sleep(self.latency(method, path))
        fault = self._fault(method, path)
        if fault is not None and not fault.applied:
            await self._go_wrong(fault)
        answer = self._do(method, path, query, body)
        if fault is not None and fault.applied:
            answer = copied(answer)  # what happens from now on is not in it
            await self._go_wrong(fault)
        return answer

    def _fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            left = fault.times is None or fault.met < fault.times
            if left and fault.method == method and re.search(fault.path, path):
                fault.met += 1
                return fault
        return None

    async def _go_wrong(self, fault: Fault) -> None:
        if fault.waits is not None:
            await fault.waits.wait()
        elif fault.hangs:
            await asyncio.Event().wait()
        elif fault.error is not None:
            raise fault.error
        elif fault.status:
            raise RefusedError(fault.status, "Trouble", f"answered {fault.status} on purpose")
        else:
            raise ConnectionResetError("the connection was cut on purpose")

    def _do(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        metrics = _METRICS.fullmatch(path)
        if metrics:
            return self._measured(*metrics.groups())
        parts = PATH.fullmatch(path)
        if parts is None or (parts["root"], parts["plural"]) not in self.kinds:
            return self._discovered(path)
        plural, namespace, name = parts["plural"], parts["namespace"], parts["name"]
        if method == "GET" and name is None:
            return self._list(plural, namespace, query)
        namespace = namespace or ""
        if method == "POST":
            stated = {key: value for key, value in body.items() if key != "status"}
            return self.create(plural, namespace, stated["metadata"].pop("name"), **stated)
        resource = self.objects[plural].get((namespace, name))
        if resource is None:
            raise RefusedError(404, "NotFound", f'{plural} "{name}" not found')
        if method == "GET":
            return scale_of(resource) if parts["below"] == "scale" else resource
        if method == "PUT":
            return self._replaced(plural, resource, body)
        if method == "DELETE":
            uid = resource["metadata"]["uid"]
            if ((body or {}).get("preconditions") or {}).get("uid", uid) != uid:
                raise RefusedError(409, "Conflict", f"the uid is {uid}")
            self.delete(plural, namespace, name)
            return {"kind": "Status", "status": "Success"}
        assert method == "PATCH", f"{method} {path} is not modelled"
        return self._patched(plural, resource, parts["below"], path, body)

    def _discovered(self, path: str) -> dict[str, Any]:
        """What is served below a path. Raises RefusedError for one below which nothing is."""
        if path == "/apis":
            return {"groups": [{"name": root.split("/")[2]} for root, _ in self.kinds if root != "/api/v1"]}
        versions = {root.rpartition("/")[2] for root, _ in self.kinds if root.rpartition("/")[0] == path}
        if versions:
            return {"versions": [{"version": version} for version in sorted(versions)]}
        kinds = [(plural, kind) for (root, plural), kind in self.kinds.items() if root == path]
        if kinds:
            return {"resources": [{"name": plural, "kind": kind} for plural, kind in kinds]}
        raise RefusedError(404, "HTTP404", f"the server could not find {path}")  # its page is no Status

    def _list(self, plural: str, namespace: str | None, query: dict[str, str]) -> dict[str, Any]:
        items = [resource for key, resource in sorted(self.objects[plural].items()) if namespace in {None, key[0]}]
        first, limit = int(query.get("continue", 0)), int(query.get("limit", 500))
        meta = {"resourceVersion": str(self.version)}
        if first + limit < len(items):
            meta["continue"] = str(first + limit)
        return {"metadata": meta, "items": items[first : first + limit]}

    def _replaced(self, plural: str, resource: dict[str, Any], body: Any) -> Any:
        version = body["metadata"].get("resourceVersion", resource["metadata"]["resourceVersion"])
        if version != resource["metadata"]["resourceVersion"]:
            raise RefusedError(
                409, "Conflict", f"the version is {resource['metadata']['resourceVersion']}, not {version}"
            )
        before = copied(resource)
        resource["spec"] = body["spec"]
        self._changed(plural, before, resource)
        return resource

    def _patched(self, plural: str, resource: dict[str, Any], below: str | None, path: str, body: Any) -> Any:
        number = len(self.writes)
        if self.on_write is not None and self.on_write(number, False):
            raise ConnectionResetError("stopped before the write")
        version, stated = resource["metadata"]["resourceVersion"], body.get("metadata", {})
        # A uid would be no precondition: a status subresource keeps the object's own metadata, whatever is stated.
        if stated.get("resourceVersion", version) != version:
            raise RefusedError(409, "Conflict", f"the version is {version}, not {stated['resourceVersion']}")
        self.writes.append((self.now(), path, body))
        before = copied(resource)
        if below == "scale":
            resource["spec"]["replicas"] = body["spec"]["replicas"]
        elif below == "status":
            merge(resource, {"status": body["status"]})
        else:
            merge(resource, {key: value for key, value in body.items() if key not in {"metadata", "status"}})
        self._changed(plural, before, resource)
        if self.on_write is not None and self.on_write(number, True):
            raise ConnectionResetError("stopped after the write")
        return scale_of(resource) if below == "scale" else resource

    def _changed(self, plural: str, before: dict[str, Any], resource: dict[str, Any]) -> None:
        for unknown in self.unknown:
            resource.get("status", {}).pop(unknown, None)
        if before == resource:
            return  # a write that changes nothing has no version and no event
        self.version += 1
        resource["metadata"]["resourceVersion"] = str(self.version)
        if before.get("spec") != resource.get("spec"):
            resource["metadata"]["generation"] += 1
        self._tell(plural, "MODIFIED", resource)
        old, new = (one.get("spec", {}).get("replicas", 0) for one in (before, resource))
        if old != new:
            name = f"{resource['metadata']['namespace']}/{resource['metadata']['name']}"
            self.scalings.append((self.now(), name, old, new))
            if plural == "deployments":
                self._fit_pods(plural, resource)
                self._tell(plural, "MODIFIED", resource)  # its status follows its pods

    def _tell(self, plural: str, kind: str, resource: dict[str, Any]) -> None:
        for queue in self._watchers[plural]:
            queue.put_nowait((kind, copied(resource)))

    def _fit_pods(self, plural: str, resource: dict[str, Any]) -> None:
        if plural != "deployments":
            return
        meta, replicas = resource["metadata"], resource["spec"]["replicas"]
        resource.setdefault("status", {})["replicas"] = replicas
        self._remove_pods(meta["namespace"], meta["name"], replicas)
        born = format_instant(self.now() // SECOND * SECOND - (HOUR if self.start_up is None else 0))
        value = "True" if self.start_up is None else "False"
        ready = {"type": "Ready", "status": value, "lastTransitionTime": born}
        for number in range(replicas):
            name = f"{meta['name']}-{number:03d}"
            if (meta["namespace"], name) in self.objects["pods"]:
                continue
            made = self.create(
                "pods",
                meta["namespace"],
                name,
                metadata={"labels": {"app": meta["name"]}, "creationTimestamp": born},
                spec={"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]},
                status={"phase": "Running", "startTime": born, "conditions": [ready]},
            )
            if self.start_up is not None:
                asyncio.get_running_loop().call_later(self.start_up, self._get_ready, made["metadata"]["uid"])

    def _get_ready(self, uid: str) -> None:
        for (namespace, name), pod in self.objects["pods"].items():
            if pod["metadata"]["uid"] == uid:
                now = format_instant(self.now() // SECOND * SECOND)
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
                self.edit("pods", namespace, name, status={"conditions": [ready]})
                return

    def _remove_pods(self, namespace: str, name: str, left: int) -> None:
        for number in range(left, 1000):
            if (namespace, f"{name}-{number:03d}") not in self.objects["pods"]:
                return
            self.delete("pods", namespace, f"{name}-{number:03d}")

    def _measured(self, api: str, namespace: str, what: str) -> dict[str, Any]:
        stamp = format_instant(self.now() // SECOND * SECOND - self.sample_age * SECOND)
        if api == "external.metrics":
            return {"items": [{"value": str(self.external[what])}] if what in self.external else []}
        assert (api, what) == ("metrics", "pods"), f"{api}/{what} is not modelled"
        items = []
        for key, pod in self.objects["pods"].items():
            app = pod["metadata"]["labels"]["app"]
            if key[0] != namespace or (namespace, app) not in self.load:
                continue
            used = self.load[namespace, app] // self.replicas(namespace, app)
            # As metrics-server: in nanocores.
            containers = [{"name": "app", "usage": {"cpu": f"{used * 10**6}n"}}]
            meta = {"name": key[1], "namespace": namespace}
            items.append({"metadata": meta, "timestamp": stamp, "window": "30s", "containers": containers})
        return {"items": items}


def scale_of(deployment: dict[str, Any]) -> dict[str, Any]:
    meta = {key: deployment["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
    replicas = deployment["spec"]["replicas"]
    return {
        "metadata": meta,
        "spec": {"replicas": replicas},
        "status": {
            "replicas": deployment.get("status", {}).get("replicas", replicas),
            "selector": workload_selector_text(deployment["spec"].get("selector")) or f"app={meta['name']}",
        },
    }


def merge(into: dict[str, Any], patch: dict[str, Any]) -> None:
    """RFC 7386, in place."""
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(into.get(key), dict):
                into[key] = {}
            merge(into[key], value)
        else:
            into[key] = copied(value)


class ModelClient(Client):
    """A client of the model without a network in between: the same errors, the same deadlines and slots."""

    def __init__(self, api: ModelApi, *, timeout_seconds: float = 15.0) -> None:
        super().__init__(Configuration(host="http://model"), timeout_seconds=timeout_seconds)
        self.dead = False
        self._api = api
        self._seconds = timeout_seconds

    async def _try(self, method, path, body, _content_type, params, *_):
        self.requests[method, "200"] += 1
        await self._if_alive()
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._api.answer(method, path, dict(params or {}), json.loads(body) if body else None)
                self.succeeded_at = asyncio.get_running_loop().time()
        except RefusedError as refusal:
            self.succeeded_at = asyncio.get_running_loop().time()
            raise ClusterError(refusal.status, refusal.reason, refusal.message) from refusal
        except (OSError, TimeoutError) as error:
            await self._if_alive()
            raise ClusterError(0, "Unreachable", f"{method} {path}: {type(error).__name__}") from error
        await self._if_alive()
        return json.dumps(answer).encode()

    async def watch(self, path, resource_version, *, idle_seconds, params=None):  # noqa: ARG002 - as above
        self.requests["WATCH", "200"] += 1
        parts = PATH.fullmatch(path)
        queue = self._api.subscribe(parts["plural"])
        try:
            while True:
                kind, resource = await queue.get()
                if kind == "CUT":
                    raise ClusterError(0, "Unreachable", f"watch of {path}: the connection was cut on purpose")
                self.succeeded_at = asyncio.get_running_loop().time()
                if parts["namespace"] in {None, resource["metadata"]["namespace"]}:
                    yield json.dumps({"type": kind, "object": resource}).encode()
        finally:
            self._api.unsubscribe(parts["plural"], queue)

    async def _if_alive(self) -> None:
        """A process that was killed hears nothing any more."""
        if self.dead:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            raise asyncio.CancelledError
