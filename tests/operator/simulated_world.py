"""
The model API for a whole simulated installation: watches that begin behind a version, requests that fail by chance, and
a client for each process that can be cut off, frozen and killed.

What is written is held against the invariants here, at the moment at which it is applied.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import defaultdict
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

import msgspec
from kubernetes.client import Configuration
from model_api import PATH, ModelApi, RefusedError

from cronhpa.api.identity import PLURAL
from cronhpa.kube.client import Client
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.fence import FENCED, NOT_LEADING

_BOOKMARK_SECONDS = 60.0
_WATCHED = {PLURAL, "deployments", "pods", "horizontalpodautoscalers"}
LEASES = "leases"


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


class World(ModelApi):
    """
    check(client, kind, subresource, object, body) raises Violation for a write that must not be. operators_offset: how
    far the clock of the operators' nodes is ahead of the others'. counts: how often each fault befell a request.
    """

    def __init__(self, dice: Random) -> None:
        super().__init__()
        self.dice = dice
        self.weather = Weather()
        self.operators_offset = 0
        self.check: Any = lambda *_: None
        self.counts: dict[str, int] = defaultdict(int)
        self._log: dict[str, list[tuple[int, str, bytes]]] = defaultdict(list)
        self._news: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._epochs: dict[str, int] = defaultdict(int)
        self._writer: SimulatedClient | None = None

    def operators_now(self) -> int:
        return self.now() + self.operators_offset

    def seconds(self) -> float:
        """Since the start, of a clock that nobody sets."""
        return asyncio.get_running_loop().time()

    def cut_watches(self, plural: str) -> None:
        self._epochs[plural] += 1
        self._wake(plural)

    def _wake(self, plural: str) -> None:
        self._news.pop(plural, asyncio.Event()).set()

    def _tell(self, plural: str, kind: str, item: dict[str, Any]) -> None:
        if plural in _WATCHED:
            line = msgspec.json.encode({"type": kind, "object": item})
            meta = item["metadata"]
            self._log[plural].append((int(meta["resourceVersion"]), meta["namespace"], line))
            self._wake(plural)

    async def answer_to(
        self, client: SimulatedClient, method: str, path: str, query: dict[str, str], body: Any
    ) -> bytes:
        weather, dice = self.weather, self.dice
        await asyncio.sleep(weather.latency * (0.5 + dice.random()))
        if weather.is_down:
            raise ConnectionResetError("the API server is away")
        after = self._befall(method)
        self._writer = client
        answer = msgspec.json.encode(self._do(method, path, query, body))
        if after:
            await self._end(after)
        return answer

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

    async def _end(self, how: str) -> None:
        if how == "slow":
            await asyncio.sleep(self.dice.uniform(1, 30))
            return
        raise ConnectionResetError("the answer was lost")

    def _patched(self, plural: str, item: dict[str, Any], below: str | None, path: str, body: Any) -> Any:
        assert self._writer is not None
        self.check(self._writer, plural, below, item, body)
        return super()._patched(plural, item, below, path, body)

    def create(self, plural: str, namespace: str, name: str, **body: Any) -> dict[str, Any]:
        if plural == "events" and self._writer is not None:
            self.check(self._writer, plural, None, None, body)
        return super().create(plural, namespace, name, **body)

    def _measured(self, api: str, namespace: str, what: str) -> dict[str, Any]:
        blind = self.weather.blind
        if blind == "gone":
            raise RefusedError(503, "ServiceUnavailable", "the server is currently unable to handle the request")
        found = self._used(super()._measured(api, namespace, what), namespace)
        if blind == "empty":
            return {"items": []}
        if blind == "half":  # the pods of the later half have no sample
            return {"items": found["items"][: len(found["items"]) // 2]}
        if blind == "nonsense":
            for item in found["items"]:
                item["containers"][0]["usage"]["cpu"] = "NaN"
        return found

    def _used(self, found: dict[str, Any], namespace: str) -> dict[str, Any]:
        """A pod that is not Ready serves nothing: the others carry the load."""
        pods = self.objects["pods"]
        ready = [
            item
            for item in found["items"]
            if pods[namespace, item["metadata"]["name"]]["status"]["conditions"][0]["status"] == "True"
        ]
        for item in found["items"]:
            item["containers"][0]["usage"]["cpu"] = "0"
        for item in ready:
            item["containers"][0]["usage"]["cpu"] = f"{self.load[namespace, 'shop'] // len(ready)}m"
        return found

    def _fit_pods(self, plural: str, item: dict[str, Any]) -> None:
        super()._fit_pods(plural, item)
        if plural == "deployments":
            self._count_ready(item)

    def _get_ready(self, uid: str) -> None:
        super()._get_ready(uid)
        for item in self.objects["deployments"].values():
            self._count_ready(item)

    def _count_ready(self, item: dict[str, Any]) -> None:
        """What the controller of Deployments writes into the status."""
        meta = item["metadata"]
        count = self.ready(meta["namespace"], meta["name"])
        if item["status"].get("readyReplicas") != count:
            before = deepcopy(item)
            item["status"]["readyReplicas"] = count
            self._changed("deployments", before, item)

    async def follow(self, client: SimulatedClient, plural: str, version: int, idle_seconds: float):
        """The events of a kind behind a version, with their namespaces; (None, "") is a bookmark."""
        log, epoch = self._log[plural], self._epochs[plural]
        position = bisect_right(log, version, key=lambda entry: entry[0])
        while True:
            while position < len(log):
                _, namespace, line = log[position]
                position += 1
                await client.reachable()
                if plural not in self.weather.silent:
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
            if self._epochs[plural] != epoch or self.weather.is_down:
                raise ConnectionResetError("the watch was cut")
            if position == len(log):
                yield None, ""


class SimulatedClient(Client):
    """
    The client of one process. who: its name. is_cut: nothing gets through, in either direction. is_frozen: the process
    stands still. is_dead: it hears nothing any more.
    """

    def __init__(self, world: World, who: str, *, fence: Any, seconds: float = 15.0) -> None:
        super().__init__(Configuration(host="http://model"), timeout_seconds=seconds, fence=fence)
        self.who = who
        self.is_cut = self.is_frozen = self.is_dead = False
        self._world, self._seconds, self._fence = world, seconds, fence
        self._moved = asyncio.Event()

    def set(self, *, cut: bool | None = None, frozen: bool | None = None) -> None:
        self.is_cut = self.is_cut if cut is None else cut
        self.is_frozen = self.is_frozen if frozen is None else frozen
        self._moved.set()
        self._moved = asyncio.Event()

    async def reachable(self) -> None:
        """Returns when the process runs and the network is whole."""
        while self.is_cut or self.is_frozen or self.is_dead:
            await self._moved.wait()

    async def _try(self, method, path, body, _content_type, params, _bytes_max, places):
        self.requests[method, "200"] += 1
        is_write = method != "GET"
        seconds = min(self._seconds, places.fence()) if is_write else self._seconds
        if seconds <= 0:
            raise ClusterError(412, NOT_LEADING, FENCED)
        asked = msgspec.json.decode(body) if body else None
        try:
            async with asyncio.timeout(seconds):
                await self.reachable()
                # The last look, as the body leaves.
                if is_write and places.fence() <= 0:
                    raise ConnectionAbortedError(FENCED)
                answer = await self._world.answer_to(self, method, path, dict(params or {}), asked)
                await self.reachable()
        except RefusedError as refusal:
            seconds = 2.0 if refusal.status == 429 else None
            raise ClusterError(refusal.status, refusal.reason, refusal.message, (), seconds) from refusal
        except (OSError, TimeoutError) as error:
            await self._thawed()
            raise ClusterError(0, "Unreachable", f"{method} {path}: {type(error).__name__}") from error
        return answer

    async def _thawed(self) -> None:
        """A frozen process learns of nothing, not even of a timeout."""
        while self.is_frozen or self.is_dead:
            await self._moved.wait()

    async def watch(self, path, resource_version, *, idle_seconds, params=None):  # noqa: ARG002 - the real one takes them
        self.requests["WATCH", "200"] += 1
        found = PATH.fullmatch(path)
        try:
            if self._world.weather.is_down:
                raise ConnectionResetError("the API server is away")
            events = self._world.follow(self, found["plural"], int(resource_version or 0), idle_seconds)
            async for line, namespace in events:
                if line is None:
                    yield b'{"type":"BOOKMARK","object":{}}'
                elif found["namespace"] in {None, namespace}:
                    yield line
        except (OSError, TimeoutError) as error:
            await self._thawed()
            raise ClusterError(0, "Unreachable", f"watch of {path}: {error}") from error
