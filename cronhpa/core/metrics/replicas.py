"""
A reading becomes a replica count. Tolerance, rounding and the treatment of unready and missing pods live here.

Float expressions are the upstream's, term by term: 1.1 * 10 rounds up to 12, not 11, and users rely on it. Integer
division truncates toward zero; ratios are float divisions.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from cronhpa.core.metrics.arithmetic import INT64_MAX, divide, quotient, round_up
from cronhpa.core.metrics.pod_counts import absent_metric, without_target
from cronhpa.core.model.decision import MetricProposal
from cronhpa.core.model.observation import Absent, PodCounts, Reading, ScalarReading
from cronhpa.core.model.spec import (
    Behavior,
    ControllerOptions,
    ExternalMetric,
    LabelSelector,
    Metric,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
)


class Tolerance(Struct, frozen=True):
    down: float
    up: float

    def covers(self, ratio: float) -> bool:
        return (1.0 - self.down) <= ratio <= (1.0 + self.up)


def tolerance(behavior: Behavior | None, options: ControllerOptions) -> Tolerance:
    """The band around 1 in which a ratio changes nothing, per direction."""
    down = behavior.scale_down.tolerance if behavior else None
    up = behavior.scale_up.tolerance if behavior else None
    return Tolerance(options.tolerance if down is None else down, options.tolerance if up is None else up)


def measure(
    metric: Metric, reading: Reading, spec_replicas: int, status_replicas: int, band: Tolerance, headroom_percent: int
) -> MetricProposal | Absent:
    """
    The proposal of this metric, or why it has none.

    headroom_percent is added to the measured usage, never to a replica count: that would feed back into the next
    reading.
    """
    unstated = without_target(metric)
    if unstated is not None:
        return unstated
    if isinstance(reading, Absent):
        return reading
    if isinstance(reading, PodCounts):
        assert isinstance(metric, ResourceMetric | PodsMetric)
        return _from_pod_counts(metric, reading, spec_replicas, band, headroom_percent)
    assert isinstance(metric, ObjectMetric | ExternalMetric)
    return _from_scalar(metric, reading, spec_replicas, status_replicas, band, headroom_percent)


def _from_pod_counts(
    metric: ResourceMetric | PodsMetric, reading: PodCounts, current: int, band: Tolerance, headroom: int
) -> MetricProposal | Absent:
    is_utilization = isinstance(metric, ResourceMetric) and metric.target.average_value is None
    if is_utilization and reading.request == 0:
        return absent_metric(metric, "no metrics returned matched known pods")

    target = (metric.target.average_utilization if is_utilization else metric.target.average_value) or 0

    def rate(usage: int, request: int, count: int) -> tuple[int, float]:
        """The average as status shows it, and its ratio to the target."""
        loaded = quotient(usage * (100 + headroom), 100)
        if is_utilization:
            return quotient(usage * 100, request), divide(quotient(loaded * 100, request), target)
        return quotient(usage, count), divide(quotient(loaded, count), target)

    shown, ratio = rate(reading.usage, reading.request, reading.counted)
    replicas = _replicas(reading, current, band, ratio, rate)
    if is_utilization:
        return MetricProposal(_name(metric), replicas, None, quotient(reading.usage, reading.matched), shown)
    return MetricProposal(_name(metric), replicas, None, shown)


def _replicas(
    reading: PodCounts, current: int, band: Tolerance, ratio: float, rate: Callable[[int, int, int], tuple[int, float]]
) -> int:
    """
    The count for a ratio to the target.

    If pods are unready or missing, the ratio is taken again by `rate`, with their assumed usage, request and count.
    """
    with_unready = reading.unready > 0 and ratio > 1.0
    if not with_unready and not reading.missing:
        return current if band.covers(ratio) else round_up(ratio * float(reading.ready))

    usage, request, count = reading.usage, reading.request, reading.counted
    if reading.missing and ratio < 1.0:
        # Missing pods count as fully busy, so that a missing sample cannot scale the target down.
        usage, request, count = (
            usage + reading.missing_usage,
            request + reading.missing_request,
            count + reading.missing,
        )
    elif reading.missing and ratio > 1.0:
        request, count = request + reading.missing_request, count + reading.missing
    if with_unready:
        request, count = request + reading.unready_request, count + reading.unready
    _, cautious = rate(usage, request, count)
    if band.covers(cautious) or (ratio < 1.0 < cautious) or (cautious < 1.0 < ratio):
        return current
    # The number of pods with samples may differ from the replicas: a proposal in the wrong direction is dropped.
    proposal = round_up(cautious * float(count))
    return min(proposal, current) if cautious < 1.0 else max(proposal, current)


def _from_scalar(
    metric: ObjectMetric | ExternalMetric,
    reading: ScalarReading,
    spec_replicas: int,
    status_replicas: int,
    band: Tolerance,
    headroom: int,
) -> MetricProposal | Absent:
    value = reading.value
    usage = quotient(value * (100 + headroom), 100)
    average = metric.target.average_value
    if isinstance(metric, ObjectMetric) and metric.target.type == "Value":
        average = None
    if average is not None:
        ratio = divide(float(usage), float(average) * float(status_replicas))
        proposal = status_replicas if band.covers(ratio) else round_up(divide(usage, average))
        shown = divide(value, status_replicas)
        rounded = INT64_MAX if value >= INT64_MAX else round_up(shown, INT64_MAX)
        return MetricProposal(name=_name(metric), replicas=proposal, average_value=rounded)

    ratio = divide(usage, metric.target.value or 0)
    if spec_replicas == 0:
        return MetricProposal(name=_name(metric), replicas=round_up(ratio), value=value)
    if band.covers(ratio):
        return MetricProposal(name=_name(metric), replicas=spec_replicas, value=value)
    if isinstance(reading.ready, Absent):
        return reading.ready
    return MetricProposal(name=_name(metric), replicas=round_up(ratio * float(reading.ready)), value=value)


def _name(metric: Metric) -> str:
    if isinstance(metric, ResourceMetric):
        if metric.target.average_value is not None:
            return f"{metric.name} resource"
        return f"{metric.name} {'container ' if metric.container else ''}resource utilization (percentage of request)"
    if isinstance(metric, PodsMetric):
        return f"pods metric {metric.name}"
    if isinstance(metric, ObjectMetric) and metric.target.type == "Value":
        return f"{metric.described.kind} metric {metric.name}"
    assert isinstance(metric, ObjectMetric | ExternalMetric)
    # The upstream calls an Object metric with an AverageValue target external, too.
    return f"external metric {metric.name}({selector_text(metric.selector)})"


def selector_text(selector: LabelSelector | None) -> str:
    """A label selector as Go's %+v prints a pointer to it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in selector.match_labels)
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{term.key},Operator:{term.operator},Values:[{' '.join(term.values)}],}},"
        for term in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
