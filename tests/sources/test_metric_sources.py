"""cronhpa.sources.metric_sources: which metric is a source's, and what follows from a name or a selector."""

import json

from aiohttp import web

from cronhpa.core.metrics.observe import INVALID_METRIC_SELECTOR
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ExternalMetric, LabelSelector, MetricTarget, PodsMetric
from cronhpa.sources.metric_sources import MetricSources
from cronhpa.sources.parse import parse_sources
from sources.answering_sources import NOON, measured, pod, serving, vector

TARGET = MetricTarget("AverageValue", average_value=10_000)


def external(name, selector=None):
    return ExternalMetric(name, TARGET, selector)


def of_pods(name, selector=None):
    return PodsMetric(name, TARGET, selector)


def defined(**sources):
    return parse_sources(json.dumps({"sources": sources}), "test", default_url="http://127.0.0.1:9")


async def with_sources(digests=None, **sources):
    made = MetricSources(lambda: NOON)
    await made.replace(defined(**sources), digests or {})
    return made


REQUESTS = {"prometheus": {"query": "up"}}
INFLIGHT = {"pods": {"port": 1, "metric": "inflight", "podNetworks": ["127.0.0.0/8"]}}
LENGTH = {"url": {"url": "http://127.0.0.1:9/", "format": "text"}}


async def test_a_name_that_is_no_source_is_left_to_the_metrics_apis():
    sources = await with_sources(requests=REQUESTS, inflight=INFLIGHT)

    assert await sources.value(external("queue"), measured()) is None
    assert await sources.value(of_pods("queue"), measured()) is None
    await sources.close()


async def test_each_kind_of_source_answers_by_its_name():
    async def answer(request):
        if request.path == "/queue":
            return web.json_response({"length": 9})
        return vector(({}, "42")) if request.method == "POST" else web.Response(text="inflight 7\n")

    async with serving(answer) as port:
        sources = await with_sources(
            requests={"prometheus": {"query": "up", "url": f"http://127.0.0.1:{port}"}},
            inflight={"pods": INFLIGHT["pods"] | {"port": port}},
            queue={"url": {"url": f"http://127.0.0.1:{port}/queue", "value": "length"}},
        )
        assert 9000 == await sources.value(external("queue"), measured())
        assert 42_000 == await sources.value(external("requests"), measured())
        samples = await sources.value(of_pods("inflight"), measured(pods=[pod(1)]))
        assert {"shop-1": 7000} == {name: sample.value for name, sample in samples.items()}
        assert {"requests": 1, "inflight": 1, "queue": 1} == sources.requests
        await sources.close()


async def test_an_absence_names_its_source():
    sources = await with_sources(requests=REQUESTS, inflight=INFLIGHT)

    answer = await sources.value(external("requests"), measured())
    assert answer.message.startswith("source requests: it cannot be reached")
    answer = await sources.value(of_pods("inflight"), measured())
    assert answer.message.startswith("source inflight: none of the target's pods is ready")
    await sources.close()


async def test_a_source_that_is_asked_as_the_other_type_says_which_type_it_is_of():
    sources = await with_sources(requests=REQUESTS, inflight=INFLIGHT, length=LENGTH)

    wrong = await sources.value(external("inflight"), measured())
    assert Absent("WrongType", "source inflight: it reads pods: ask for it by type: Pods") == wrong
    wrong = await sources.value(of_pods("requests"), measured())
    assert Absent("WrongType", "source requests: it asks a Prometheus: ask for it by type: External") == wrong
    wrong = await sources.value(of_pods("length"), measured())
    assert Absent("WrongType", "source length: it asks a URL: ask for it by type: External") == wrong
    await sources.close()


async def test_a_selector_is_refused_rather_than_ignored():
    """The upstream's reason for a selector that cannot be used; also an empty one, which selects everything there."""
    sources = await with_sources(requests=REQUESTS, inflight=INFLIGHT)
    for selector in (LabelSelector(), LabelSelector((("queue", 'a"} or up'),))):
        for answer in (
            await sources.value(external("requests", selector), measured()),
            await sources.value(of_pods("inflight", selector), measured()),
        ):
            assert INVALID_METRIC_SELECTOR == answer.reason
            assert "takes no selector" in answer.message
    await sources.close()


async def test_a_replacement_keeps_what_is_as_before_and_counts_on():
    async def answer(request):
        return vector(({}, "42"))

    async with serving(answer) as port:
        url = f"http://127.0.0.1:{port}"
        same = {"prometheus": {"query": "up", "url": url}}
        sources = await with_sources(same=same, other=same, gone=same)
        for name in ("same", "other", "gone"):
            await sources.value(external(name), measured())
        other = {"prometheus": {"query": "up", "url": url, "maxAgeSeconds": 60}}
        await sources.replace(defined(same=same, other=other), {})
        for name in ("same", "other"):
            assert 42_000 == await sources.value(external(name), measured())
        assert await sources.value(external("gone"), measured()) is None
        # The answer of a moment ago is shared by a source that stayed, and not by one that was made anew.
        assert {"same": 1, "other": 2, "gone": 1} == sources.requests
        await sources.close()


async def test_queries_for_one_object_at_the_prometheus_of_the_past_are_told():
    url = "http://prometheus:9090"
    joined = {"query": "sum by (ns) (x)", "url": url, "join": {"namespace": "ns"}}
    sources = await with_sources(
        one={"prometheus": {"query": "x", "url": url}},
        elsewhere={"prometheus": {"query": "x", "url": "http://other:9090"}},
        many={"prometheus": joined},
        inflight=INFLIGHT,
    )

    assert {"one": "x"} == sources.queries_at(f"{url}/")
    await sources.close()


async def test_other_certificates_make_a_source_anew():
    async def answer(request):
        return vector(({}, "42"))

    async with serving(answer) as port:
        stated = {"one": {"prometheus": {"query": "up", "url": f"http://127.0.0.1:{port}"}}}
        sources = await with_sources({"one": b"old"}, **stated)
        await sources.value(external("one"), measured())
        await sources.replace(defined(**stated), {"one": b"new"})
        await sources.value(external("one"), measured())

        assert {"one": 2} == sources.requests
        await sources.close()
