"""
The model API for a whole simulated installation: watches that begin behind a version, requests that fail by chance, and
a client for each process that can be cut off and killed.

What is written is held against the invariants here, at the moment at which it is applied.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_right
from collections import defaultdict, deque
from contextlib import suppress
from contextvars import Context
from random import Random
from typing import Any, NamedTuple

import msgspec
from copied import copied
from kubernetes.client import Configuration
from model_api import PATH, START, ModelApi, RefusedError

from cronhpa.api.identity import (
    CLUSTER_EVENT_KIND,
    CLUSTER_EVENT_PLURAL,
    EVENT_KIND,
    EVENT_PLURAL,
    GROUP,
    PLURAL,
    VERSION,
)
from cronhpa.core.model.instant import SECOND, format_instant
from cronhpa.kube.client import Client
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.fence import FENCED, NOT_LEADING
from cronhpa.operator.leader.election import UNKNOWN

_BOOKMARK_SECONDS = 60.0
_WATCHED = {PLURAL, "deployments", "pods", "horizontalpodautoscalers"}
LEASES = "leases"
# Planned events: there are none, and a kind that is not served would be asked for again and again.
_EVENT_KINDS = {
    (f"/apis/{GROUP}/{VERSION}", EVENT_PLURAL): EVENT_KIND,
    (f"/apis/{GROUP}/{VERSION}", CLUSTER_EVENT_PLURAL): CLUSTER_EVENT_KIND,
    ("/api/v1", "namespaces"): "Namespace",
}


_API_SERVER = Context()
_STALE_SECONDS = 60.0
_FORMER_KEPT = 20
_MEASURED_KEPT = 100
_RENEWALS_KEPT = 10
_LIES = ("0", "1n", "5", "1000", "900000", "-1")
_DELETED = b'{"type":"DELETED"'
_EXPIRED = b'{"type":"ERROR","object":{"code":410,"message":"too old resource version"}}'
_LATE_SECONDS = 20.0
# How far from now the samples of a broken metrics server are, in seconds.
_ODD_AGE = 600
# A timer may ring a rounding error early.
_EARLY = 1e-6


def _namespace_in(path: str) -> str:
    """The namespace that a request is about; "" for all."""
    return path.partition("/namespaces/")[2].partition("/")[0]


class Request(NamedTuple):
    client: SimulatedClient
    method: str
    path: str
    query: dict[str, str]
    body: Any


class Measured(NamedTuple):
    """The usage of a namespace's pods as it was answered, in millicores; a pod without a sample counts a core."""

    second: float
    milli: int
    pods: int
    age: float
    """Of its samples; negative where they are from the future."""


class Backup(NamedTuple):
    """What etcd had: its version, and the objects by kind, namespace and name."""

    version: int
    objects: dict[str, dict[tuple[str, str], dict[str, Any]]]


class Violation(AssertionError):  # noqa: N818 - what it is called
    """An invariant does not hold; the text says which, when and why."""


class Weather:
    """
    What befalls requests. chance: of each fault, by its name. silent: kinds whose watches lose what happens, and look
    alive. blind: the metrics that are answered: "" as they are, else how they are wrong.
    """

    def __init__(self) -> None:
        self.chance: dict[str, float] = {}
        self.latency = 0.02
        self.is_down = False
        self.silent: set[str] = set()
        self.blind = ""
        # Of each event of a watch: that it is lost, and that it comes twice, the second time as it was before.
        self.lost_events = self.doubled_events = 0.0
        # Whether bookmarks name the newest version, whatever a watch has lost.
        self.lying_bookmarks = False
        # Of each write: that it is done after its caller has given it up.
        self.late_writes = 0.0
        # Of each read of an object: that it is answered as the object was up to a minute ago.
        self.stale_reads = 0.0
        # By namespace, how each request about it fails: it is "hanging", or "refused".
        self.ill: dict[str, str] = {}


class World(ModelApi):
    """
    check(client, kind, subresource, object, body) raises Violation for a write that must not be. operators_offset: how
    far the clock of the operators' nodes is ahead of the others'. unlistable: kinds for whose lists nobody has a right.
    counts: how often each fault befell a request.
    """

    def __init__(self, dice: Random) -> None:
        super().__init__()
        self.kinds.update(_EVENT_KINDS)
        self.dice = dice
        self.weather = Weather()
        self.operators_offset = 0
        self.check: Any = lambda *_: None
        self.unlistable: set[str] = set()
        # Kinds whose lists fail, and whose lists hang.
        self.failing: set[str] = set()
        self.hanging: set[str] = set()
        # Whether reads may be stale: what objects were is kept then.
        self.keeps_former = False
        self.counts: dict[str, int] = defaultdict(int)
        # By process and uid of an object, when its watch told that the object was deleted.
        self.told_deleted: dict[tuple[str, str], float] = {}
        # By Lease, who held it last: it may have been deleted since.
        self.led_last: dict[tuple[str, str], str] = {}
        # By the text of a Lease, when somebody took or renewed it, the newest first.
        self.renewed: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_RENEWALS_KEPT))
        # By the same text, when somebody last took it after a release.
        self.taken_free: dict[str, float] = {}
        self.taken_at = 0.0
        self._log: dict[str, list[tuple[int, str, bytes]]] = defaultdict(list)
        self._news: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._epochs: dict[str, int] = defaultdict(int)
        self._expired: dict[str, bool] = {}
        # The processes that have listed the HorizontalPodAutoscalers.
        self.told_of_rivals: set[str] = set()
        # Whether the write that is done now has been given up by its caller.
        self.is_late = False
        self._writer: SimulatedClient | None = None
        # By namespace, the last answers with usage.
        self.measured: dict[str, deque[Measured]] = defaultdict(lambda: deque(maxlen=_MEASURED_KEPT))
        # By object, what it was, and until when.
        self._former: dict[tuple[str, str, str], list[tuple[float, dict[str, Any]]]] = defaultdict(list)
        self._loop = asyncio.get_running_loop()

    def now(self) -> int:
        return START + self.clock_offset + round(self._loop.time() * SECOND)

    def operators_now(self) -> int:
        return self.now() + self.operators_offset

    def seconds(self) -> float:
        """Since the start, of a clock that nobody sets."""
        return self._loop.time()

    def cut_watches(self, plural: str, *, expired: bool = False) -> None:
        """expired: by the event that says that the version of the watch is too old, else by the connection's end."""
        self._epochs[plural] += 1
        self._expired[plural] = expired
        self._wake(plural)

    def _wake(self, plural: str) -> None:
        self._news.pop(plural, asyncio.Event()).set()

    def _tell(self, plural: str, kind: str, resource: dict[str, Any]) -> None:
        if plural in _WATCHED:
            line = msgspec.json.encode({"type": kind, "object": resource})
            meta = resource["metadata"]
            self._log[plural].append((int(meta["resourceVersion"]), meta["namespace"], line))
            self._wake(plural)

    async def answer_to(self, asked: Request, until: float) -> bytes:
        """The answer of the API server, also if its caller was cancelled. Raises TimeoutError at the second `until`."""
        hangs = asked.method == "GET" and asked.path.rpartition("/")[2] in self.hanging
        hangs |= self.weather.blind == "hanging" and "/apis/metrics.k8s.io/" in asked.path
        is_ill = self.weather.ill and self.weather.ill.get(_namespace_in(asked.path))
        if is_ill:
            self.counts[f"{is_ill} neighbour"] += 1
        if hangs or is_ill == "hanging":
            await asyncio.sleep(until - self.seconds())
            raise TimeoutError
        if is_ill == "refused":
            raise RefusedError(403, "Forbidden", "not in this namespace")
        if self.weather.late_writes and asked.method != "GET" and self.dice.random() < self.weather.late_writes:
            self.counts["late writes"] += 1
            late = until - self.seconds() + self.dice.uniform(0.1, _LATE_SECONDS)
            self._loop.call_later(late, self._serve_late, asked, context=_API_SERVER)
            await asyncio.sleep(until - self.seconds())
            raise TimeoutError
        seconds = self.weather.latency * (0.5 + self.dice.random())
        if self.seconds() + seconds >= until:
            await asyncio.sleep(until - self.seconds())
            raise TimeoutError
        loop = asyncio.get_running_loop()
        answered = loop.create_future()
        loop.call_later(seconds, self._serve, asked, answered, context=_API_SERVER)
        answer, late = await answered
        if late:
            await asyncio.sleep(min(late, until - self.seconds()))
            if self.seconds() + _EARLY >= until:
                raise TimeoutError
        return answer

    def _serve_late(self, asked: Request) -> None:
        """Does what its caller has given up."""
        if self.weather.is_down:
            return
        self._writer, self.is_late = asked.client, True
        try:
            with suppress(RefusedError):
                self._do(asked.method, asked.path, asked.query, asked.body)
        finally:
            self.is_late = False

    def _serve(self, asked: Request, answered: asyncio.Future[tuple[bytes, float]]) -> None:
        """Sets the answer, and for how long it is on its way; or what is raised in its place."""
        try:
            answer = self._served(asked)
        except Exception as error:  # noqa: BLE001 - the caller gets the error
            if not answered.done():
                answered.set_exception(error)
            return
        if not answered.done():
            answered.set_result(answer)

    def _served(self, asked: Request) -> tuple[bytes, float]:
        if self.weather.is_down:
            raise ConnectionResetError("the API server is away")
        if self.unlistable and asked.method == "GET" and asked.path.rpartition("/")[2] in self.unlistable:
            raise RefusedError(403, "Forbidden", f"{asked.client.who} cannot list it")
        if self.failing and asked.method == "GET" and asked.path.rpartition("/")[2] in self.failing:
            raise RefusedError(500, "InternalError", "etcd has lost a part of it")
        after = self._befall(asked.method)
        self._writer = asked.client
        answer = msgspec.json.encode(self._stale(asked) or self._do(asked.method, asked.path, asked.query, asked.body))
        if after == "lost":
            raise ConnectionResetError("the answer was lost")
        if asked.method == "GET" and asked.path.endswith("/horizontalpodautoscalers"):
            self.told_of_rivals.add(asked.client.who)
        return answer, self.dice.uniform(1, 30) if after == "slow" else 0.0

    def _stale(self, asked: Request) -> Any:
        """
        An object as it was, where an API server answers that is behind; None: as it is.

        A scale is read as it is, which a sound API server does for any GET of one object: after a step whose answer was
        lost it tells whether the step was done.
        """
        if not self.weather.stale_reads or asked.method != "GET":
            return None
        parts = PATH.fullmatch(asked.path)
        if parts is None or parts["name"] is None or parts["plural"] not in _WATCHED or parts["below"] == "scale":
            return None
        if self.dice.random() >= self.weather.stale_reads:
            return None
        former = self._former[parts["plural"], parts["namespace"], parts["name"]]
        recent = [body for until, body in former if until > self.seconds() - _STALE_SECONDS]
        if not recent:
            return None
        self.counts["stale reads"] += 1
        return recent[0]

    def _changed(self, plural: str, before: dict[str, Any], resource: dict[str, Any]) -> None:
        if plural in _WATCHED and self.keeps_former:
            meta = resource["metadata"]
            former = self._former[plural, meta["namespace"], meta["name"]]
            former.append((self.seconds(), before))
            del former[:-_FORMER_KEPT]
        super()._changed(plural, before, resource)

    def snapshot(self) -> Backup:
        """What etcd has now."""
        return Backup(self.version, {plural: copied(self.objects[plural]) for plural in (*sorted(_WATCHED), LEASES)})

    def restore(self, backup: Backup, *, with_leases: bool) -> None:
        """Puts etcd back to a backup: objects and versions are as they were then, and every watch breaks."""
        self.version = backup.version
        for plural, objects in backup.objects.items():
            if plural == LEASES and not with_leases:
                continue
            self.objects[plural] = copied(objects)
            self._log[plural] = [entry for entry in self._log[plural] if entry[0] <= backup.version]
            self.cut_watches(plural)
        self._former = defaultdict(list)
        if self.start_up is not None:
            # A kubelet reports again what its pods are.
            for pod in self.objects["pods"].values():
                asyncio.get_running_loop().call_later(self.start_up, self._get_ready, pod["metadata"]["uid"])

    def _befall(self, method: str) -> str:
        """Raises what befalls a request before it is done; the fault that befalls its answer, "" for none."""
        for name, chance in self.weather.chance.items():
            if self.dice.random() >= chance:
                continue
            self.counts[name] += 1
            if name in {"lost", "slow"}:
                return name
            if name == "busy":
                raise RefusedError(429, "TooManyRequests", "too many requests, please try again later")
            if name == "broken":
                raise RefusedError(500, "InternalError", "etcdserver: request timed out")
            if name == "refused" and method != "GET":
                raise RefusedError(403, "Forbidden", "not now")
            raise ConnectionResetError(name)
        return ""

    def _patched(self, plural: str, resource: dict[str, Any], below: str | None, path: str, body: Any) -> Any:
        assert self._writer is not None
        version = resource["metadata"]["resourceVersion"]
        if body.get("metadata", {}).get("resourceVersion", version) == version:  # else it is refused
            self.check(self._writer, plural, below, resource, body)
        return super()._patched(plural, resource, below, path, body)

    def create(self, plural: str, namespace: str, name: str, **body: Any) -> dict[str, Any]:
        if plural == "events" and self._writer is not None:
            self.check(self._writer, plural, None, None, body)
        created = super().create(plural, namespace, name, **body)
        self._note_holder(plural, created)
        return created

    def _replaced(self, plural: str, resource: dict[str, Any], body: Any) -> Any:
        replaced = super()._replaced(plural, resource, body)
        self._note_holder(plural, replaced)
        return replaced

    def _note_holder(self, plural: str, resource: dict[str, Any]) -> None:
        if plural == LEASES:
            holder = resource["spec"].get("holderIdentity", "")
            if holder != UNKNOWN:
                # After a release nobody writes before the next holder.
                namespace, name = resource["metadata"]["namespace"], resource["metadata"]["name"]
                if holder:
                    self.renewed[f"{namespace}/{name}"].appendleft(self.seconds())
                    if self.led_last.get((namespace, name)) != holder:
                        self.taken_at = self.seconds()
                    if self.led_last.get((namespace, name)) == "":
                        self.taken_free[f"{namespace}/{name}"] = self.seconds()
                self.led_last[namespace, name] = holder

    def _measured(self, api: str, namespace: str, what: str) -> dict[str, Any]:
        blind = self.weather.blind
        if blind == "gone":
            raise RefusedError(503, "ServiceUnavailable", "the server is currently unable to handle the request")
        metrics = self._used(super()._measured(api, namespace, what), namespace)
        if blind == "empty":
            return {"items": []}
        if blind == "lying":
            for sample in metrics["items"]:
                sample["containers"][0]["usage"]["cpu"] = self.dice.choice(_LIES)
        if blind == "half":  # the pods of the later half have no sample
            metrics["items"] = metrics["items"][: len(metrics["items"]) // 2]
        age = {"old": _ODD_AGE, "future": -_ODD_AGE}.get(blind, 0)
        for sample in metrics["items"]:
            if blind == "nonsense":
                sample["containers"][0]["usage"]["cpu"] = "NaN"
            if blind == "others":
                sample["metadata"]["name"] += "-of-another-target"
            if age:
                sample["timestamp"] = format_instant((self.now() // SECOND - age) * SECOND)
        self._note_measured(namespace, metrics["items"], age)
        return metrics

    def _note_measured(self, namespace: str, samples: list[Any], age: int) -> None:
        blind, pods = self.weather.blind, sum(where == namespace for where, _ in self.objects["pods"])
        if not samples or blind in {"nonsense", "others"}:
            return
        texts = [sample["containers"][0]["usage"]["cpu"] for sample in samples]
        used = 0 if blind == "lying" else sum(int(text.removesuffix("m")) for text in texts)
        missing = 0 if blind == "lying" else pods - len(samples)
        self.measured[namespace].append(Measured(self.seconds(), used + 1000 * missing, pods, age))

    def _used(self, metrics: dict[str, Any], namespace: str) -> dict[str, Any]:
        """A pod that is not Ready serves nothing: the others carry the load."""
        pods = self.objects["pods"]
        ready = [
            sample
            for sample in metrics["items"]
            if pods[namespace, sample["metadata"]["name"]]["status"]["conditions"][0]["status"] == "True"
        ]
        for sample in metrics["items"]:
            sample["containers"][0]["usage"]["cpu"] = "0"
        for sample in ready:
            sample["containers"][0]["usage"]["cpu"] = f"{self.load[namespace, 'shop'] // len(ready)}m"
        return metrics

    def _fit_pods(self, plural: str, resource: dict[str, Any]) -> None:
        super()._fit_pods(plural, resource)
        if plural == "deployments":
            self._count_ready(resource)

    def _get_ready(self, uid: str) -> None:
        super()._get_ready(uid)
        for deployment in self.objects["deployments"].values():
            self._count_ready(deployment)

    def _count_ready(self, deployment: dict[str, Any]) -> None:
        """What the controller of Deployments writes into the status."""
        meta = deployment["metadata"]
        count = self.ready(meta["namespace"], meta["name"])
        if deployment["status"].get("readyReplicas") != count:
            before = copied(deployment)
            deployment["status"]["readyReplicas"] = count
            self._changed("deployments", before, deployment)

    def bookmark(self) -> bytes:
        meta = {"resourceVersion": str(self.version)} if self.weather.lying_bookmarks else {}
        return msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": meta}})

    async def follow(self, client: SimulatedClient, plural: str, version: int, idle_seconds: float):
        """The events of a kind behind a version, with their namespaces; (None, "") is a bookmark."""
        log, epoch = self._log[plural], self._epochs[plural]
        position = bisect_right(log, version, key=lambda entry: entry[0])
        while True:
            while position < len(log):
                _, namespace, line = log[position]
                position += 1
                await client.reachable()
                weather = self.weather
                if plural in weather.silent or (weather.lost_events and self.dice.random() < weather.lost_events):
                    continue
                if line.startswith(_DELETED):
                    uid = msgspec.json.decode(line)["object"]["metadata"]["uid"]
                    self.told_deleted[client.who, uid] = self.seconds()
                yield line, namespace
                if weather.doubled_events and self.dice.random() < weather.doubled_events:
                    self.counts["doubled events"] += 1
                    _, namespace, line = log[self.dice.randint(max(position - 3, 0), position - 1)]
                    yield line, namespace
            news = self._news[plural]
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_BOOKMARK_SECONDS, idle_seconds)):
                    await news.wait()
            if client.is_cut:
                with suppress(TimeoutError):
                    async with asyncio.timeout(idle_seconds):
                        await client.reachable()
                raise TimeoutError("nothing arrives")
            if self._epochs[plural] != epoch and self._expired[plural]:
                self.counts["expired watches"] += 1
                yield _EXPIRED, ""
                return
            if self._epochs[plural] != epoch or self.weather.is_down:
                raise ConnectionResetError("the watch was cut")
            if position == len(log):
                yield None, ""


class SimulatedClient(Client):
    """
    The client of one process. who: its name. is_cut: nothing gets through, in either direction. is_dead: it hears
    nothing any more.
    """

    def __init__(self, world: World, who: str, *, fence: Any, seconds: float = 15.0) -> None:
        super().__init__(Configuration(host="http://model"), timeout_seconds=seconds, fence=fence)
        self.who = who
        self.is_cut = self.is_dead = False
        self._world, self._seconds, self._fence = world, seconds, fence
        self._mended = asyncio.Event()

    def cut(self) -> None:
        self.is_cut = True
        self._mended.clear()

    def mend(self) -> None:
        self.is_cut = False
        self._mended.set()

    def die(self) -> None:
        self.is_dead = True
        self._mended.clear()

    @property
    def _is_apart(self) -> bool:
        return self.is_cut or self.is_dead

    async def reachable(self, until: float = math.inf) -> None:
        """Returns when the network is whole. Raises TimeoutError where that is not so in time."""
        if self.is_dead:
            await asyncio.Event().wait()
        if self.is_cut:
            async with asyncio.timeout_at(None if until == math.inf else until):
                await self._mended.wait()

    async def _try(self, method, path, body, _content_type, params, _bytes_max, places):
        self.requests[method, "200"] += 1
        is_write = method != "GET"
        seconds = min(self._seconds, places.fence(path)) if is_write else self._seconds
        if seconds <= 0:
            raise ClusterError(412, NOT_LEADING, FENCED)
        asked = Request(self, method, path, dict(params or {}), msgspec.json.decode(body) if body else None)
        until = self._world.seconds() + seconds
        try:
            if self._is_apart:
                await self.reachable(until)
            # The last look, as the body leaves.
            if is_write and places.fence(path) <= 0:
                raise ConnectionAbortedError(FENCED)
            answer = await self._world.answer_to(asked, until)
            if self._is_apart:
                await self.reachable(until)
            self.succeeded_at = self._world.seconds()
        except RefusedError as refusal:
            self.succeeded_at = self._world.seconds()
            seconds = 2.0 if refusal.status == 429 else None
            raise ClusterError(refusal.status, refusal.reason, refusal.message, (), seconds) from refusal
        except (OSError, TimeoutError) as error:
            raise ClusterError(0, "Unreachable", f"{method} {path}: {type(error).__name__}") from error
        return answer

    async def watch(self, path, resource_version, *, idle_seconds, params=None):  # noqa: ARG002 - the real one takes them
        self.requests["WATCH", "200"] += 1
        parts = PATH.fullmatch(path)
        try:
            if self._world.weather.is_down:
                raise ConnectionResetError("the API server is away")
            events = self._world.follow(self, parts["plural"], int(resource_version or 0), idle_seconds)
            async for line, namespace in events:
                self.succeeded_at = self._world.seconds()
                if line is None:
                    yield self._world.bookmark()
                elif parts["namespace"] in {None, namespace}:
                    yield line
        except (OSError, TimeoutError) as error:
            raise ClusterError(0, "Unreachable", f"watch of {path}: {error}") from error
