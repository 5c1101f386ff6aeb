"""The metric queries of one tick of a namespace: one LIST of its pod metrics, and one query of each other metric."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from cronhpa.core.observation import Absent
from cronhpa.core.observe import Measurement
from cronhpa.core.spec import ExternalMetric, Metric, ObjectMetric, PodsMetric, ResourceMetric, UnknownMetric
from cronhpa.kube.metric_values import samples_of
from cronhpa.kube.metrics import MetricReader, PodMetricsByName


class MetricQueries:
    """list_pod_metrics: lists the namespace's pod metrics once, however often it is awaited."""

    def __init__(
        self, list_pod_metrics: Callable[[], Awaitable[PodMetricsByName | Absent]], reader: MetricReader
    ) -> None:
        self.list_pod_metrics = list_pod_metrics
        self._reader = reader

    async def measure(self, metric: Metric, namespace: str, selector: str, pod_names: Sequence[str]) -> Measurement:
        """The measurement of a metric over the pods with these names."""
        match metric:
            case ResourceMetric():
                listed = await self.list_pod_metrics()
                if isinstance(listed, Absent):
                    return listed
                return samples_of(metric, [listed[name] for name in pod_names if name in listed])
            case PodsMetric():
                return await self._reader.pods(namespace, metric, selector)
            case ObjectMetric():
                return await self._reader.object(namespace, metric)
            case ExternalMetric():
                return await self._reader.external(namespace, metric)
            case UnknownMetric():
                return Absent("UnknownMetric", metric.given)
