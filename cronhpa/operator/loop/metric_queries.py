"""
The metric queries of one tick of a namespace: one LIST of its pod metrics, and one query for each other metric.

A metric with the name of a source is queried from that source, any other metric from the metrics APIs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from cronhpa.core.metrics.observe import Measurement
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ExternalMetric, Metric, ObjectMetric, PodsMetric, ResourceMetric, UnknownMetric
from cronhpa.kube.metrics import MetricReader, PodMetricsByName
from cronhpa.operator.loop.hang_limiter import HangLimiter
from cronhpa.sources.metric_sources import MetricSources
from cronhpa.sources.source import MeasuredObject


class MetricQueries:
    """
    list_pod_metrics: lists the namespace's pod metrics, once in a tick, however often it is awaited. limiters: of the
    requests to the metrics APIs, by the type of metric.
    """

    def __init__(
        self,
        list_pod_metrics: Callable[[str | None], Awaitable[PodMetricsByName | Absent]],
        reader: MetricReader,
        sources: MetricSources,
        limiters: Mapping[type[Metric], HangLimiter],
    ) -> None:
        self.list_pod_metrics = list_pod_metrics
        self._reader = reader
        self._sources = sources
        self._limiters = limiters

    async def measure(self, metric: Metric, measured: MeasuredObject, selector: str) -> Measurement:
        """The measurement of a metric over the pods of an object, which `selector` selects."""
        namespace = measured.namespace
        match metric:
            case ResourceMetric():
                pod_metrics = await self.list_pod_metrics(metric.name)
                if isinstance(pod_metrics, Absent):
                    return pod_metrics
                return pod_metrics.samples(metric, [pod.name for pod in measured.pods])
            case PodsMetric() | ExternalMetric():
                value = await self._sources.value(metric, measured)
                if value is not None:
                    return value
                value = await self._limiters[type(metric)].ask(
                    (namespace, metric.name),
                    lambda: (
                        self._reader.pods(namespace, metric, selector)
                        if isinstance(metric, PodsMetric)
                        else self._reader.external(namespace, metric)
                    ),
                )
                return self._sources.explained(value) if isinstance(value, Absent) else value
            case ObjectMetric():
                return await self._limiters[ObjectMetric].ask(
                    (namespace, metric.name), lambda: self._reader.object(namespace, metric)
                )
            case UnknownMetric():
                return Absent("UnknownMetric", metric.given)
