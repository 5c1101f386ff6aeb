"""
Queries to the three metrics APIs. Resource metrics: one LIST for all objects of a namespace, decoded once.

An answer that cannot be read is an absence with its reason, never an empty list. A long answer is decoded item by item
in a thread; an answer longer than any real one is not read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from cronhpa.core.metrics.observe import INVALID_METRIC_SELECTOR
from cronhpa.core.model.observation import Absent, Sample
from cronhpa.core.model.spec import ExternalMetric, LabelSelector, ObjectMetric, PodsMetric, ResourceMetric
from cronhpa.kube.client import TOO_LARGE, Client
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.errors import UNREADABLE, ClusterError
from cronhpa.kube.label_selector import FORMS, SELECTOR_LENGTH_MAX, label_problem, selector_text
from cronhpa.kube.metric_values import (
    CPU_AND_MEMORY,
    CpuAndMemory,
    CustomMetric,
    ExternalMetricValue,
    PodMetrics,
    external_value,
    object_value,
    pod_samples,
    samples_of,
    usages_of,
)

RESOURCE_API = "/apis/metrics.k8s.io/v1beta1"
CUSTOM_GROUP = "custom.metrics.k8s.io"
# Both versions spell alike the fields that are read.
CUSTOM_VERSIONS = ("v1beta2", "v1beta1")
EXTERNAL_API = "/apis/external.metrics.k8s.io/v1beta1"
# 120,000 pods of one namespace: a cluster has 150,000 at most.
_POD_LIST_BYTES = 2**25
# One value a pod: 15,000 pods of one target. Of an Object or External metric a value a series.
_POD_VALUES_BYTES = 2**22
_VALUES_BYTES = 2**20
# The longest answer that is decoded in the event loop, in a few milliseconds. msgspec keeps the interpreter until it
# has decoded a text: longer answers are decoded in a thread, item by item, so that the loop runs in between.
_AT_ONCE_BYTES = 2**17
# A pod's metrics have a dozen commas. A list of nothing but commas would be a gigabyte once decoded.
_COMMAS_MAX = 2_000_000
# The commas of 3,000 pods: a list with no more of them, of up to a megabyte, is decoded in the event loop, too.
_COMMAS_AT_ONCE = 40_000
_LIST_AT_ONCE_BYTES = 2**20
# The commas of shorter lists are not counted: whatever these hold is decoded fast enough.
_UNCOUNTED_BYTES = 2**19
# Answers that a tick keeps for objects with the same query.
_KEPT_BYTES = 2**24


T = TypeVar("T")
_PodDecoder = msgspec.json.Decoder[PodMetrics[Any]]


class _RawList(Struct):
    items: list[msgspec.Raw] | None


class _Listing(Struct, Generic[T]):
    """A Go program writes an empty list as null. An answer without the field is an answer of something else."""

    items: list[T] | None


# Of a list, and of one of its items.
_PODS = msgspec.json.Decoder(_Listing[PodMetrics[CpuAndMemory]])
_POD = msgspec.json.Decoder(PodMetrics[CpuAndMemory])
# The same with all resources.
_WHOLE_PODS = msgspec.json.Decoder(_Listing[PodMetrics[dict[str, Any]]])
_WHOLE_POD = msgspec.json.Decoder(PodMetrics[dict[str, Any]])


_CustomList = _Listing[CustomMetric]
_ExternalList = _Listing[ExternalMetricValue]
_CUSTOM_METRIC = msgspec.json.Decoder(CustomMetric)
_EXTERNAL_METRIC = msgspec.json.Decoder(ExternalMetricValue)


class PodMetricsByName(Mapping[str, PodMetrics[Any]]):
    """
    The metrics of a namespace's pods by pod name. The usages of a resource and container are computed at the first
    request and kept; a repeated reconciliation needs nothing else.
    """

    def __init__(self, items: list[PodMetrics[Any]]) -> None:
        self._items = items
        self._usages: dict[tuple[str, str | None], dict[str, int]] = {}

    @cached_property
    def by_name(self) -> dict[str, PodMetrics[Any]]:
        return {pod.metadata.name: pod for pod in self._items}

    def __getitem__(self, name: str) -> PodMetrics[Any]:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def usage(self, metric: ResourceMetric, names: Iterable[str]) -> int | None:
        """The sum of the samples of the pods with these names, milli-units; None if any of them has no sample."""
        usages = self.usages(metric.name, metric.container)
        try:
            return sum(map(usages.__getitem__, names))
        except KeyError:
            return None

    def samples(self, metric: ResourceMetric, names: Iterable[str]) -> dict[str, Sample] | Absent:
        """The samples of the pods with these names that have one, by name."""
        by_name = self.by_name
        return samples_of(metric, [by_name[name] for name in names if name in by_name])

    def usages(self, resource: str, container: str | None = None) -> Mapping[str, int]:
        """The samples of the pods that have one, by pod name, milli-units. container: of a ContainerResource."""
        usages = self._usages.get((resource, container))
        if usages is None:
            usages = self._usages[resource, container] = usages_of(resource, container, self._items)
        return usages


async def list_pod_metrics(client: Client, namespace: str, *, all_resources: bool = False) -> PodMetricsByName | Absent:
    """
    The metrics of a namespace's pods by pod name, or why there are none.

    all_resources: those that are neither cpu nor memory are decoded, too.
    """
    list_decoder, decoder = (_WHOLE_PODS, _WHOLE_POD) if all_resources else (_PODS, _POD)
    try:
        answer = await client.read(f"{RESOURCE_API}/namespaces/{namespace}/pods", bytes_max=_POD_LIST_BYTES)
    except ClusterError as error:
        return _unfetched("resource", error)
    commas = answer.count(b",") if len(answer) > _UNCOUNTED_BYTES else 0
    if commas > _COMMAS_MAX:
        return _unfetched("resource", ClusterError(0, TOO_LARGE, "the answer holds more than there can be of pods"))
    if len(answer) > _LIST_AT_ONCE_BYTES or commas > _COMMAS_AT_ONCE:
        return await asyncio.to_thread(_pods_in_thread, answer, decoder)
    try:
        return PodMetricsByName(list_decoder.decode(answer).items or [])
    except UNREADABLE as error:
        return _pods_by_name(answer, decoder, _unreadable("resource", error))


async def _apart(read: Callable[[bytes], T], answer: bytes) -> T:
    """The decoded answer; a long one is decoded in a thread."""
    return await asyncio.to_thread(read, answer) if len(answer) > _AT_ONCE_BYTES else read(answer)


def _pods_in_thread(answer: bytes, decoder: _PodDecoder) -> PodMetricsByName | Absent:
    """The pods, with their usages computed: in the event loop that would delay everything else."""
    pods = _pods_by_name(answer, decoder)
    if isinstance(pods, PodMetricsByName):
        for resource in CPU_AND_MEMORY:
            pods.usages(resource)
    return pods


def _pods_by_name(answer: bytes, decoder: _PodDecoder, problem: Absent | None = None) -> PodMetricsByName | Absent:
    """
    The pods read one by one: one that is unreadable must not cost the namespace the others.

    problem: of an answer that could not be read as a whole.
    """
    raws = _decode(answer, _RawList, "resource")
    if isinstance(raws, Absent):
        return raws
    readable = []
    for raw in raws.items or ():
        try:
            pod = decoder.decode(raw)
        except UNREADABLE as error:
            problem = problem or _unreadable("resource", error)
        else:
            readable.append(pod)
    return PodMetricsByName(readable) if readable or problem is None else problem


class MetricReader:
    """
    The custom and external metrics of one tick: each query is sent, and its answer read, once, however many objects
    have it.
    """

    def __init__(self, client: Client, discovery: Discovery) -> None:
        self._client = client
        self._discovery = discovery
        self._queries: dict[tuple[str, Callable[[bytes], Any]], asyncio.Task[Any]] = {}
        # How many wait for a query.
        self._waiting: Counter[asyncio.Task[Any]] = Counter()
        self._kept_bytes = 0

    async def pods(self, namespace: str, metric: PodsMetric, selector: str) -> dict[str, Sample] | Absent:
        """The samples of a Pods metric over the pods that a selector text selects."""
        path = ("pods", "*", metric.name)
        return await self._custom(namespace, path, metric.selector, _POD_VALUES_BYTES, _samples_by_pod, selector)

    async def object(self, namespace: str, metric: ObjectMetric) -> int | Absent:
        """The value of an Object metric."""
        described = metric.described
        group = described.api_version.rpartition("/")[0]
        if described.kind == "Namespace" and not group:
            # As the upstream's client: the object's own namespace, whatever name is described.
            path: tuple[str, ...] = ("metrics", metric.name)
        else:
            try:
                resource = await self._discovery.resource_in(group, described.kind)
            except ClusterError as error:
                return _unfetched("custom", error)
            path = (resource.full_name, described.name, metric.name)
        return await self._custom(namespace, path, metric.selector, _VALUES_BYTES, _value_of_one)

    async def external(self, namespace: str, metric: ExternalMetric) -> int | Absent:
        """The sum of an External metric."""
        text = label_text(metric.selector)
        if isinstance(text, Absent):
            return text
        path = f"{EXTERNAL_API}/namespaces/{namespace}/{quote(metric.name, safe='')}"
        return await self._read(path, {"labelSelector": text}, "external", _VALUES_BYTES, _sum_of_all)

    async def _custom(
        self,
        namespace: str,
        path: tuple[str, ...],
        series: LabelSelector | None,
        bytes_max: int,
        read: Callable[[bytes], T | Absent],
        selector: str = "",
    ) -> T | Absent:
        """
        `read` of the answer at a path below a namespace of custom.metrics.k8s.io, in the server's preferred version.

        series: selects the series that count. selector: a text, selects the pods.
        """
        text = label_text(series)
        if isinstance(text, Absent):
            return text
        try:
            version = await self._discovery.version(CUSTOM_GROUP, CUSTOM_VERSIONS)
        except ClusterError as error:
            return _unfetched("custom", error)
        if version is None:
            missing = f"no custom metrics API ({CUSTOM_GROUP}) registered"
            return Absent("NotRegistered", f"unable to fetch metrics from custom metrics API: {missing}")
        # A metric's name is any text without a slash; a question mark in it must not begin a query.
        parts = "/".join(quote(part, safe="*") for part in path)
        params = {"labelSelector": selector, "metricLabelSelector": text}
        full = f"/apis/{CUSTOM_GROUP}/{version}/namespaces/{namespace}/{parts}"
        return await self._read(full, params, "custom", bytes_max, read)

    async def _read(
        self, path: str, params: Mapping[str, str], api: str, bytes_max: int, read: Callable[[bytes], T | Absent]
    ) -> T | Absent:
        key = (f"{path}?{sorted(params.items())}", read)
        query: asyncio.Task[T | Absent] | None = self._queries.get(key)
        if query is None:
            query = self._queries[key] = asyncio.create_task(self._fetch(path, params, api, bytes_max, read))
        self._waiting[query] += 1
        try:
            return await asyncio.shield(query)
        finally:
            self._waiting[query] -= 1
            if not self._waiting[query]:
                del self._waiting[query]
                # Given up by all, it must not keep its place.
                if query.cancel() and self._queries.get(key) is query:
                    del self._queries[key]

    async def _fetch(
        self, path: str, params: Mapping[str, str], api: str, bytes_max: int, read: Callable[[bytes], T | Absent]
    ) -> T | Absent:
        query = {key: value for key, value in params.items() if value}
        try:
            answer = await self._client.read(path, query, bytes_max=bytes_max)
        except ClusterError as error:
            return _unfetched(api, error)
        self._kept_bytes += len(answer)
        if self._kept_bytes > _KEPT_BYTES:
            # Better to send a query twice than to keep a gigabyte of answers.
            self._queries.clear()
            self._kept_bytes = 0
        # Of a long answer the numbers are parsed in the thread, too.
        return await _apart(read, answer)


def label_text(selector: LabelSelector | None) -> str | Absent:
    """A label selector as query text, or why it is unusable: no API server checks the selectors of metrics."""
    if selector is None:
        return ""
    for key, value in selector.match_labels:
        if problem := label_problem(key, (value,)):
            return Absent(INVALID_METRIC_SELECTOR, problem)
    for expression in selector.match_expressions:
        if problem := label_problem(expression.key, expression.values):
            return Absent(INVALID_METRIC_SELECTOR, problem)
        if expression.operator not in FORMS:
            return Absent(INVALID_METRIC_SELECTOR, f'"{expression.operator}" is not a valid label selector operator')
        if expression.operator in {"In", "NotIn"} and not expression.values:
            problem = "for 'in', 'notin' operators, values set can't be empty"
            return Absent(INVALID_METRIC_SELECTOR, f"values: Invalid value: null: {problem}")
        if expression.operator in {"Exists", "DoesNotExist"} and expression.values:
            values = msgspec.json.encode(expression.values).decode()
            problem = "values set must be empty for exists and does not exist"
            return Absent(INVALID_METRIC_SELECTOR, f"values: Invalid value: {values}: {problem}")
    text = selector_text(
        selector.match_labels,
        ((expression.key, expression.operator, expression.values) for expression in selector.match_expressions),
    )
    if len(text) > SELECTOR_LENGTH_MAX:
        problem = f"it has {len(text)} characters, at most {SELECTOR_LENGTH_MAX} are asked for"
        return Absent(INVALID_METRIC_SELECTOR, f"the selector of the metric is too long: {problem}")
    return text


def _unfetched(api: str, error: ClusterError) -> Absent:
    return Absent(error.reason, f"unable to fetch metrics from {api} metrics API: {error.message}")


def _decode(answer: bytes, kind: type[T], api: str) -> T | Absent:
    try:
        return msgspec.json.decode(answer, type=kind)
    except UNREADABLE as error:
        return _unreadable(api, error)


def _unreadable(api: str, error: Exception) -> Absent:
    return Absent("Malformed", f"unable to fetch metrics from {api} metrics API: the answer cannot be read: {error}")


def _samples_by_pod(answer: bytes) -> dict[str, Sample] | Absent:
    items = _values(answer, _CustomList, _CUSTOM_METRIC, "custom")
    return items if isinstance(items, Absent) else pod_samples(items)


def _value_of_one(answer: bytes) -> int | Absent:
    items = _values(answer, _CustomList, _CUSTOM_METRIC, "custom")
    if isinstance(items, Absent):
        return items
    if len(items) != 1:
        text = f"the custom metrics API server returned {len(items)} results when we asked for exactly one"
        return Absent("NotOne", f"unable to fetch metrics from custom metrics API: {text}")
    return object_value(items[0])


def _sum_of_all(answer: bytes) -> int | Absent:
    items = _values(answer, _ExternalList, _EXTERNAL_METRIC, "external")
    return items if isinstance(items, Absent) else external_value(items)


def _values(answer: bytes, whole: type[_Listing[T]], one: msgspec.json.Decoder[T], api: str) -> list[T] | Absent:
    """The items of an answer; a long answer is decoded item by item. An item that cannot be read costs all of them."""
    if len(answer) <= _AT_ONCE_BYTES:
        listing = _decode(answer, whole, api)
        return listing if isinstance(listing, Absent) else listing.items or []
    raws = _decode(answer, _RawList, api)
    if isinstance(raws, Absent):
        return raws
    try:
        return [one.decode(raw) for raw in raws.items or ()]
    except UNREADABLE as error:
        return _unreadable(api, error)
