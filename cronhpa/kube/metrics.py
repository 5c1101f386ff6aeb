"""
The metrics API: one LIST for all objects of a namespace, decoded once, read per target.

What an answer says is distrusted: a number that is none, or is not finite, is no sample; a list that cannot be read
is an absence with its reason, never an empty list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from cronhpa.core.instant import SECOND, parse_duration, parse_instant
from cronhpa.core.observation import Absent, Sample
from cronhpa.core.quantity import parse_milli
from cronhpa.core.reactive.arithmetic import INT64_MAX
from cronhpa.core.spec import ResourceMetric
from cronhpa.kube.client import Client, ClusterError

RESOURCE_API = "/apis/metrics.k8s.io/v1beta1"
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
    items: list[PodMetrics]


_DECODER = msgspec.json.Decoder(_PodMetricsList)

PodMetricsByName = Mapping[str, PodMetrics]


async def list_pod_metrics(client: Client, namespace: str) -> PodMetricsByName | Absent:
    """The metrics of a namespace's pods by pod name, or why there are none."""
    path = f"{RESOURCE_API}/namespaces/{namespace}/pods"
    try:
        answer = await client.read(path)
    except ClusterError as error:
        return Absent(error.reason, f"unable to fetch metrics from resource metrics API: {error.message}")
    try:
        items = _DECODER.decode(answer).items
    except msgspec.DecodeError as error:
        return Absent("Malformed", f"unable to fetch metrics from resource metrics API: the answer cannot be read: {error}")
    return {item.metadata.name: item for item in items}


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
        return Sample(total, parse_instant(item.timestamp), parse_duration(item.window))
    except ValueError:
        return None


class _ObjectRef(Struct, frozen=True):
    name: str = ""


class CustomMetric(Struct, rename="camel"):
    """One value of custom.metrics.k8s.io."""

    described_object: _ObjectRef = _ObjectRef()
    timestamp: str = ""
    window_seconds: int | None = None
    value: Any = None


class ExternalMetricValue(Struct):
    value: Any = None


def pod_samples(items: Iterable[CustomMetric]) -> dict[str, Sample] | Absent:
    """The samples of a Pods metric by pod name; a value that cannot be read is none."""
    samples: dict[str, Sample] = {}
    found = False
    for item in items:
        found = True
        try:
            window = 60 * SECOND if item.window_seconds is None else item.window_seconds * SECOND
            samples[item.described_object.name] = Sample(parse_milli(str(item.value)), parse_instant(item.timestamp), window)
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
