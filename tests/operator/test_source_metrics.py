"""cronhpa.operator.source_metrics: requests to sources and a broken file, as Prometheus reads them."""

from prometheus_client import CollectorRegistry, generate_latest

from cronhpa.core.spec import ExternalMetric, MetricTarget, TargetRef
from cronhpa.operator.source_metrics import SourceMetrics
from cronhpa.sources.definition import parse_sources
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.metric_sources import MetricSources


async def test_requests_are_told_by_source_and_a_broken_file_as_one():
    sources = MetricSources(lambda: 0)
    text = "sources: {requests: {prometheus: {url: 'http://127.0.0.1:9', query: up}}}"
    await sources.replace(parse_sources(text, "test"), {})
    registry = CollectorRegistry()
    registry.register(SourceMetrics(sources))
    shop = MeasuredObject("prod", "shop", TargetRef("apps/v1", "Deployment", "shop"), (), 1)

    await sources.external(ExternalMetric("requests", MetricTarget("Value", value=1)), shop)
    sources.problem = "a query is wrong"
    told = generate_latest(registry).decode()
    await sources.close()

    assert 'cronhpa_source_requests_total{source="requests"} 1.0' in told
    assert "cronhpa_sources_broken 1.0" in told
