"""
A cluster in memory for the benchmark of a fleet: targets with their pods, their load, and who watches them.

A list and its watch are consistent: a list's pages are of one instant, and a watch from its version brings every later
change once.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from fleet_objects import CronHpa, Deployment, FleetPod, stamp

# The changes of a kind that a watch can begin behind; whoever is further behind gets 410 Gone.
LOG_KEPT = 20_000
EVENTS = "clusterplannedevents"
PODS_WINDOW_S = 15
# Of which a pod uses half: exactly the target of 50 %.
REQUEST_MILLI = 1000
TARGET_PERCENT = 50
# From the scale write to a Ready pod.
START_UP_S = 6.0
_SCHEDULED_S, _RUNNING_S, _GONE_S = 0.1, 1.0, 1.0
# How far loads move within the tolerance of 10 %.
_WOBBLE = 0.08


class Scaling(NamedTuple):
    """One scale write, at a time of the clock. number: of the object."""

    at: float
    number: int
    before: int
    after: int


class Watcher:
    """What one watch has yet to be sent."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.lines: list[bytes] = []
        self.has_lines = asyncio.Event()

    def put(self, line: bytes) -> None:
        self.lines.append(line)
        self.has_lines.set()


class FleetCluster:
    """
    objects: by plural and (namespace, name). load: "idle" or "wobble". factors: of single objects' loads.
    scalings, ready: each scale write; and when an object's pods were all Ready again.
    """

    def __init__(self, objects: int, namespaces: int, pods: int, cronhpa: Any) -> None:
        self.size, self.pods = objects, pods
        self.load = "idle"
        self.factors: defaultdict[int, float] = defaultdict(lambda: 1.0)
        self.scalings: list[Scaling] = []
        self.ready: dict[int, float] = {}
        self.version = 1000
        self.objects: dict[str, dict[tuple[str, str], Any]] = {
            "pods": {}, "deployments": {}, "cronhpas": {}, "horizontalpodautoscalers": {},
            "plannedevents": {}, EVENTS: {}, "namespaces": {},
        }  # fmt: skip
        self.events: Counter[str] = Counter()
        self._pods_of: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._apps: dict[str, list[int]] = defaultdict(list)
        self._logs: dict[str, deque[tuple[int, str, bytes]]] = {
            plural: deque(maxlen=LOG_KEPT) for plural in self.objects
        }
        self._dropped: Counter[str] = Counter()
        self._watchers: dict[str, set[Watcher]] = defaultdict(set)
        self._measured: dict[str, tuple[int, bytes]] = {}
        self._names = 0
        born = int(time.time()) - 3600
        for number in range(objects):
            namespace, name = f"fleet-{number % namespaces}", f"app-{number}"
            self._apps[namespace].append(number)
            self.version += 1
            uid = f"00000000-0000-4000-8000-{number:012d}"
            self.objects["deployments"][namespace, name] = Deployment(namespace, name, uid, self.version, 1, pods, pods)
            self.objects["cronhpas"][namespace, name] = CronHpa(cronhpa(namespace, name, uid, self.version))
            for _ in range(pods):
                self._add_pod(namespace, name, born, born + round(START_UP_S), 3)

    # Lists and watches.

    def listed(self, plural: str, namespace: str) -> tuple[Any, ...]:
        by_key = self.objects[plural]
        return tuple(resource for key, resource in by_key.items() if not namespace or key[0] == namespace)

    def watch(self, plural: str, namespace: str, version: int) -> Watcher | None:
        """A watch that begins with the changes after a version; None if they are not all known any more."""
        log = self._logs[plural]
        if version < self._dropped[plural]:
            return None
        watcher = Watcher(namespace)
        for at, where, line in log:
            if at > version and (not namespace or where == namespace):
                watcher.put(line)
        self._watchers[plural].add(watcher)
        return watcher

    def unwatch(self, plural: str, watcher: Watcher) -> None:
        self._watchers[plural].discard(watcher)

    def _tell(self, plural: str, kind: str, namespace: str, version: int, rendered: str) -> None:
        line = f'{{"type":"{kind}","object":{rendered}}}\n'.encode()
        log = self._logs[plural]
        if len(log) == LOG_KEPT:
            self._dropped[plural] = log[0][0]
        log.append((version, namespace, line))
        self.events[plural] += 1
        for watcher in self._watchers[plural]:
            if not watcher.namespace or watcher.namespace == namespace:
                watcher.put(line)

    # Writes.

    def scale(self, namespace: str, name: str, version: str | None, replicas: int) -> Deployment | None:
        """The Deployment with this many replicas; None on a conflict."""
        before = self.objects["deployments"][namespace, name]
        if version is not None and version != str(before.version):
            return None
        if replicas == before.replicas:
            return before
        number = int(name.rpartition("-")[2])
        self.scalings.append(Scaling(time.time(), number, before.replicas, replicas))
        self.ready.pop(number, None)
        after = self._put_deployment(before._replace(replicas=replicas, generation=before.generation + 1))
        self._fit_pods(namespace, name)
        return after

    def put_event(self, name: str, spec: dict[str, Any]) -> None:
        """Creates a ClusterPlannedEvent, or gives it another spec."""
        known = self.objects[EVENTS].get(("", name))
        if known is not None:
            self.patch("", name, {"spec": spec}, EVENTS)
            return
        self.version += 1
        meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self.version), "generation": 1}
        body = {"apiVersion": "cronhpa.io/v1alpha1", "kind": "ClusterPlannedEvent", "metadata": meta, "spec": spec}
        event = self.objects[EVENTS]["", name] = CronHpa(body)
        self._tell(EVENTS, "ADDED", "", self.version, event.rendered())

    def patch(self, namespace: str, name: str, patch: dict[str, Any], plural: str = "cronhpas") -> dict[str, Any]:
        """The CronHPA, or the planned event, after a merge patch."""
        before = self.objects[plural][namespace, name].body
        after = merged(before, patch)
        if after == before:
            return before
        self.version += 1
        meta = {**after["metadata"], "resourceVersion": str(self.version)}
        if after["spec"] != before["spec"]:
            meta["generation"] = meta["generation"] + 1
        after["metadata"] = meta
        changed = self.objects[plural][namespace, name] = CronHpa(after)
        self._tell(plural, "MODIFIED", namespace, self.version, changed.rendered())
        return after

    # Pods.

    def _add_pod(self, namespace: str, app: str, created: int, ready: int, stage: int) -> FleetPod:
        self.version += 1
        self._names += 1
        hashed = f"{zlib.crc32(app.encode()):010d}"
        name = f"{app}-{hashed}-{self._names % 36**5:05d}"
        uid = f"10000000-0000-4000-8000-{self._names:012d}"
        pod = FleetPod(namespace, app, name, uid, self.version, created, ready, stage)
        self.objects["pods"][namespace, name] = pod
        self._pods_of[namespace, app].append(name)
        return pod

    def _fit_pods(self, namespace: str, app: str) -> None:
        wanted = self.objects["deployments"][namespace, app].replicas
        loop = asyncio.get_running_loop()
        names = self._pods_of[namespace, app]
        for _ in range(wanted - len(names)):
            pod = self._add_pod(namespace, app, int(time.time()), 0, 0)
            self._tell("pods", "ADDED", namespace, pod.version, pod.rendered())
            loop.call_later(_SCHEDULED_S, self._advance, namespace, pod.name, 1)
            loop.call_later(_RUNNING_S, self._advance, namespace, pod.name, 2)
            loop.call_later(START_UP_S, self._advance, namespace, pod.name, 3)
        gone = names[wanted:]
        del names[wanted:]  # the Deployment counts none that is being deleted
        for name in gone:
            self._advance(namespace, name, 4)
            loop.call_later(_GONE_S, self._remove, namespace, name)

    def _advance(self, namespace: str, name: str, stage: int) -> None:
        pod = self.objects["pods"].get((namespace, name))
        if pod is None or pod.stage == 4:
            return
        self.version += 1
        ready = int(time.time()) if stage == 3 else pod.ready
        pod = self.objects["pods"][namespace, name] = pod._replace(version=self.version, stage=stage, ready=ready)
        self._tell("pods", "MODIFIED", namespace, self.version, pod.rendered())
        if stage in {0, 3, 4}:
            self._note_status(namespace, pod.app)

    def _remove(self, namespace: str, name: str) -> None:
        pod = self.objects["pods"].pop((namespace, name), None)
        if pod is not None:
            self.version += 1
            self._tell("pods", "DELETED", namespace, self.version, pod._replace(version=self.version).rendered())

    def _note_status(self, namespace: str, app: str) -> None:
        deployment = self.objects["deployments"][namespace, app]
        pods = [self.objects["pods"][namespace, name] for name in self._pods_of[namespace, app]]
        self._put_deployment(deployment._replace(status_replicas=len(pods)))
        if len(pods) == deployment.replicas and all(pod.stage == 3 for pod in pods):
            self.ready[int(app.rpartition("-")[2])] = time.time()

    def _put_deployment(self, changed: Deployment) -> Deployment:
        self.version += 1
        changed = changed._replace(version=self.version)
        self.objects["deployments"][changed.namespace, changed.name] = changed
        self._tell("deployments", "MODIFIED", changed.namespace, self.version, changed.rendered())
        return changed

    # Metrics.

    def pod_metrics(self, namespace: str) -> bytes:
        """The PodMetricsList of a namespace: samples of the newest window of 15 s, of its Ready pods."""
        window = int(time.time()) // PODS_WINDOW_S
        kept = self._measured.get(namespace)
        if kept is not None and kept[0] == window:
            return kept[1]
        at = stamp(window * PODS_WINDOW_S)
        items = ",".join(self._metrics(namespace, window, at))
        answer = f'{{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{{}},"items":[{items}]}}'
        self._measured[namespace] = (window, answer.encode())
        return self._measured[namespace][1]

    def _metrics(self, namespace: str, window: int, at: str) -> Iterator[str]:
        pods = self.objects["pods"]
        for number in self._apps[namespace]:
            app = f"app-{number}"
            ready = [pod for name in self._pods_of[namespace, app] if (pod := pods[namespace, name]).stage == 3]
            load = (
                self.pods * REQUEST_MILLI * TARGET_PERCENT // 100 * self.factors[number] * self._wobble(number, window)
            )
            for pod in ready:
                yield pod.metrics(round(load * 10**6 / len(ready)), at)

    def _wobble(self, number: int, window: int) -> float:
        if self.load != "wobble":
            return 1.0
        drawn = zlib.crc32(f"{number}/{window}".encode()) / 2**32
        return 1 + _WOBBLE * (2 * drawn - 1)


def merged(before: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A merge patch (RFC 7386) applied to a copy."""
    after = dict(before)
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        elif isinstance(value, dict):
            old = after.get(key)
            after[key] = merged(old if isinstance(old, dict) else {}, value)
        else:
            after[key] = value
    return after
