"""Pods and measurements become an Observation: a reading for each metric, the pods' start-up time and requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil

from cronhpa.core.metrics.pod_counts import absent_metric, pod_counts, pod_request, scalar_reading
from cronhpa.core.metrics.replicas import selector_text
from cronhpa.core.model.instant import HOUR, SECOND, Nanoseconds
from cronhpa.core.model.observation import Absent, NodeStart, Observation, Pod, Reading, Sample, Scale
from cronhpa.core.model.spec import (
    ExternalMetric,
    Metric,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    Spec,
    UnknownMetric,
)

# The raw answer for one metric: samples by pod, one value, or the reason why there is none.
Measurement = Mapping[str, Sample] | int | Absent
INVALID_METRIC_SELECTOR = "InvalidMetricSelector"
START_UP_GRAIN = 5 * SECOND
NODE_WAIT = 20 * SECOND
"""A pod that found room no sooner waited for a node: a busy scheduler takes seconds, a node tens of them."""
_ENDED = {"Succeeded", "Failed"}
# A pod that became Ready later than this after its creation was not starting all that time.
_START_UP_READ = HOUR
START_UP_MAX = _START_UP_READ + START_UP_GRAIN


def observe(
    spec: Spec,
    scale: Scale | Absent,
    pods: Sequence[Pod],
    measurements: Sequence[Measurement],
    now: Nanoseconds,
    selector_problem: Absent | None = None,
    unseen: Absent | None = None,
) -> Observation:
    """
    The observation of one reconciliation.

    pods: matched by the scale's selector. measurements: one for each of the spec's metrics, in order.
    """
    if isinstance(scale, Absent):
        return Observation(scale=scale)
    return Observation(
        scale=scale,
        selector_problem=selector_problem,
        readings=tuple(
            read(metric, measured, pods, now, spec) for metric, measured in zip(spec.metrics, measurements, strict=True)
        ),
        start_up=start_up(pods) if spec.looks_ahead else None,
        node_start=node_start(pods) if spec.looks_ahead else None,
        request_per_pod=requests_per_pod(spec, pods),
        unseen=unseen,
    )


def samples_of(measured: Measurement, pods: Sequence[Pod]) -> Measurement:
    """The measurement without samples of other pods: a metrics API selects by labels alone."""
    if not isinstance(measured, Mapping):
        return measured
    return {pod.name: measured[pod.name] for pod in pods if pod.name in measured}


def active(pods: Sequence[Pod]) -> int:
    """The number of pods that a workload counts in its status: those that have not ended and are not being deleted."""
    return sum(not pod.deleting and pod.phase not in _ENDED for pod in pods)


def read(metric: Metric, measured: Measurement, pods: Sequence[Pod], now: Nanoseconds, spec: Spec) -> Reading:
    """The reading of one metric. A measurement that failed becomes Absent, worded as upstream."""
    if isinstance(metric, UnknownMetric):
        return absent_metric(metric, f'unknown metric source type "{metric.given}"')
    if isinstance(measured, Absent):
        # With an invalid selector nothing was fetched, so no prefix says "fetching failed".
        prefix = "" if measured.reason == INVALID_METRIC_SELECTOR else _fetching(metric, spec.namespace)
        return absent_metric(metric, prefix + measured.message)
    if isinstance(metric, ResourceMetric | PodsMetric):
        assert isinstance(measured, Mapping)
        return pod_counts(metric, pods, _recent(measured, now, spec.options.metric_max_age), now, spec.options)
    assert isinstance(measured, int)
    return scalar_reading(metric, measured, pods)


def _recent(samples: Mapping[str, Sample], now: Nanoseconds, max_age: Nanoseconds | None) -> Mapping[str, Sample]:
    """
    The samples at most `max_age` away from now; all of them if it is None.

    A sample of the future counts as an old one: an adapter whose clock is an hour ahead, and that stops, would have
    recent samples for an hour.
    """
    if max_age is None:
        return samples
    return {name: sample for name, sample in samples.items() if abs(now - sample.at) <= max_age}


def _fetching(metric: Metric, namespace: str) -> str:
    """The upstream's prefix for a metric that could not be fetched."""
    if isinstance(metric, ResourceMetric):
        return f"unable to get metrics for resource {metric.name}: "
    if isinstance(metric, ObjectMetric):
        return f"unable to get metric {metric.name}: {metric.described.kind} on {namespace} {metric.described.name}/"
    if isinstance(metric, ExternalMetric):
        return f"unable to get external metric {namespace}/{metric.name}/{selector_text(metric.selector)}: "
    assert isinstance(metric, PodsMetric)
    return f"unable to get metric {metric.name}: "


def start_up(pods: Sequence[Pod]) -> Nanoseconds | None:
    """
    The 90th percentile of creation to Ready, rounded up to five seconds; None while no pod is Ready.

    Of a pod that waited for a node, from then on: with room it would have started at once. The API cuts both instants
    to the second, so one second is added. At most START_UP_MAX.
    """
    return _percentile(
        duration - pod.waited if pod.waited >= NODE_WAIT else duration for pod, duration in _started(pods)
    )


def node_start(pods: Sequence[Pod]) -> NodeStart | None:
    """As `start_up`, wait included, of the pods alone that waited for a node; None if there are none."""
    late = [(pod, duration) for pod, duration in _started(pods) if pod.waited >= NODE_WAIT]
    length = _percentile(duration for _, duration in late)
    return None if length is None else NodeStart(length, max(pod.created for pod, _ in late))


def _started(pods: Sequence[Pod]) -> Iterator[tuple[Pod, Nanoseconds]]:
    """The pods that became Ready, each with its time from creation to Ready."""
    for pod in pods:
        if pod.ready == "True" and not pod.deleting:
            duration = (pod.ready_since if pod.first_ready is None else pod.first_ready) - pod.created
            if 0 <= duration <= _START_UP_READ:
                yield pod, duration


def _percentile(durations: Iterable[Nanoseconds]) -> Nanoseconds | None:
    ordered = sorted(max(duration, 0) for duration in durations)
    if not ordered:
        return None
    longest = ordered[ceil(0.9 * len(ordered)) - 1] + SECOND
    return -(-longest // START_UP_GRAIN) * START_UP_GRAIN


def requests_per_pod(spec: Spec, pods: Sequence[Pod]) -> dict[str, int]:
    """
    The average request of a pod, milli-units, for each resource with a utilization target.

    Of several metrics of one resource the first counts, as for the forecast.
    """
    averages: dict[str, int] = {}
    for metric in spec.metrics:
        if not isinstance(metric, ResourceMetric) or metric.target.average_utilization is None:
            continue
        if metric.name in averages:
            continue
        requests = [pod_request(pod, metric.name, metric.container) for pod in pods]
        present = [request for request in requests if isinstance(request, int)]
        if present:
            averages[metric.name] = sum(present) // len(present)
    return averages
