"""What a metric says about load: that of a reading, that at which one pod meets its target, and whose it is."""

from __future__ import annotations

from cronhpa.core.model.observation import Absent, PodCounts, Reading
from cronhpa.core.model.quantity import MILLI
from cronhpa.core.model.spec import Metric, ResourceMetric, Spec, UnknownMetric


def target_load(metric: Metric, request: int | None) -> float | None:
    """
    The load at which one pod meets its target, in the load's own unit; None if the target is not per pod.

    request: milli-units; a Utilization target needs it.
    """
    if isinstance(metric, UnknownMetric):
        return None
    if metric.target.average_value is not None:
        return metric.target.average_value / MILLI
    if not request or not metric.target.average_utilization:
        return None
    return request * metric.target.average_utilization / 100 / MILLI


def container_of(spec: Spec, metric: str) -> str | None:
    """The container whose usage a metric of this name is; None if it is that of whole pods, or of no resource."""
    return next((one.container for one in spec.metrics if isinstance(one, ResourceMetric) and one.name == metric), None)


def load_of(reading: Reading) -> float | None:
    """The load of a reading in the metric's own unit, as it is recorded and forecast; None while absent."""
    if isinstance(reading, Absent):
        return None
    return (reading.load if isinstance(reading, PodCounts) else reading.value) / MILLI
