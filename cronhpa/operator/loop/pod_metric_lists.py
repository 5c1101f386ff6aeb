"""
The LISTs of pod metrics: at most one per namespace in half a second, with the resources that its objects name.

A metrics server that hangs keeps each LIST until its deadline of 15 s. Of two thousand namespaces the last one would be
decided a quarter of an hour late, windows included. So only a few LISTs are under way at a time

- of namespaces whose own last LIST has hung;
- of the others, once several LISTs in a row have hung, until one is answered.

The others fail at once. Those that hang thus leave the places of namespaces whose LISTs are answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ResourceMetric
from cronhpa.kube.client import METRIC_READS_AT_ONCE, Client
from cronhpa.kube.metrics import PodMetricsByName, list_pod_metrics
from cronhpa.operator.objects.inventory import Inventory

# A LIST that takes longer and ends without metrics has hung.
_HANGS_SECONDS = 5.0
# So many in a row mean that the metrics server hangs, and not some namespaces alone.
_HUNG_MAX = 8
# The LISTs of each of the two kinds that are under way then: enough to notice an answer in each period.
_PROBES = 8
# Half of the shortest period: every tick has a list of its own.
_SHARED_SECONDS = 0.5
# Bounds what is kept of deleted namespaces: beyond it, the resources of the oldest entries are looked up anew.
_NAMESPACES_KEPT = 10_000

# Without the names of other namespaces: tenants read it in their objects' conditions.
_HANGING = Absent(
    "Unreachable",
    "unable to fetch metrics from resource metrics API: "
    f"the last requests were not answered within {_HANGS_SECONDS:.0f} s",
)

_Request = list[asyncio.Task[PodMetricsByName | Absent]]


class PodMetricLists:
    """sent: the number of LISTs sent."""

    def __init__(self, client: Client, inventory: Inventory) -> None:
        self.sent = 0
        self._client = client
        self._inventory = inventory
        # Those of the client, but whoever waits here is refused once the LISTs before it have hung.
        self._places = asyncio.Semaphore(METRIC_READS_AT_ONCE)
        # The LISTs that have hung since the last answer, and the namespaces whose own last one has.
        self._hung = 0
        self._hanging: set[str] = set()
        # The LISTs under way, by whether they are of such a namespace.
        self._under_way = [0, 0]
        # The LIST of each (namespace, resources), empty before it is sent; for _SHARED_SECONDS.
        self._requests: dict[tuple[str, frozenset[str]], _Request] = {}
        # By namespace: (changes of its objects seen so far, resources that its objects name).
        self._resources: dict[str, tuple[int, frozenset[str]]] = {}

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
        async with self._places:
            hangs = namespace in self._hanging
            if self._under_way[hangs] >= _PROBES and (hangs or self._hung >= _HUNG_MAX):
                return _HANGING
            self.sent += 1
            self._under_way[hangs] += 1
            begun = asyncio.get_running_loop().time()
            try:
                listed = await list_pod_metrics(self._client, namespace, resources)
            finally:
                self._under_way[hangs] -= 1
            if isinstance(listed, Absent) and asyncio.get_running_loop().time() - begun >= _HANGS_SECONDS:
                self._hung += 1
                if len(self._hanging) >= _NAMESPACES_KEPT:
                    self._hanging.clear()
                self._hanging.add(namespace)
            else:
                self._hung = 0
                self._hanging.discard(namespace)
            return listed

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
