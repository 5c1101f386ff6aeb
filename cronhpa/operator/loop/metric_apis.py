"""
The metrics APIs and the named sources: what is queried of them in a tick. A metric with the name of a source is
queried from that source.

A namespace's pod metrics are listed at most once in half a second. Three limits protect three things:

- `using_list` the memory. A reconciliation that waits for the processor keeps the LIST that it reads: a megabyte for a
  thousand pods. At an edge that all objects share, reconciliations begin faster than they end. So an object that
  becomes due while its namespace uses a LIST waits for its end, and shares the next one with all others that have
  waited; and few namespaces use a LIST at a time, first come first served.
- The places of a custom or external metrics API the other namespaces from one whose queries are slow: they are shared
  out by namespace. A namespace has few LISTs under way: those are sent as they come.
- `HangLimiter` the other objects from an API that hangs: whoever waits for a place is refused once the requests before
  have hung. Nobody waits for `using_list` for longer than five seconds, so that it cannot do this.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias, TypeVar

from cronhpa.core.metrics.observe import Measurement
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import (
    ExternalMetric,
    Metric,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    Spec,
    UnknownMetric,
)
from cronhpa.kube.client import METRIC_READS_AT_ONCE, Client
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.metric_values import CPU_AND_MEMORY
from cronhpa.kube.metrics import MetricReader, PodMetricsByName, list_pod_metrics
from cronhpa.operator.loop.hang_limiter import PROBES, HangLimiter
from cronhpa.ports.fair_places import FairPlaces
from cronhpa.sources.metric_sources import MetricSources
from cronhpa.sources.source import MeasuredObject

T = TypeVar("T")

# Half of the shortest period: every tick has a list of its own.
SHARED_SECONDS = 0.5
# A list may hang. Objects that wait for it begin after this time all the same: an edge must not wait for the deadlines
# of two requests.
_WAIT_SECONDS = 5.0
# What reconciliations with room wait for may hang, too: others begin after this time all the same.
_ROOM_SECONDS = 5.0

_LISTS_AT_ONCE = 32
# Concurrent queries of a custom or external metrics API, besides those that hung when they were sent last: in total, of
# one namespace, and of all whose queries take longer than _SLOW_SECONDS.
_QUERIES_AT_ONCE, _QUERIES_OF_ONE, _SLOW_QUERIES = METRIC_READS_AT_ONCE - PROBES, 32, 48
_SLOW_SECONDS = 1.0

_List: TypeAlias = asyncio.Task[PodMetricsByName | Absent]


def are_all_listed(spec: Spec) -> bool:
    """Whether a LIST of cpu and memory of the namespace's pods has all metrics of an object."""
    return all(isinstance(metric, ResourceMetric) and metric.name in CPU_AND_MEMORY for metric in spec.metrics)


class SharedApi:
    """The custom or external metrics API, whose places namespaces share."""

    def __init__(self, api: str) -> None:
        self._limiter = HangLimiter(api)
        self._places = FairPlaces(_QUERIES_AT_ONCE, _QUERIES_OF_ONE, _SLOW_SECONDS, _SLOW_QUERIES)

    async def ask(self, namespace: str, query: Hashable, send: Callable[[], Awaitable[T]]) -> T | Absent:
        """The answer to a query, or at once why it is not sent."""
        return await self._limiter.ask(namespace, query, self._places.place(namespace), send)


class MetricQueries:
    """
    The queries of one tick of a namespace: one LIST of its pod metrics, and one query for each other metric.

    list_with(all_resources): the current LIST; with all resources, or with cpu and memory alone. apis: by the type of
    metric.
    """

    def __init__(
        self,
        list_with: Callable[[bool], _List],
        reader: MetricReader,
        sources: MetricSources,
        apis: Mapping[type[Metric], SharedApi],
    ) -> None:
        self._list_with = list_with
        # By whether it has all resources. Sent where it is awaited first: a group may wait for room before.
        self._lists: dict[bool, _List] = {}
        self._reader = reader
        self._sources = sources
        self._apis = apis

    async def pod_metrics(self, resource: str = "cpu") -> PodMetricsByName | Absent:
        """
        The namespace's pod metrics, by one LIST, however often they are awaited.

        resource: one that they must have. For one that is neither cpu nor memory there is a LIST of its own.
        """
        all_resources = resource not in CPU_AND_MEMORY
        if all_resources not in self._lists:
            self._lists[all_resources] = self._list_with(all_resources)
        return await asyncio.shield(self._lists[all_resources])

    async def measure(self, metric: Metric, measured: MeasuredObject, selector: str) -> Measurement:
        """The measurement of a metric over the pods of an object, which `selector` selects."""
        namespace = measured.namespace
        match metric:
            case ResourceMetric():
                pod_metrics = await self.pod_metrics(metric.name)
                if isinstance(pod_metrics, Absent):
                    return pod_metrics
                return pod_metrics.samples(metric, [pod.name for pod in measured.pods])
            case PodsMetric() | ExternalMetric():
                value = await self._sources.value(metric, measured)
                if value is not None:
                    return value
                # Of metrics of one name each selector is answered by itself, and may hang by itself.
                value = await self._apis[type(metric)].ask(
                    namespace,
                    (metric, selector) if isinstance(metric, PodsMetric) else metric,
                    lambda: (
                        self._reader.pods(namespace, metric, selector)
                        if isinstance(metric, PodsMetric)
                        else self._reader.external(namespace, metric)
                    ),
                )
                return self._sources.explained(value) if isinstance(value, Absent) else value
            case ObjectMetric():
                return await self._apis[ObjectMetric].ask(
                    namespace, metric, lambda: self._reader.object(namespace, metric)
                )
            case UnknownMetric():
                return Absent("UnknownMetric", metric.given)


class MetricApis:
    def __init__(self, client: Client, discovery: Discovery, sources: MetricSources) -> None:
        self._client = client
        self._discovery = discovery
        self._sources = sources
        self._resource_limiter = HangLimiter("resource")
        self._list_places = asyncio.Semaphore(_LISTS_AT_ONCE)
        custom, external = SharedApi("custom"), SharedApi("external")
        self._apis: Mapping[type[Metric], SharedApi] = {
            PodsMetric: custom,
            ObjectMetric: custom,
            ExternalMetric: external,
        }
        # By namespace and whether it has all resources, the LIST of the last SHARED_SECONDS.
        self._lists: dict[tuple[str, bool], _List] = {}
        # Nobody waits for room whose list could be sent.
        self._room = asyncio.Semaphore(_LISTS_AT_ONCE)
        self._users: Counter[str] = Counter()
        # When the newest of them began, by the event loop's clock.
        self._since: dict[str, float] = {}

    @property
    def lists_sent(self) -> int:
        """The number of LISTs of pod metrics sent."""
        return self._resource_limiter.sent

    def queries(self, namespace: str) -> MetricQueries:
        """
        The queries of a tick of a namespace that begins now.

        At a shared edge objects become due one by one, as their writes end: ticks within SHARED_SECONDS share a LIST.
        """
        reader = MetricReader(self._client, self._discovery)
        return MetricQueries(
            lambda whole: self._list_of(namespace, all_resources=whole), reader, self._sources, self._apis
        )

    @asynccontextmanager
    async def using_list(self, namespace: str) -> AsyncIterator[None]:
        """Around reconciliations that read a list of a namespace, from before it is sent; waits for room."""
        self._users[namespace] += 1
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
            self._users[namespace] -= 1
            if not self._users[namespace]:
                del self._users[namespace], self._since[namespace]

    def list_wait_seconds(self, namespace: str) -> float:
        """For how long an object of a namespace that needs its pod metrics waits at most; 0 if none is in use."""
        since = self._since.get(namespace)
        return 0.0 if since is None else max(since + _WAIT_SECONDS - asyncio.get_running_loop().time(), 0.0)

    def _list_of(self, namespace: str, *, all_resources: bool) -> _List:
        """The current LIST of a namespace's pod metrics."""
        current = self._lists.get((namespace, all_resources))
        if current is None:
            asked = self._resource_limiter.ask(
                namespace,
                all_resources,
                self._list_places,
                lambda: list_pod_metrics(self._client, namespace, all_resources=all_resources),
            )
            current = self._lists[namespace, all_resources] = asyncio.create_task(asked)
            asyncio.get_running_loop().call_later(SHARED_SECONDS, self._lists.pop, (namespace, all_resources))
        return current
