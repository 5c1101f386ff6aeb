"""What was seen becomes an Observation: one reading a metric, and what the target's own pods tell about themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from cronhpa.core.instant import HOUR, SECOND, Nanoseconds
from cronhpa.core.observation import Absent, Observation, Pod, Reading, Sample, Scale
from cronhpa.core.reactive.replicas import selector_text
from cronhpa.core.reactive.pod_counts import absent_metric, scalar_reading, pod_request, group_pods
from cronhpa.core.spec import ExternalMetric, Metric, ObjectMetric, PodsMetric, ResourceMetric, Spec, UnknownMetric

# What was measured of one metric: samples by pod, one value, or why there is nothing.
Measurement = Mapping[str, Sample] | int | Absent
INVALID_METRIC_SELECTOR = "InvalidMetricSelector"
_START_UP_GRAIN = 5 * SECOND


def observe(
    spec: Spec,
    scale: Scale | Absent,
    pods: Sequence[Pod],
    measurements: Sequence[Measurement],
    now: Nanoseconds,
    selector_problem: Absent | None = None,
) -> Observation:
    """
    The observation of one turn.

    pods: those that the scale's selector matches. measurements: one for each of the spec's metrics, in order.
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
        request_per_pod=requests_per_pod(spec, pods) if spec.looks_ahead else {},
    )


def read(metric: Metric, measured: Measurement, pods: Sequence[Pod], now: Nanoseconds, spec: Spec) -> Reading:
    """One metric's reading; what could not be fetched is absent with the upstream's words around the reason."""
    if isinstance(metric, UnknownMetric):
        return absent_metric(metric, f'unknown metric source type "{metric.given}"')
    if isinstance(measured, Absent):
        # A selector that says nothing asks nobody, so nothing was fetched.
        prefix = "" if measured.reason == INVALID_METRIC_SELECTOR else _fetching(metric, spec.namespace)
        return absent_metric(metric, prefix + measured.message)
    if isinstance(metric, ResourceMetric | PodsMetric):
        assert isinstance(measured, Mapping)
        oldest = None if spec.options.metric_max_age is None else now - spec.options.metric_max_age
        samples = measured if oldest is None else {name: item for name, item in measured.items() if item.at >= oldest}
        return group_pods(metric, pods, samples, now, spec.options)
    assert isinstance(measured, int)
    return scalar_reading(metric, measured, pods)


def _fetching(metric: Metric, namespace: str) -> str:
    """The upstream's words in front of an answer that could not be had."""
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

    Both instants are cut to the second, so up to one second more may have passed. A pod that turned Ready over an hour
    after its creation was not starting all that time.
    """
    taken = sorted(
        (pod.ready_since if pod.first_ready is None else pod.first_ready) - pod.created
        for pod in pods
        if pod.ready == "True" and not pod.deleting
    )
    taken = [item for item in taken if 0 <= item <= HOUR]
    if not taken:
        return None
    longest = taken[ceil(0.9 * len(taken)) - 1] + SECOND
    return -(-longest // _START_UP_GRAIN) * _START_UP_GRAIN


def requests_per_pod(spec: Spec, pods: Sequence[Pod]) -> dict[str, int]:
    """
    The average request of a pod, milli-units, for each resource that a utilization target is stated for.

    Of several metrics of one resource the first counts, as for the forecast.
    """
    found: dict[str, int] = {}
    for metric in spec.metrics:
        if not isinstance(metric, ResourceMetric) or metric.target.average_utilization is None:
            continue
        if metric.name in found:
            continue
        requests = [pod_request(pod, metric.name, metric.container) for pod in pods]
        known = [request for request in requests if isinstance(request, int)]
        if known:
            found[metric.name] = sum(known) // len(known)
    return found
