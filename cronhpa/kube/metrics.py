"""
The three metrics APIs. Resource metrics: one LIST for all objects of a namespace, decoded once, read per target.

What an answer says is distrusted: a number that is none, or is not finite, is no sample; a list that cannot be read
is an absence with its reason, never an empty list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from cronhpa.core.instant import SECOND, Nanoseconds, parse_duration, parse_instant
from cronhpa.core.observation import Absent, Sample
from cronhpa.core.observe import INVALID_METRIC_SELECTOR
from cronhpa.core.quantity import parse_milli
from cronhpa.core.reactive.arithmetic import INT64_MAX
from cronhpa.core.spec import ExternalMetric, LabelSelector, ObjectMetric, PodsMetric, ResourceMetric
from cronhpa.kube.client import Client, ClusterError
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.membership import SELECTOR_LENGTH_MAX

RESOURCE_API = "/apis/metrics.k8s.io/v1beta1"
CUSTOM_GROUP = "custom.metrics.k8s.io"
# What is read of a value is spelled alike in both.
CUSTOM_VERSIONS = ("v1beta2", "v1beta1")
EXTERNAL_API = "/apis/external.metrics.k8s.io/v1beta1"
_CUSTOM_WINDOW_SECONDS = 60
EMPTY = Absent("NoMetrics", "no metrics returned from resource metrics API")


class _Meta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Usage(Struct, gc=False):
    name: str = ""
    usage: dict[str, Any] | None = None


class PodMetrics(Struct):
    """One pod's metrics, its times and quantities still as text: most of them are never looked at."""

    metadata: _Meta = _Meta()
    timestamp: str = ""
    window: str = ""
    containers: list[_Usage] | None = None


class _PodMetricsList(Struct):
    items: list[PodMetrics] | None


class _RawList(Struct):
    items: list[msgspec.Raw]


_POD_METRICS = msgspec.json.Decoder(PodMetrics)


class _ObjectRef(Struct, frozen=True):
    name: str = ""


class CustomMetric(Struct, rename="camel"):
    """One value of custom.metrics.k8s.io. An adapter that knows no time of it writes null; v1beta1 says `window`."""

    described_object: _ObjectRef = _ObjectRef()
    timestamp: str | None = None
    window_seconds: int | None = None
    window: int | None = None
    value: Any = None


class ExternalMetricValue(Struct):
    value: Any = None


# An empty list of a Go program is null. A list that is left out is an answer of something else.
class _CustomList(Struct):
    items: list[CustomMetric] | None


class _ExternalList(Struct):
    items: list[ExternalMetricValue] | None


T = TypeVar("T")
PodMetricsByName = Mapping[str, PodMetrics]


async def list_pod_metrics(client: Client, namespace: str) -> PodMetricsByName | Absent:
    """The metrics of a namespace's pods by pod name, or why there are none."""
    try:
        answer = await client.read(f"{RESOURCE_API}/namespaces/{namespace}/pods")
    except ClusterError as error:
        return _unfetched("resource", error)
    listed = _decode(answer, _PodMetricsList, "resource")
    items = _readable(answer) or listed if isinstance(listed, Absent) else listed.items or ()
    return items if isinstance(items, Absent) else {item.metadata.name: item for item in items}


def _readable(answer: bytes) -> list[PodMetrics]:
    """The pods of a list that can be read where the list as a whole cannot: one pod must not cost a namespace."""
    try:
        raws = msgspec.json.decode(answer, type=_RawList).items
    except (msgspec.DecodeError, RecursionError):
        return []
    found = []
    for raw in raws:
        with suppress(msgspec.DecodeError, RecursionError):
            found.append(_POD_METRICS.decode(raw))
    return found


class MetricReader:
    """
    The custom and external metrics of one tick: the same question is asked once, however many objects ask it.
    """

    def __init__(self, client: Client, discovery: Discovery) -> None:
        self._client = client
        self._discovery = discovery
        self._asked: dict[str, asyncio.Task[bytes | Absent]] = {}

    async def pods(self, namespace: str, metric: PodsMetric, selector: str) -> dict[str, Sample] | Absent:
        """The samples of a Pods metric over the pods that a selector text means."""
        items = await self._custom(namespace, ("pods", "*", metric.name), metric.selector, selector)
        return items if isinstance(items, Absent) else pod_samples(items)

    async def object(self, namespace: str, metric: ObjectMetric) -> int | Absent:
        """The value of an Object metric."""
        described = metric.described
        group = described.api_version.rpartition("/")[0]
        if described.kind == "Namespace" and not group:
            # The object's own namespace, whatever name is described, in the form that the upstream's client asks.
            path: tuple[str, ...] = ("metrics", metric.name)
        else:
            try:
                resource = await self._discovery.resource_in(group, described.kind)
            except ClusterError as error:
                return _unfetched("custom", error)
            path = (resource.full_name, described.name, metric.name)
        items = await self._custom(namespace, path, metric.selector)
        if isinstance(items, Absent):
            return items
        if len(items) != 1:
            text = f"the custom metrics API server returned {len(items)} results when we asked for exactly one"
            return Absent("NotOne", f"unable to fetch metrics from custom metrics API: {text}")
        return object_value(items[0])

    async def external(self, namespace: str, metric: ExternalMetric) -> int | Absent:
        """The sum of an External metric."""
        text = label_text(metric.selector)
        if isinstance(text, Absent):
            return text
        path = f"{EXTERNAL_API}/namespaces/{namespace}/{quote(metric.name, safe='')}"
        answer = await self._read(path, {"labelSelector": text}, "external")
        items = answer if isinstance(answer, Absent) else _decode(answer, _ExternalList, "external")
        return items if isinstance(items, Absent) else external_value(items.items or ())

    async def _custom(
        self, namespace: str, path: tuple[str, ...], series: LabelSelector | None, selector: str = ""
    ) -> list[CustomMetric] | Absent:
        """
        The values at a path below a namespace of custom.metrics.k8s.io, in the version that the server prefers.

        series: which series count. selector: which pods.
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
        answer = await self._read(f"/apis/{CUSTOM_GROUP}/{version}/namespaces/{namespace}/{parts}", params, "custom")
        items = answer if isinstance(answer, Absent) else _decode(answer, _CustomList, "custom")
        return items if isinstance(items, Absent) else items.items or []

    async def _read(self, path: str, params: Mapping[str, str], api: str) -> bytes | Absent:
        key = f"{path}?{sorted(params.items())}"
        if key not in self._asked:
            self._asked[key] = asyncio.ensure_future(self._fetch(path, params, api))
        return await asyncio.shield(self._asked[key])

    async def _fetch(self, path: str, params: Mapping[str, str], api: str) -> bytes | Absent:
        try:
            return await self._client.read(path, {key: value for key, value in params.items() if value})
        except ClusterError as error:
            return _unfetched(api, error)


def label_text(selector: LabelSelector | None) -> str | Absent:
    """A label selector as a query states it; why not, where it says nothing: no API server checks those of metrics."""
    if selector is None:
        return ""
    forms = {
        "In": "{key} in ({values})",
        "NotIn": "{key} notin ({values})",
        "Exists": "{key}",
        "DoesNotExist": "!{key}",
    }
    parts = [(key, f"{key}={value}") for key, value in selector.match_labels]
    for item in selector.match_expressions:
        if item.operator not in forms:
            return Absent(INVALID_METRIC_SELECTOR, f'"{item.operator}" is not a valid label selector operator')
        if item.operator in {"In", "NotIn"} and not item.values:
            problem = "for 'in', 'notin' operators, values set can't be empty"
            return Absent(INVALID_METRIC_SELECTOR, f"values: Invalid value: null: {problem}")
        if item.operator in {"Exists", "DoesNotExist"} and item.values:
            values = msgspec.json.encode(item.values).decode()
            problem = "values set must be empty for exists and does not exist"
            return Absent(INVALID_METRIC_SELECTOR, f"values: Invalid value: {values}: {problem}")
        form = forms[item.operator]
        parts.append((item.key, form.format(key=item.key, values=",".join(sorted(item.values)))))
    found = ",".join(text for _, text in sorted(parts))
    if len(found) > SELECTOR_LENGTH_MAX:
        problem = f"it has {len(found)} characters, at most {SELECTOR_LENGTH_MAX} are asked for"
        return Absent(INVALID_METRIC_SELECTOR, f"the selector of the metric is too long: {problem}")
    return found


def _unfetched(api: str, error: ClusterError) -> Absent:
    return Absent(error.reason, f"unable to fetch metrics from {api} metrics API: {error.message}")


def _decode(answer: bytes, kind: type[T], api: str) -> T | Absent:
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:  # RecursionError: lists in lists in lists
        return Absent(
            "Malformed", f"unable to fetch metrics from {api} metrics API: the answer cannot be read: {error}"
        )


# The pods of one list share a few instants and one window: reading them anew was half of what a sample costs.
# Either text may be of any length in an answer; what is kept of each is 300 bytes.
_TIME_LENGTH_MAX = 64


@lru_cache(maxsize=4096)
def _instant(text: str) -> Nanoseconds:
    return parse_instant(_short(text))


@lru_cache(maxsize=64)
def _duration(text: str) -> Nanoseconds:
    return parse_duration(_short(text))


def _short(text: str) -> str:
    if len(text) > _TIME_LENGTH_MAX:
        raise ValueError(f"a time of {len(text)} characters: at most {_TIME_LENGTH_MAX} are read")
    return text


def samples_of(metric: ResourceMetric, items: Iterable[PodMetrics]) -> dict[str, Sample] | Absent:
    """
    The samples of a resource by pod name.

    items: the metrics of the target's pods. A pod one of whose containers says nothing readable has no sample; for a
    ContainerResource only that container is asked.
    """
    samples: dict[str, Sample] = {}
    found = False
    for item in items:
        found = True
        sample = _sample(metric, item)
        if sample is not None:
            samples[item.metadata.name] = sample
    return samples if found else EMPTY


def _sample(metric: ResourceMetric, item: PodMetrics) -> Sample | None:
    total, counted = 0, False
    for container in item.containers or ():
        if metric.container is not None and container.name != metric.container:
            continue
        text = (container.usage or {}).get(metric.name)
        if text is None:
            return None
        try:
            value = parse_milli(str(text))
        except ValueError:
            return None
        if value < 0:
            return None
        total += value
        counted = True
    if not counted:
        return None
    try:
        return Sample(total, _instant(item.timestamp), _duration(item.window))
    except ValueError:
        return None


def pod_samples(items: Iterable[CustomMetric]) -> dict[str, Sample] | Absent:
    """The samples of a Pods metric by pod name; a value that cannot be read is none."""
    samples: dict[str, Sample] = {}
    found = False
    for item in items:
        found = True
        try:
            # Neither decides anything for a metric that is not CPU, so a sample without them is as good.
            at = parse_instant(item.timestamp) if item.timestamp else 0
            window = item.window if item.window_seconds is None else item.window_seconds
            seconds = _CUSTOM_WINDOW_SECONDS if window is None else window
            samples[item.described_object.name] = Sample(parse_milli(str(item.value)), at, seconds * SECOND)
        except ValueError:
            continue
    return samples if found else Absent("NoMetrics", "no metrics returned from custom metrics API")


def object_value(item: CustomMetric) -> int | Absent:
    """The value of an Object metric in milli-units."""
    try:
        return parse_milli(str(item.value))
    except ValueError as error:
        return Absent("Malformed", f"unable to fetch metrics from custom metrics API: {error}")


def external_value(items: Iterable[ExternalMetricValue]) -> int | Absent:
    """
    The sum of an External metric's values in milli-units.

    A running sum below zero counts as the largest number there is, as in the upstream: its guard against overflow
    takes a negative metric for one.
    """
    total, found = 0, False
    for item in items:
        found = True
        try:
            total += parse_milli(str(item.value))
        except ValueError as error:
            return Absent("Malformed", f"unable to fetch metrics from external metrics API: {error}")
        if total < 0 or total > INT64_MAX:
            return INT64_MAX
    return total if found else Absent("NoMetrics", "no metrics returned from external metrics API")
