"""What /metrics tells of named sources: requests to each, and whether their file is in force."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cronhpa.sources.metric_sources import MetricSources


class SourceMetrics(Collector):
    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "cronhpa_source_requests", "Requests to a source: queries, or scrapes of single pods.", labels=["source"]
        )
        for name, count in self._sources.requests.items():
            requests.add_metric([name], count)
        yield requests
        yield GaugeMetricFamily(
            "cronhpa_sources_broken",
            "1 while the file of sources cannot be used: the former sources are in force.",
            int(bool(self._sources.problem)),
        )
