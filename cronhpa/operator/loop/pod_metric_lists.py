"""
The LISTs of pod metrics: how many are sent, and how many are held in memory.

A LIST is sent at most once per namespace in half a second, with the resources that its objects name. A metrics server
that hangs delays few namespaces: `hang_limiter`.

A reconciliation that waits for the processor holds the LIST that it reads: a megabyte for a thousand pods. At an edge
that all objects share, reconciliations begin faster than they end, and thousands of them held a thousand LISTs. So

- an object that becomes due while its namespace holds a LIST waits for its end, and then shares the next LIST with all
  others that have waited;
- namespaces beyond the number of LISTs that the client sends at a time wait before theirs is sent, first come first
  served.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ResourceMetric
from cronhpa.kube.client import METRIC_READS_AT_ONCE, Client
from cronhpa.kube.metrics import PodMetricsByName, list_pod_metrics
from cronhpa.operator.loop.hang_limiter import HangLimiter
from cronhpa.operator.objects.inventory import Inventory

# Half of the shortest period: every tick has a list of its own.
_SHARED_SECONDS = 0.5
# A list may hang. Objects that wait for it begin after this time all the same: an edge must not wait for the deadlines
# of two requests.
_WAIT_SECONDS = 5.0
# What reconciliations with room wait for may hang, too: others begin after this time all the same.
_ROOM_SECONDS = 5.0
# Bounds what is kept of deleted namespaces: beyond it, the resources of the oldest entries are looked up anew.
_NAMESPACES_KEPT = 10_000

_Request = list[asyncio.Task[PodMetricsByName | Absent]]


class PodMetricLists:
    def __init__(self, client: Client, inventory: Inventory) -> None:
        self._client = client
        self._inventory = inventory
        self._limiter = HangLimiter("resource")
        # The LIST of each (namespace, resources), empty before it is sent; for _SHARED_SECONDS.
        self._requests: dict[tuple[str, frozenset[str]], _Request] = {}
        # By namespace: (changes of its objects seen so far, resources that its objects name).
        self._resources: dict[str, tuple[int, frozenset[str]]] = {}
        # Nobody waits for room whose list could be sent.
        self._room = asyncio.Semaphore(METRIC_READS_AT_ONCE)
        self._holders: Counter[str] = Counter()
        # When the newest of them began, by the event loop's clock.
        self._since: dict[str, float] = {}

    @property
    def sent(self) -> int:
        """The number of LISTs sent."""
        return self._limiter.sent

    @asynccontextmanager
    async def holding(self, namespace: str) -> AsyncIterator[None]:
        """Around reconciliations that read a list of a namespace, from before it is sent; waits for room."""
        self._holders[namespace] += 1
        self._since[namespace] = asyncio.get_running_loop().time()
        has_room = False
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_ROOM_SECONDS):
                    has_room = await self._room.acquire()
            yield
        finally:
            if has_room:
                self._room.release()
            self._holders[namespace] -= 1
            if not self._holders[namespace]:
                del self._holders[namespace], self._since[namespace]

    def wait_seconds(self, namespace: str) -> float:
        """For how long an object of a namespace that needs its pod metrics waits at most; 0 if no list is held."""
        since = self._since.get(namespace)
        return 0.0 if since is None else max(since + _WAIT_SECONDS - asyncio.get_running_loop().time(), 0.0)

    def of(self, namespace: str) -> Callable[[str | None], Awaitable[PodMetricsByName | Absent]]:
        """
        The LIST of a namespace's pod metrics: sent at the first call, shared by all calls within _SHARED_SECONDS.

        At a shared edge objects become due one by one, as their writes end. A call names the resource that the LIST
        must hold, if any: an object edited after the LIST was sent may name another resource, and gets its own LIST.
        """
        resources = self._resources_in(namespace)
        request = self._request(namespace, resources)

        async def listed(resource: str | None) -> PodMetricsByName | Absent:
            nonlocal resources, request
            if resource is not None and resource not in resources:
                resources = self._resources_in(namespace) | {resource}
                request = self._request(namespace, resources)
            if not request:
                request.append(asyncio.create_task(self._list(namespace, resources)))
            return await asyncio.shield(request[0])

        return listed

    async def _list(self, namespace: str, resources: frozenset[str]) -> PodMetricsByName | Absent:
        """The answer of a LIST, or at once why none is sent."""
        return await self._limiter.ask(namespace, lambda: list_pod_metrics(self._client, namespace, resources))

    def _request(self, namespace: str, resources: frozenset[str]) -> _Request:
        """The current LIST with these resources, empty before it is sent."""
        request = self._requests.get((namespace, resources))
        if request is None:
            request = self._requests[namespace, resources] = []
            asyncio.get_running_loop().call_later(_SHARED_SECONDS, self._requests.pop, (namespace, resources))
        return request

    def _resources_in(self, namespace: str) -> frozenset[str]:
        """The resources that the objects of a namespace name."""
        changes = self._inventory.changes_in(namespace)
        changes_before, resources = self._resources.get(namespace, (-1, frozenset[str]()))
        if changes_before != changes:
            specs = [
                state.served.spec for state in self._inventory.in_namespace(namespace) if state.served.spec is not None
            ]
            metrics = (metric for spec in specs for metric in spec.metrics if isinstance(metric, ResourceMetric))
            resources = frozenset(metric.name for metric in metrics if isinstance(metric, ResourceMetric))
            self._resources[namespace] = (changes, resources)
            while len(self._resources) > _NAMESPACES_KEPT:
                self._resources.pop(next(iter(self._resources)))
        return resources
