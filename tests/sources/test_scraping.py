"""cronhpa.sources.pods: pods that are asked, pods that do not answer, and addresses that are no pod's."""

import asyncio
import gzip
import json
import time
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from msgspec.structs import replace
from prometheus_client import CONTENT_TYPE_LATEST

from cronhpa.core.metrics.pod_counts import pod_counts
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ControllerOptions, MetricTarget, PodsMetric
from cronhpa.sources.no_answer import NoAnswerError
from cronhpa.sources.page_process import PageProcess
from cronhpa.sources.parse import parse_sources
from cronhpa.sources.pods import PodScrapes, address_of
from sources.answering_sources import NOON, measured, pod, serving
from sources.pod_servers import raw_pods

ADDRESSES = tuple(f"127.0.0.{number}" for number in range(1, 6))
AVERAGE = PodsMetric("inflight", MetricTarget("AverageValue", average_value=10_000))


def definition(port=8080, **fields):
    stated = {"port": port, "metric": "inflight", "podNetworks": ["127.0.0.0/8"], **fields}
    stated = {name: value for name, value in stated.items() if value is not None}
    return parse_sources(json.dumps({"sources": {"inflight": {"pods": stated}}}), "test")["inflight"]


@asynccontextmanager
async def scraping(port, **fields):
    """A source of pods, with the process that reads their pages."""
    process = PageProcess()
    try:
        yield PodScrapes("inflight", definition(port, **fields), lambda: NOON, process)
    finally:
        await process.close()


async def sampled(port, pods, **fields):
    async with scraping(port, **fields) as asked:
        return await asked.value(measured(pods=pods))


def page(text):
    return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE_LATEST})


def pod_of(request):
    """The number of the pod that was asked: its address is 127.0.0.NUMBER."""
    return int(request.transport.get_extra_info("sockname")[0].rpartition(".")[2])


def values(samples):
    return {name: sample.value for name, sample in samples.items()}


async def test_each_ready_pod_is_asked_for_its_own_number():
    async def answer(request):
        assert "/metrics" == request.path
        return page(f'inflight{{a="1"}} {pod_of(request)}\ninflight{{a="2"}} 10\nother 7\n')

    pods = [pod(1), pod(2), pod(3, ready="False"), pod(4, ip="")]
    async with serving(answer, ADDRESSES) as port:
        samples = await sampled(port, pods)

    assert {"shop-1": 11_000, "shop-2": 12_000} == values(samples)
    assert {NOON} == {sample.at for sample in samples.values()}


@pytest.mark.parametrize("trouble", ["500", "slow", "empty", "NaN", "redirect", "long", "cut"])
async def test_a_pod_without_an_answer_is_missing_and_no_zero(trouble):
    """Of two pods with 25 and nothing, at 10 a pod: 25 + 10 for the missing one where load is low, and never 25 + 0."""

    async def answer(request):
        if pod_of(request) == 1:
            return page("inflight 25\n")
        if trouble == "slow":
            await asyncio.sleep(3)
        if trouble == "cut":
            request.transport.abort()
        texts = {"empty": "", "NaN": "inflight NaN\n", "long": "# x\n" * 2_000_000}
        status = {"500": 500, "redirect": 302}.get(trouble, 200)
        return web.Response(status=status, text=texts.get(trouble, "inflight 1\n"), headers={"Location": "/ok"})

    pods = [pod(1), pod(2)]
    async with serving(answer, ADDRESSES) as port:
        samples = await sampled(port, pods, timeoutSeconds=2)
    counts = pod_counts(AVERAGE, pods, samples, NOON, ControllerOptions())

    assert {"shop-1": 25_000} == values(samples)
    assert (1, 1, 25_000, 10_000) == (counts.ready, counts.missing, counts.usage, counts.missing_usage)


async def test_pods_of_one_namespace_that_hang_take_no_time_of_the_pods_of_another():
    """300 requests to the one wait for their second; those to the other come a moment later and take a fifth of one."""

    async def answer(request):
        await asyncio.sleep(60 if pod_of(request) == 1 else 0.2)
        return page("inflight 7\n")

    hanging = [replace(pod(1), name=f"hanging-{number}") for number in range(300)]
    async with serving(answer, ADDRESSES) as port, scraping(port, timeoutSeconds=1) as asked:
        theirs = asyncio.create_task(asked.value(measured(namespace="hostile", pods=hanging)))
        await asyncio.sleep(0.1)
        samples_read = await asked.value(measured(namespace="prod", pods=[pod(2)]))
        refused = await theirs

    assert {"shop-2": 7_000} == values(samples_read)
    assert refused.message.endswith("it gave no answer within 1 s")


async def test_where_no_pod_answers_the_most_frequent_reason_is_told():
    async def answer(request):
        return web.Response(status=500 if pod_of(request) < 3 else 404)

    async with serving(answer, ADDRESSES) as port:
        samples = await sampled(port, [pod(1), pod(2), pod(3)])

    assert Absent("NoPodAnswered", "no pod that was asked has a number: it answered 500") == samples


async def test_no_ready_pod_is_a_reason_of_its_own():
    assert "none of the target's pods is ready" in (await sampled(1, [pod(1, ready="False")])).message


async def test_counters_become_rates_from_the_second_scrape_on():
    total = {1: 100.0, 2: 1000.0}

    async def answer(request):
        return page(f"# TYPE inflight counter\ninflight {total[pod_of(request)]}\n")

    async with serving(answer, ADDRESSES) as port, scraping(port) as asked:
        first = await asked.value(measured(pods=[pod(1), pod(2)], period=1))
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        total[1], total[2] = 130.0, 60.0  # the second one began anew
        samples_read = await asked.value(measured(pods=[pod(1), pod(2)], period=1))
        seconds = asyncio.get_running_loop().time() - begun

    assert "no pod that was asked has a number: its rate is known from the second scrape on" == first.message
    rates = values(samples_read)
    assert 0.5 * 30_000 / seconds < rates["shop-1"] < 1.5 * 30_000 / seconds
    assert 0.5 * 60_000 / seconds < rates["shop-2"] < 1.5 * 60_000 / seconds


async def test_of_many_alike_pods_a_sample_is_asked_and_the_sum_is_right_to_five_percent():
    """400 pods at one address, each with 10 to 12: the second scrape knows how little they differ."""
    loads = [10 + number % 3 for number in range(400)]
    seen = Counter()
    turn = iter(range(10**6))

    async def answer(request):
        number = next(turn)
        seen[number // 400] += 1
        return page(f"inflight {loads[number % 400]}\n")

    pods = [pod(number, ip="127.0.0.1") for number in range(400)]
    async with serving(answer) as port, scraping(port, timeoutSeconds=10) as asked:
        first = await asked.value(measured(pods=pods, period=0.001))
        before = asked.requests
        await asyncio.sleep(0.01)
        samples_read = await asked.value(measured(pods=pods, period=0.001))

    # Nothing is known before the first: n0 = 2401, 2401 / (1 + 2400 / 400) = 343.
    assert 343 == before
    assert 30 == asked.requests - before
    assert 400 == len(first) == len(samples_read)
    assert pytest.approx(1000 * sum(loads), rel=0.05) == sum(values(samples_read).values())


@pytest.mark.parametrize(
    "ip",
    ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "0.0.0.0",
     "224.0.0.1", "::", "localhost", "10.0.0.1/", "10.0.0.1:22", "10.0.0.1@evil", "1", "0x7f.1", "", "fe80::1%eth0",
     "fd00:ec2::254", "100.100.100.200", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe"],
)  # fmt: skip
def test_an_address_that_is_no_pods_is_not_asked(ip):
    with pytest.raises(NoAnswerError, match=r"its IP is none of|it has no IP"):
        address_of(pod(1, ip=ip), definition(podNetworks=None))


def test_a_pod_in_its_nodes_network_is_not_asked():
    """It would have the operator ask the kubelet of its node, at a port that the tenant names."""
    with pytest.raises(NoAnswerError, match="it runs in its node's network"):
        address_of(pod(1, ip="10.0.0.1", on_host_network=True, ports={"metrics": 10250}), definition("metrics"))


def test_the_port_is_the_sources_or_that_of_the_name_that_it_states():
    assert ("10.1.2.3", 8080) == address_of(pod(1, ip="10.1.2.3"), definition(podNetworks=None))
    named = definition("metrics", podNetworks=None)
    assert ("fd00::1", 9102) == address_of(pod(1, ip="fd00::1", ports={"metrics": 9102}), named)
    with pytest.raises(NoAnswerError, match="it has no container with a TCP port named metrics"):
        address_of(pod(1, ip="10.1.2.3", ports={"web": 80}), named)


def test_pods_outside_the_stated_networks_are_not_asked():
    with pytest.raises(NoAnswerError, match="its IP is none of podNetworks of the source"):
        address_of(pod(1, ip="192.168.0.1"), definition(podNetworks=["10.0.0.0/8"]))


async def test_no_login_and_no_cookie_goes_to_a_pod():
    seen = []

    async def answer(request):
        seen.append({name.lower() for name in request.headers})
        response = page("inflight 1\n")
        response.set_cookie("id", "1")
        return response

    async with serving(answer) as port, scraping(port) as asked:
        for name in "ab":
            await asked.value(measured(name, pods=[pod(1)]))

    assert 2 == len(seen)
    assert set() == {"authorization", "cookie"} & set().union(*seen)


HEAD = b"HTTP/1.1 200 OK\r\n"
ENDLESS = HEAD + b"Content-Length: 100000000\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def gzipped(lines):
    body = gzip.compress(lines)
    return HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts",
    [
        [gzipped(b"\n" * 99_990)],
        [gzipped(b"# HELP a b\n" * 99_990)],
        [gzipped(b"".join(b'inflight{path="%d"} 1\n' % number for number in range(500)))],
        [b"HTTP/1.1 100 Continue\r\n\r\n" * 1000] * 200,
        [CHUNKED, *[b"1\r\n\n\r\n" * 10_000] * 10],
        [ENDLESS, *[b"\n"] * 20_000],
    ],
    ids=["empty lines", "comments", "500 samples", "100 Continue", "chunks of a byte", "single bytes"],
)
async def test_whatever_30_pods_answer_the_loop_works_for_less_than_50_ms_and_a_neighbour_has_its_numbers(parts):
    """CPU time of the loop's thread, which other work of the machine does not change. It was seconds."""

    async def answer(_request):
        return page("inflight 7\n")

    hostile = [replace(pod(number), ip=f"127.0.1.{number}") for number in range(1, 31)]
    with raw_pods(*parts) as pods:
        async with serving(answer, ADDRESSES) as port, scraping(port, timeoutSeconds=10) as asked:
            theirs = PodScrapes("hostile", definition(pods.port), lambda: NOON, asked.process)
            await asked.value(measured("first", pods=[pod(1)]))  # starts the process
            before = time.thread_time()
            answers = await asyncio.gather(
                theirs.value(measured(namespace="hostile", pods=hostile, period=1)),
                *(asked.value(measured(str(number), pods=[pod(1), pod(2)])) for number in range(3)),
            )
            seconds = time.thread_time() - before

    assert [{"shop-1": 7_000, "shop-2": 7_000}] * 3 == [values(samples) for samples in answers[1:]]
    assert seconds < 0.05
