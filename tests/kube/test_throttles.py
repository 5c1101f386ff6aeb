"""cronhpa.kube.throttles: an API server that answers Retry-After, over real HTTP."""

import asyncio
import contextlib
import weakref
from itertools import pairwise

import pytest
from aiohttp import web

from cronhpa.kube.errors import ClusterError
from cronhpa.kube.informer import Informer
from cronhpa.kube.scale import Workload
from cronhpa.kube.throttles import Throttles, retry_after
from kube.fake_api import FakeApi

BUSY = "/apis/apps/v1/namespaces/prod/deployments/busy/scale"
CALM = "/apis/apps/v1/namespaces/prod/deployments/calm/scale"
LIST = "/apis/apps/v1/deployments"


def throttling(asked, *, times, status=429, after="1", then=None):
    """Answers Retry-After so many times; `asked` are the seconds at which requests came."""

    async def answer(_request):
        asked.append(asyncio.get_running_loop().time())
        if len(asked) <= times:
            return web.Response(status=status, headers={} if after is None else {"Retry-After": after})
        return web.json_response({} if then is None else then)

    return answer


def pauses(asked):
    return [later - earlier for earlier, later in pairwise(asked)]


async def refused(work):
    with pytest.raises(ClusterError) as caught:
        await work
    return caught.value


@pytest.mark.parametrize("status", [429, 503])
async def test_a_throttled_write_fails_at_once_is_not_sent_before_its_time_and_delays_no_other(status):
    """A decision would be outdated after a wait: the next reconciliation decides anew."""
    api, asked, calm = FakeApi(), [], []
    api.answers[BUSY] = throttling(asked, times=1, after="3", status=status)
    api.answers[CALM] = throttling(calm, times=0)
    async with api.client() as client:
        begun = asyncio.get_running_loop().time()
        errors = [await refused(client.merge_patch(BUSY, {}, dict)) for _ in range(70)]
        await client.merge_patch(CALM, {}, dict)
        await asyncio.sleep(3.05)
        await client.merge_patch(BUSY, {}, dict)

    assert {status} == {error.status for error in errors}
    assert calm[0] - begun < 2.7
    assert 2 == len(asked)
    assert pauses(asked)[0] >= 3.0


async def test_a_throttled_read_fails_at_once_and_is_not_sent_again_before_its_time():
    api, asked = FakeApi(), []
    api.answers[BUSY] = throttling(asked, times=1, after="3")
    async with api.client() as client:
        errors = [await refused(client.get(BUSY, dict)) for _ in range(5)]
        await asyncio.sleep(3.05)
        await client.get(BUSY, dict)

    assert {429} == {error.status for error in errors}
    assert 1 == len({error.message for error in errors})
    assert 2 == len(asked)
    assert pauses(asked)[0] >= 3.0


async def test_a_retry_after_of_an_hour_is_cut_to_the_timeout_of_a_request():
    api, asked = FakeApi(), []
    api.answers[BUSY] = throttling(asked, times=1, after="3600")
    async with api.client(timeout_seconds=1) as client:
        await refused(client.get(BUSY, dict))
        await asyncio.sleep(1.05)
        await client.get(BUSY, dict)

    assert 2 == len(asked)


async def test_a_list_that_is_throttled_is_sent_again_when_it_may_be():
    api, asked = FakeApi(), []
    api.answers[LIST] = throttling(asked, times=1, after="2", then={"metadata": {"resourceVersion": "5"}, "items": []})
    async with api.client() as client:
        informer = Informer(client, LIST, Workload, lambda *_: None)
        running = asyncio.create_task(informer.run())
        await asyncio.wait_for(informer.synced.wait(), 60)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    assert 2 == len(asked)
    assert pauses(asked)[0] >= 2.0


async def test_a_watch_that_is_throttled_is_begun_again_when_it_may_be():
    api, asked = FakeApi(), []

    async def throttled(_request):
        asked.append(asyncio.get_running_loop().time())
        return web.Response(status=429, headers={"Retry-After": "2"})

    api.watch_answers[LIST] = throttled
    async with api.client() as client:
        for _ in range(3):
            with pytest.raises(ClusterError):
                async for _line in client.watch(LIST, "5", idle_seconds=5):
                    pass

    assert 1 == len(asked)


async def test_a_query_that_is_throttled_delays_no_other_query_of_its_path():
    """External metrics of one name share a path. Found: who asked for another selector's was never asked for again."""
    api = FakeApi()

    async def answer(request):
        is_bad = "bad" in request.query["labelSelector"]
        return web.Response(status=429, headers={"Retry-After": "9"}) if is_bad else web.json_response({})

    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/prod/s0-prometheus"
    api.answers[path] = answer
    async with api.client() as client:
        for _ in range(2):
            with pytest.raises(ClusterError):
                await client.read(path, {"labelSelector": "of=bad"})
            await client.read(path, {"labelSelector": "of=good"})

    assert ["of=bad", "of=good", "of=good"] == [query["labelSelector"] for _, _, query in api.asked]


def test_without_retry_after_the_wait_doubles_until_another_answer():
    throttles, error = Throttles(30.0), ClusterError(429, "TooManyRequests", "busy")
    waits = []
    for number in range(8):
        throttles.note("GET", BUSY, error, 100.0 * number)
        waits.append(throttles.seconds("GET", BUSY, 100.0 * number))

    for seconds, most in zip(waits, (1, 2, 4, 8, 16, 30, 30, 30), strict=True):
        assert most / 2 <= seconds <= most
    throttles.note("GET", BUSY, ClusterError(500, "InternalError", "broken"), 900.0)
    assert (0.0, 0) == (throttles.seconds("GET", BUSY, 900.0), len(throttles))


def test_at_most_4096_throttled_paths_are_kept():
    throttles, error = Throttles(30.0), ClusterError(429, "TooManyRequests", "busy", (), 5.0)
    for number in range(10_000):
        throttles.note("PATCH", str(number), error, 0.0)

    assert len(throttles) <= 4096


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [(429, "5", 5.0), (503, "0", 0.0), (500, "5", None), (429, None, None), (429, "-1", None), (429, "9" * 400, None)],
)
def test_the_seconds_of_a_retry_after_header_are_read(status, header, seconds):
    assert seconds == retry_after(status, header)


class Status:
    """What a request could not write."""


async def test_nothing_of_who_sent_a_throttled_request_is_kept():
    """Found: the traceback of each refusal kept the status that could not be written, of 4,096 paths."""
    throttles, refs = Throttles(30.0), []

    def send():
        status = Status()
        refs.append(weakref.ref(status))
        raise ClusterError(429, "TooManyRequests", "busy", (), 30.0)

    with contextlib.suppress(ClusterError), throttles.request("PATCH", BUSY):
        send()

    assert refs[0]() is None
    with pytest.raises(ClusterError, match="busy"), throttles.request("PATCH", BUSY):
        send()
    assert 1 == len(refs)
