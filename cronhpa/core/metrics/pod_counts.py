"""
Pods and samples of a metric become PodCounts. This file alone decides how each pod counts.

The rules are those of groupPods, calculatePodRequests and GetResourceUtilizationRatio in the upstream's
replica_calculator.go and metrics/utilization.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from cronhpa.core.metrics.arithmetic import quotient
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.observation import Absent, Pod, PodCounts, Sample, ScalarReading
from cronhpa.core.model.spec import (
    ControllerOptions,
    ExternalMetric,
    Metric,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    UnknownMetric,
)

FAILURE_REASONS = {
    "ResourceMetric": "FailedGetResourceMetric",
    "ContainerResource": "FailedGetContainerResourceMetric",
    "PodsMetric": "FailedGetPodsMetric",
    "ObjectMetric": "FailedGetObjectMetric",
    "ExternalMetric": "FailedGetExternalMetric",
    "UnknownMetric": "InvalidMetricSourceType",
}


_NO_TARGET = "neither a value target nor an average value target was set"


def failure_reason(metric: Metric) -> str:
    """The reason of condition and event while this metric is absent."""
    if isinstance(metric, ResourceMetric) and metric.container is not None:
        return FAILURE_REASONS["ContainerResource"]
    return FAILURE_REASONS[type(metric).__name__]


def pod_counts(
    metric: ResourceMetric | PodsMetric,
    pods: Iterable[Pod],
    samples: Mapping[str, Sample],
    now: Nanoseconds,
    options: ControllerOptions,
) -> PodCounts | Absent:
    """
    The sums over the pods and samples of a metric.

    pods: matched by the target's selector. samples: by pod name, of those pods.
    Absent if there is no pod, no sample of a pod that counts, or a pod without the request that a utilization needs.
    """
    pods = tuple(pods)
    if not pods:
        return absent_metric(metric, "no pods returned by selector while calculating replica count")
    is_cpu = isinstance(metric, ResourceMetric) and metric.name == "cpu"
    groups = group_pods(pods, samples, now, options, is_cpu=is_cpu)
    counted = groups.samples
    if not counted:
        return absent_metric(metric, "did not receive metrics for targeted pods (pods might be unready)")

    load = sum([sample.value for sample in samples.values()])
    if not isinstance(metric, ResourceMetric) or metric.target.average_value is not None:
        return PodCounts(
            ready=groups.ready,
            unready=len(groups.unready),
            missing=len(groups.missing),
            counted=len(counted),
            matched=0,
            usage=sum([sample.value for sample in counted.values()]),
            request=0,
            missing_usage=len(groups.missing) * (metric.target.average_value or 0),
            missing_request=0,
            unready_request=0,
            load=load,
        )
    requests: dict[str, int] = {}
    for pod in pods:
        request = pod_request(pod, metric.name, metric.container)
        if isinstance(request, str):
            return absent_metric(metric, request)
        requests[pod.name] = request
    matched = [name for name in counted if name in requests]
    fallback = max(100, metric.target.average_utilization or 0)
    return PodCounts(
        ready=groups.ready,
        unready=len(groups.unready),
        missing=len(groups.missing),
        counted=len(counted),
        matched=len(matched),
        usage=sum([counted[name].value for name in matched]),
        request=sum([requests[name] for name in matched]),
        missing_usage=sum([quotient(requests[name] * fallback, 100) for name in groups.missing]),
        missing_request=sum([requests[name] for name in groups.missing]),
        unready_request=sum([requests[name] for name in groups.unready]),
        load=load,
    )


class PodGroups(Struct, frozen=True):
    """The pods of a metric by how they count; a pod that has failed or is being deleted is in no group."""

    ready: int
    """The number of pods that count fully."""
    unready: list[str]
    """Pods that start: their samples are not trusted."""
    missing: list[str]
    """Pods without a sample."""
    samples: dict[str, Sample]
    """By pod, without those of ignored and unready pods."""


def group_pods(
    pods: Iterable[Pod], samples: Mapping[str, Sample], now: Nanoseconds, options: ControllerOptions, *, is_cpu: bool
) -> PodGroups:
    """Which pod counts as ready, unready, missing or ignored: groupPods and removeMetricsForPods of the upstream."""
    starting_since = now - options.cpu_initialization_period if is_cpu else None
    ready = 0
    unready: list[str] = []
    missing: list[str] = []
    trusted = dict(samples)
    for pod in pods:
        sample = samples.get(pod.name)
        if pod.deleting or pod.phase == "Failed":
            trusted.pop(pod.name, None)
        elif pod.phase == "Pending":
            trusted.pop(pod.name, None)
            unready.append(pod.name)
        elif sample is None:
            missing.append(pod.name)
        elif starting_since is not None and _is_unready(pod, sample, starting_since, options):
            del trusted[pod.name]
            unready.append(pod.name)
        else:
            ready += 1
    return PodGroups(ready, unready, missing, trusted)


def scalar_reading(metric: ObjectMetric | ExternalMetric, value: int, pods: Iterable[Pod]) -> ScalarReading:
    """The value of an Object or External metric; for a Value target with the number of ready pods."""
    if not counts_ready(metric):
        return ScalarReading(value=value, ready=0)
    pods = tuple(pods)
    if not pods:
        text = "unable to calculate ready pods: no pods returned by selector while calculating replica count"
        return ScalarReading(value=value, ready=absent_metric(metric, text))
    return ScalarReading(value=value, ready=sum(pod.phase == "Running" and pod.ready == "True" for pod in pods))


def counts_ready(metric: Metric) -> bool:
    """Whether the ready pods are counted for a metric: of one value for the whole target only for a Value target."""
    if isinstance(metric, ObjectMetric):
        return metric.target.type == "Value"
    return not isinstance(metric, ExternalMetric) or metric.target.average_value is None


def pod_request(pod: Pod, resource: str, container: str | None) -> int | str:
    """The request of the pod, or of one of its containers, in milli-units; else a text that says what is missing."""
    if container is None and pod.pod_requests is not None and any(map(_is_pod_level, pod.pod_requests)):
        return _pod_level_request(pod, resource)
    total, has_container = 0, False
    for candidate in pod.containers:
        if (candidate.is_init and not candidate.restartable) or (container is not None and candidate.name != container):
            continue
        request = candidate.requests.get(resource)
        if request is None:
            return f"missing request for {resource} in container {candidate.name} of Pod {pod.name}"
        total += request
        has_container = True
    if container is not None and not has_container:
        return f"container {container} not found in Pod {pod.name}"
    return total


def _is_pod_level(resource: str) -> bool:
    """Whether a pod-level request for this resource makes all requests of the pod pod-level requests."""
    return resource in {"cpu", "memory"} or resource.startswith("hugepages-")


def _pod_level_request(pod: Pod, resource: str) -> int | str:
    parts = (pod.pod_requests or {}, pod.overhead, *(c.requests for c in pod.containers))
    if not any(resource in requests for requests in parts):
        return f"missing pod-level request for {resource} in Pod {pod.name}"
    return scheduled_request(pod, resource)


def scheduled_request(pod: Pod, resource: str) -> int:
    """
    The milli-units that the scheduler finds a node for; 0 if nothing is requested.

    The pod's own request, else the sum of its containers or its largest init step; and its overhead.
    """
    if pod.pod_requests is not None and resource in pod.pod_requests:
        return pod.pod_requests[resource] + pod.overhead.get(resource, 0)
    total = sum(c.requests.get(resource, 0) for c in pod.containers if not c.is_init or c.restartable)
    inits = ((c.restartable, c.requests.get(resource, 0)) for c in pod.containers if c.is_init)
    return max(total, largest_init_step(inits)) + pod.overhead.get(resource, 0)


def largest_init_step(inits: Iterable[tuple[bool, int]]) -> int:
    """
    What a pod's largest init step requests: an init container runs beside the earlier sidecars alone.

    inits: of each init container whether it is a sidecar, and its request; in their order.
    """
    sidecars = largest = 0
    for is_sidecar, request in inits:
        largest = max(largest, sidecars + request)
        if is_sidecar:
            sidecars += request
    return largest


def _is_unready(pod: Pod, sample: Sample, starting_since: Nanoseconds, options: ControllerOptions) -> bool:
    """
    Whether a CPU sample is not trusted: a starting pod uses CPU that says nothing about load.

    starting_since: pods that started after this instant are still initializing.
    """
    if not pod.ready or pod.start_time is None:
        return True
    if pod.start_time > starting_since:
        return pod.ready == "False" or not is_of_ready_pod(pod, sample)
    # After it, a pod that has not been ready since its start still counts as starting.
    return pod.ready == "False" and pod.start_time + options.initial_readiness_delay > pod.ready_since


def is_of_ready_pod(pod: Pod, sample: Sample) -> bool:
    """Whether a sample's whole window lies after the pod became ready: during initialization it counts only then."""
    return sample.at >= pod.ready_since + sample.window


def absent_metric(metric: Metric, text: str) -> Absent:
    """The absence of a metric, with the upstream's inner and outer text around `text`."""
    inner = wrapped = text
    if isinstance(metric, ResourceMetric):
        kind = "usage" if metric.target.average_value is not None else "utilization"
        inner = wrapped = f"failed to get {metric.name} {kind}: {text}"
    elif isinstance(metric, ObjectMetric) and metric.target.type == "AverageValue":
        wrapped = f"failed to get {metric.name} object metric: {text}"
    elif isinstance(metric, ExternalMetric) and metric.target.average_value is not None:
        wrapped = f"failed to get {metric.name} external metric: {text}"
    elif isinstance(metric, ExternalMetric):
        wrapped = f"failed to get external metric {metric.name}: {text}"
    return Absent(failure_reason(metric), inner, _outer(metric) + wrapped)


def without_target(metric: Metric) -> Absent | None:
    """
    The absence of a metric without a target that fits its source; None if it has one.

    Validation accepts an Object metric with any target, even one that does not fit its type.
    """
    if isinstance(metric, ResourceMetric):  # first, as most are
        target = metric.target
        value = target.average_utilization if target.average_value is None else target.average_value
        source = "resource"
        text = "neither an average utilization target nor an average value (usage) target was set"
    elif isinstance(metric, PodsMetric | UnknownMetric):
        return None
    elif isinstance(metric, ObjectMetric):
        target, text = metric.target, _NO_TARGET
        value = {"Value": target.value, "AverageValue": target.average_value}.get(target.type)
        source = "object"
    else:
        target, text = metric.target, _NO_TARGET
        value = target.value if target.average_value is None else target.average_value
        source = "external"
    if value is not None:
        return None
    text = f"invalid {source} metric source: {text}"
    return Absent(failure_reason(metric), text, _outer(metric) + text)


def _outer(metric: Metric) -> str:
    """The upstream's prefix for an absent metric in the message of the whole computation."""
    if isinstance(metric, UnknownMetric):
        return ""
    if isinstance(metric, PodsMetric):
        return "failed to get pods metric value: "
    if isinstance(metric, ObjectMetric):
        return "failed to get object metric value: "
    if isinstance(metric, ExternalMetric):
        return f"failed to get {metric.name} external metric value: "
    if metric.container is not None:
        return f"failed to get {metric.container} container metric value: "
    return f"failed to get {metric.name} resource metric value: "
