"""
Items of metric answers, and their samples and values in milli-units.

Answers are distrusted: a number that cannot be read, or is not finite, is no sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from cronhpa.core.instant import SECOND, Nanoseconds, parse_duration, parse_instant
from cronhpa.core.observation import Absent, Sample
from cronhpa.core.quantity import parse_milli
from cronhpa.core.reactive.arithmetic import INT64_MAX
from cronhpa.core.spec import ResourceMetric

_CUSTOM_WINDOW_SECONDS = 60
_TIME_LENGTH_MAX = 64
EMPTY = Absent("NoMetrics", "no metrics returned from resource metrics API")


class _Meta(Struct, frozen=True, gc=False):
    name: str = ""


class _Usage(Struct, gc=False):
    name: str = ""
    usage: dict[str, Any] | None = None


class PodMetrics(Struct, gc=False):
    """One pod's metrics, with times and quantities as text: most of them are never read."""

    metadata: _Meta = _Meta()
    timestamp: str = ""
    window: str = ""
    containers: list[_Usage] | None = None


class _ObjectRef(Struct, frozen=True):
    name: str = ""


class CustomMetric(Struct, rename="camel"):
    """One value of custom.metrics.k8s.io. An adapter without a time writes null; v1beta1 has `window`."""

    described_object: _ObjectRef = _ObjectRef()
    timestamp: str | None = None
    window_seconds: int | None = None
    window: int | None = None
    value: Any = None


class ExternalMetricValue(Struct):
    value: Any = None


# The pods of one list share a few instants and one window. A text longer than any time is not cached.
@lru_cache(maxsize=4096)
def _instant(text: str) -> Nanoseconds:
    if len(text) > _TIME_LENGTH_MAX:
        raise ValueError("a time is shorter")
    return parse_instant(text)


@lru_cache(maxsize=64)
def _duration(text: str) -> Nanoseconds:
    if len(text) > _TIME_LENGTH_MAX:
        raise ValueError("a duration is shorter")
    return parse_duration(text)


def _milli(value: Any) -> int:
    """A quantity in milli-units, as text or as a number. Raises ValueError for all else, however deep it is."""
    if not isinstance(value, str | int | float):
        raise ValueError(f"a {type(value).__name__} is no quantity")  # noqa: TRY004 - of what came, not of our code
    return parse_milli(str(value))


def samples_of(metric: ResourceMetric, items: Iterable[PodMetrics]) -> dict[str, Sample] | Absent:
    """
    The samples of a resource by pod name.

    items: the metrics of the target's pods. A pod has no sample if the usage of any of its containers is unreadable;
    for a ContainerResource only that container counts.
    """
    samples: dict[str, Sample] = {}
    has_items = False
    for pod_metrics in items:
        has_items = True
        sample = _sample(metric, pod_metrics)
        if sample is not None:
            samples[pod_metrics.metadata.name] = sample
    return samples if has_items else EMPTY


def _sample(metric: ResourceMetric, pod_metrics: PodMetrics) -> Sample | None:
    usage = _usage(metric, pod_metrics)
    if usage is None:
        return None
    try:
        return Sample(usage, _instant(pod_metrics.timestamp), _duration(pod_metrics.window))
    except ValueError:
        return None


def usage_of(metric: ResourceMetric, names: Iterable[str], listed: Mapping[str, PodMetrics]) -> int | None:
    """The sum of the samples of the pods with these names, milli-units; None if any of them has no sample."""
    total = 0
    timestamp: str | None = None
    window: str | None = None
    for name in names:
        pod_metrics = listed.get(name)
        usage = None if pod_metrics is None else _usage(metric, pod_metrics)
        if pod_metrics is None or usage is None:
            return None
        # The pods of a node are measured at one instant: its text is read once.
        if pod_metrics.timestamp != timestamp or pod_metrics.window != window:
            if _sample(metric, pod_metrics) is None:
                return None
            timestamp, window = pod_metrics.timestamp, pod_metrics.window
        total += usage
    return total


def _usage(metric: ResourceMetric, pod_metrics: PodMetrics) -> int | None:
    """The usage of a pod, or of its container that the metric names; None if any of it cannot be read."""
    total, counted = 0, False
    resource, wanted = metric.name, metric.container
    for container in pod_metrics.containers or ():
        if wanted is not None and container.name != wanted:
            continue
        usage = container.usage
        text = None if usage is None else usage.get(resource)
        if text is None:
            return None
        try:
            # Most are texts, and there are very many of them.
            value = parse_milli(text) if type(text) is str else _milli(text)
        except ValueError:
            return None
        if value < 0:
            return None
        total += value
        counted = True
    return total if counted else None


def pod_samples(items: Iterable[CustomMetric]) -> dict[str, Sample] | Absent:
    """The samples of a Pods metric by pod name; a value that cannot be read is none."""
    samples: dict[str, Sample] = {}
    has_items = False
    for metric in items:
        has_items = True
        try:
            # Only CPU decisions use time and window, so a sample without them is as good here.
            at = _instant(metric.timestamp) if metric.timestamp else 0
            window = metric.window if metric.window_seconds is None else metric.window_seconds
            seconds = _CUSTOM_WINDOW_SECONDS if window is None else window
            samples[metric.described_object.name] = Sample(_milli(metric.value), at, seconds * SECOND)
        except ValueError:
            continue
    return samples if has_items else Absent("NoMetrics", "no metrics returned from custom metrics API")


def object_value(metric: CustomMetric) -> int | Absent:
    """The value of an Object metric in milli-units."""
    try:
        return _milli(metric.value)
    except ValueError as error:
        return Absent("Malformed", f"unable to fetch metrics from custom metrics API: {error}")


def external_value(items: Iterable[ExternalMetricValue]) -> int | Absent:
    """
    The sum of an External metric's values in milli-units.

    A running sum below zero counts as the largest number there is, as in the upstream: its guard against overflow
    takes a negative metric for one.
    """
    total, has_items = 0, False
    for metric in items:
        has_items = True
        try:
            total += _milli(metric.value)
        except ValueError as error:
            return Absent("Malformed", f"unable to fetch metrics from external metrics API: {error}")
        if total < 0 or total > INT64_MAX:
            return INT64_MAX
    return total if has_items else Absent("NoMetrics", "no metrics returned from external metrics API")
