"""
Items of metric answers, and their samples and values in milli-units.

Answers are distrusted: a number that cannot be read, or is not finite, is no sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from cronhpa.core.metrics.arithmetic import INT64_MAX
from cronhpa.core.model.instant import SECOND, Nanoseconds, from_datetime, parse_duration
from cronhpa.core.model.observation import Absent, Sample
from cronhpa.core.model.quantity import parse_milli
from cronhpa.core.model.spec import ResourceMetric

_CUSTOM_WINDOW_SECONDS = 60
_DURATION_LENGTH_MAX = 64
_NANOS_A_MILLI = 10**6
# A billion cores. `parse_milli` reads the texts of more, with bounds of its own.
_NANOS_MAX = 10**18
_INTEGERS = msgspec.json.Decoder(list[int])
# An instant needs an offset.
_Time: TypeAlias = Annotated[datetime, Meta(tz=True)]
EMPTY = Absent("NoMetrics", "no metrics returned from resource metrics API")


class _Meta(Struct, frozen=True, gc=False):
    name: str = ""


Q = TypeVar("Q")


class _Usage(Struct, Generic[Q], gc=False):
    name: str = ""
    usage: Q | None = None


class CpuAndMemory(Struct, gc=False):
    """The quantities of a container: metrics servers state no others. It takes less memory than a dict."""

    cpu: Any = None
    memory: Any = None


CPU_AND_MEMORY = CpuAndMemory.__struct_fields__


class PodMetrics(Struct, Generic[Q], gc=False):
    """
    One pod's metrics, with windows and quantities as text: most of them are never read.

    Q: the quantities of a container, `CpuAndMemory` or a dict of all.
    """

    timestamp: _Time
    metadata: _Meta = _Meta()
    window: str = ""
    containers: list[_Usage[Q]] | None = None


class _ObjectRef(Struct, frozen=True):
    name: str = ""


class CustomMetric(Struct, rename="camel"):
    """One value of custom.metrics.k8s.io. An adapter without a time writes null; v1beta1 has `window`."""

    described_object: _ObjectRef = _ObjectRef()
    timestamp: _Time | None = None
    window_seconds: int | None = None
    window: int | None = None
    value: Any = None


class ExternalMetricValue(Struct):
    value: Any = None


# The pods of one list share a window. A text longer than any is not cached.
@lru_cache(maxsize=64)
def _duration(text: str) -> Nanoseconds:
    if len(text) > _DURATION_LENGTH_MAX:
        raise ValueError("a duration is shorter")
    return parse_duration(text)


def _milli(value: Any) -> int:
    """A quantity, given as text or as a number, in milli-units. Raises ValueError for any other type."""
    if not isinstance(value, str | int | float):
        raise ValueError(f"a {type(value).__name__} is no quantity")  # noqa: TRY004 - the API's type, not our code's
    return parse_milli(str(value))


def samples_of(metric: ResourceMetric, items: Iterable[PodMetrics[Any]]) -> dict[str, Sample] | Absent:
    """
    The samples of a resource by pod name.

    items: the metrics of the target's pods. A pod has no sample if the usage of any of its containers is unreadable;
    for a ContainerResource only that container counts.
    """
    samples: dict[str, Sample] = {}
    has_items = False
    for pod_metrics in items:
        has_items = True
        sample = _sample(metric.name, metric.container, pod_metrics)
        if sample is not None:
            samples[pod_metrics.metadata.name] = sample
    return samples if has_items else EMPTY


def _sample(resource: str, container: str | None, pod_metrics: PodMetrics[Any]) -> Sample | None:
    usage = _usage(resource, container, pod_metrics)
    if usage is None:
        return None
    try:
        return Sample(usage, from_datetime(pod_metrics.timestamp), _duration(pod_metrics.window))
    except ValueError:
        return None


def usages_of(resource: str, container: str | None, items: Sequence[PodMetrics[Any]]) -> dict[str, int]:
    """
    The values of the samples by pod name, milli-units. container: of a ContainerResource.

    In nearly every namespace each pod has a sample: then all quantities are parsed together.
    """
    if container is None and items:
        try:
            return _usages_of_all(resource, items)
        except (AttributeError, IndexError, TypeError, ValueError):
            pass  # one of them has no sample: each is read by itself
    usages: dict[str, int] = {}
    for pod_metrics in items:
        sample = _sample(resource, container, pod_metrics)
        if sample is None:
            usages.pop(pod_metrics.metadata.name, None)
        else:
            usages[pod_metrics.metadata.name] = sample.value
    return usages


def _usages_of_all(resource: str, items: Sequence[PodMetrics[Any]]) -> dict[str, int]:
    """The usages if each pod has a sample. Raises for anything that `_sample` may read otherwise."""
    for window in {pod.window for pod in items}:
        _duration(window)
    counts = [len(pod.containers or ()) for pod in items]
    containers = [container for pod in items for container in pod.containers or ()]
    if 0 in counts:
        raise ValueError("a pod without containers has no sample")
    values = _milli_of([*map(attrgetter(f"usage.{resource}"), containers)])
    if len(containers) != len(items):
        rest = iter(values)
        values = [sum(islice(rest, count)) for count in counts]
    return dict(zip([pod.metadata.name for pod in items], values, strict=True))


def _milli_of(texts: list[str]) -> list[int]:
    """`parse_milli` of each text. Raises for every text that it refuses, and for some that it reads."""
    # Metrics servers write nanocores. Joined to one JSON list of integers, all of them are decoded at once.
    together = ",".join(texts).encode("ascii")
    numbers = together.replace(b"n,", b",")
    if len(together) - len(numbers) != len(texts) - 1 or not numbers.endswith(b"n"):
        others = [text for text in texts if text[-1:] != "n"]
        if not others:
            raise ValueError("one text holds two numbers")
        if 2 * len(others) > len(texts):
            millis = [parse_milli(text) for text in texts]
            if min(millis) < 0:
                raise ValueError("one of them is negative")
            return millis
        return _milli_of([text if text[-1:] == "n" else f"{parse_milli(text) * _NANOS_A_MILLI}n" for text in texts])
    if not numbers[:-1].replace(b",", b"").isdigit():
        raise ValueError("not all of them are digits and an n")
    nanos = _INTEGERS.decode(b"[%b]" % numbers[:-1])
    if len(nanos) != len(texts) or max(nanos) > _NANOS_MAX:
        raise ValueError("one text holds two numbers, or more than anybody uses")
    unit = _NANOS_A_MILLI
    return [-(-number // unit) for number in nanos]


def _usage(resource: str, wanted: str | None, pod_metrics: PodMetrics[Any]) -> int | None:
    """The usage of a pod, or of its container of this name; None if any of it cannot be read."""
    total, counted = 0, False
    for container in pod_metrics.containers or ():
        if wanted is not None and container.name != wanted:
            continue
        usage = container.usage
        text = usage.get(resource) if type(usage) is dict else getattr(usage, resource, None)
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
    """The samples of a Pods metric by pod name; a value that cannot be read is no sample."""
    samples: dict[str, Sample] = {}
    has_items = False
    for metric in items:
        has_items = True
        try:
            # Only CPU decisions use time and window, so a sample without them is as good here.
            at = 0 if metric.timestamp is None else from_datetime(metric.timestamp)
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

    A running sum below zero counts as the largest number there is, as in the upstream: its guard takes any negative
    sum for an overflow.
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
