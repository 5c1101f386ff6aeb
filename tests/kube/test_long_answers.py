"""Answers that are too long, too deep, compressed, slow or redirected: reading ends at a bound for each purpose."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import random
import time

import msgspec
import pytest
from aiohttp import web

from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ExternalMetric, MetricTarget, ObjectMetric, PodsMetric, TargetRef
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.metric_values import ExternalMetricValue, PodMetrics, external_value
from cronhpa.kube.metrics import MetricReader, list_pod_metrics
from kube.fake_api import FakeApi, answering

MIB = 2**20
BLANKS = b" " * MIB
PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/prod/pods"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces/prod/queue"
AVERAGE = MetricTarget("AverageValue", average_value=1000)
QUEUE = ExternalMetric("queue", AVERAGE)


class Streaming:
    """An answer of parts; `sent` is the number of bytes sent."""

    def __init__(self, *parts, packed=False):
        self.parts, self.packed, self.sent = parts, packed, 0

    async def __call__(self, request):
        response = web.StreamResponse(headers={"Content-Encoding": "gzip"} if self.packed else {})
        await response.prepare(request)
        for part in self.parts:
            await response.write(part)
            self.sent += len(part)
        return response


async def measured(client, metric):
    reader = MetricReader(client, Discovery(client))
    if isinstance(metric, ExternalMetric):
        return await reader.external("prod", metric)
    if isinstance(metric, PodsMetric):
        return await reader.pods("prod", metric, "app=web")
    return await reader.object("prod", metric)


CUSTOM = "/apis/custom.metrics.k8s.io"
CASES = [
    ("resource", PODS, None, 32 * MIB),
    ("pods", f"{CUSTOM}/v1beta2/namespaces/prod/pods/*/hits", PodsMetric("hits", AVERAGE), 4 * MIB),
    (
        "object",
        f"{CUSTOM}/v1beta2/namespaces/prod/services/web/hits",
        ObjectMetric("hits", AVERAGE, TargetRef("v1", "Service", "web")),
        MIB,
    ),
    ("external", EXTERNAL, QUEUE, MIB),
]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "metric", "bound"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_reading_a_metric_of_any_kind_ends_at_its_bound(path, metric, bound, packed):
    """Compressed, 100 MiB of blanks are 100 kB: the bound counts bytes after decompression."""
    endless = Streaming(
        gzip.compress(BLANKS * 100) if packed else b"", *[BLANKS] * (0 if packed else 100), packed=packed
    )
    api = FakeApi()
    api.answers[path] = endless
    api.answers[CUSTOM] = answering({"preferredVersion": {"version": "v1beta2"}})
    api.answers["/api/v1"] = answering({"resources": [{"name": "services", "kind": "Service"}]})

    async with api.client() as client:
        reading = await (list_pod_metrics(client, "prod") if metric is None else measured(client, metric))

    assert "TooLarge" == reading.reason
    assert f"is longer than {bound} bytes" in reading.message
    # What was sent beyond the bound lies in sockets.
    assert endless.sent < bound + 16 * MIB


@pytest.mark.parametrize("size", [100, 200_000], ids=["short", "long"])
@pytest.mark.parametrize(
    ("items", "found"),
    [
        ('{"value": "1500m"}, {"value": 2}', 3500),
        ('{"value": "1"}, 7', "Malformed"),
        ('{"value": ' + "[" * 900 + "]" * 900 + "}", "Malformed"),
        ('{"value": ' + "[" * 100_000, "Malformed"),
    ],
    ids=["values", "no value", "deep", "too deep"],
)
async def test_a_long_answer_is_read_as_a_short_one_is(items, found, size):
    api = FakeApi()
    api.answers[EXTERNAL] = answering('{"items": [' + items + "]" + " " * size + "}")

    async with api.client() as client:
        said = await measured(client, QUEUE)

    assert found == (said.reason if isinstance(said, Absent) else said)


def pod(name):
    containers = [{"name": "app", "usage": {"cpu": "250m", "memory": "100Mi"}}]
    times = {"timestamp": "2026-11-21T15:00:00Z", "window": "15s"}
    return json.dumps({"metadata": {"name": name}, **times, "containers": containers})


def pod_list(count):
    return ",".join(pod(f"pod-{i}") for i in range(count))


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (pod_list(2_000), 2_000),
        (f'{pod_list(1_000)}, 7, {{"metadata": 7}}, {"[" * 900 + "]" * 900}, {pod("z")}', 1_001),
        ("7," * 200_000 + "7", "Malformed"),
        (" " * 200_000, 0),
        (pod_list(1_000) + "," + "[" * 100_000, "Malformed"),
        (pod_list(1_000) + ",", "Malformed"),
        ("1," * 2_000_001 + "1", "TooLarge"),
    ],
    ids=["pods", "some are none", "all are none", "empty", "too deep", "cut", "more than there can be"],
)  # fmt: skip
async def test_a_long_list_of_pods_is_read_pod_by_pod(listed, found):
    api = FakeApi()
    api.answers[PODS] = answering('{"items": [' + listed + "]}")

    async with api.client() as client:
        said = await list_pod_metrics(client, "prod")

    assert found == (said.reason if isinstance(said, Absent) else len(said))


class Answered:
    """A client that holds the answer already: only reading it takes time."""

    def __init__(self, body):
        self.body = body

    async def read(self, _path, *_, **_2):
        return self.body


@pytest.mark.slow
async def test_the_loop_goes_on_while_a_long_list_of_pods_is_read():
    """100,000 pods, 16 MB. msgspec blocks the event loop while it decodes: decoded at once, they block it too long."""
    body = ('{"items": [' + pod_list(100_000) + "]}").encode()
    gc.collect()
    gc.freeze()  # as the operator does once it is ready: what the other tests left is not looked through any more
    begun = time.thread_time()
    msgspec.json.decode(body, type=dict[str, list[PodMetrics]])
    at_once = time.thread_time() - begun

    pauses = [await _longest_pause(list_pod_metrics(Answered(body), "prod")) for _ in range(3)]

    assert {100_000} == {len(listed) for listed, _ in pauses}
    assert min(pause for _, pause in pauses) < 0.75 * at_once


async def test_the_loop_goes_on_while_the_numbers_of_a_long_answer_are_read():
    """A megabyte of numbers in the slowest form: read at once, they block the loop for a fifth of a second."""
    body = ('{"items": [' + ",".join(['{"value":"1.5e-3"}'] * 55_000) + "]}").encode()
    values = [ExternalMetricValue("1.5e-3")] * 55_000
    begun = time.thread_time()
    assert 110_000 == external_value(values)
    at_once = time.thread_time() - begun

    pauses = [await _longest_pause(MetricReader(Answered(body), None).external("prod", QUEUE)) for _ in range(3)]

    assert {55_000 * 2} == {read for read, _ in pauses}
    assert min(pause for _, pause in pauses) < 0.75 * at_once


async def _longest_pause(work):
    """(what it gives, the longest that it held the loop): CPU of this thread, since other work must not decide."""
    task = asyncio.create_task(work)
    longest = 0.0
    while not task.done():
        begun = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - begun)
    return task.result(), longest


@pytest.mark.slow
async def test_of_many_long_answers_of_an_api_two_are_read_at_a_time_and_all_come_in_the_end():
    """Twelve of 24 MiB each would be 288 MiB at once. A waiting request reads nothing: sockets hold 8 MiB."""
    gate, far = asyncio.Event(), set()

    async def long(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"items": []' + BLANKS)
        for number in range(23):
            await response.write(BLANKS)
            if number == 15:
                far.add(request.path)
        await gate.wait()
        await response.write(b"}")
        return response

    api = FakeApi()
    paths = [f"/apis/metrics.k8s.io/v1beta1/namespaces/ns-{i}/pods" for i in range(12)]
    api.answers = dict.fromkeys(paths, long)
    async with api.client(timeout_seconds=60) as client:
        lists = [asyncio.create_task(list_pod_metrics(client, f"ns-{i}")) for i in range(12)]
        async with asyncio.timeout(60):
            while len(far) < 2:  # noqa: ASYNC110 - a set that a server fills
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        assert 2 == len(far)
        gate.set()
        answers = await asyncio.gather(*lists)

    assert [{}] * 12 == answers  # type: ignore[comparison-overlap]  # an answer without pods is an empty mapping


async def test_a_long_answer_of_one_api_takes_no_place_of_another():
    stuck = asyncio.Event()

    async def drips(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(BLANKS)
        await stuck.wait()
        return response

    api = FakeApi()
    other = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/prod/pods/*/hits"
    api.answers[other] = drips
    api.answers[PODS] = answering('{"items": [' + pod_list(4_000) + "]}")
    async with api.client() as client:
        slow = [asyncio.create_task(client.read(other, bytes_max=4 * MIB)) for _ in range(4)]
        listed = await list_pod_metrics(client, "prod")
        stuck.set()
        await asyncio.gather(*slow, return_exceptions=True)

    assert 4_000 == len(listed)


async def test_answers_of_a_tick_are_asked_for_again_rather_than_kept_without_bound():
    """16 answers of 1 MiB are kept: the 17th replaces the first."""
    api = FakeApi()
    body = '{"items": [{"value": "3"}]' + " " * (MIB - 100) + "}"
    queues = [ExternalMetric(f"queue-{i}", AVERAGE) for i in range(17)]
    for queue in queues:
        api.answers[EXTERNAL.replace("queue", queue.name)] = answering(body)

    async with api.client() as client:
        reader = MetricReader(client, Discovery(client))
        answers = [await reader.external("prod", queue) for queue in (queues[0], *queues, queues[0])]

    assert [3000] * 19 == answers
    assert 18 == len(api.asked)


# --- everything else that the client reads -----------------------------------------------------------------------


async def test_pages_that_are_too_long_are_asked_for_again_in_parts():
    """Twenty objects of 1.5 MiB: 500 at a time are 30 MiB, 62 too, 7 are 10.5 MiB."""
    big = {"metadata": {"name": "big"}, "data": "x" * (3 * MIB // 2)}

    async def listed(request):
        first, limit = int(request.query.get("continue") or 0), int(request.query["limit"])
        last = min(first + limit, 20)
        meta = {"resourceVersion": "5", "continue": str(last) if last < 20 else ""}
        return web.json_response({"metadata": meta, "items": [big] * (last - first)})

    api = FakeApi()
    api.answers["/objects"] = listed
    async with api.client() as client:
        pages = [items async for items, _ in client.pages("/objects")]

    assert [7, 7, 6] == [len(page) for page in pages]
    assert ["500", "62", "7", "7", "7"] == [asked["limit"] for _, _, asked in api.asked]


async def test_an_object_that_is_too_long_by_itself_is_told():
    api = FakeApi()
    api.answers["/objects"] = Streaming(*[BLANKS] * 20)
    async with api.client() as client:
        with pytest.raises(ClusterError, match="is longer than 16777216 bytes"):
            [page async for page in client.pages("/objects")]
        with pytest.raises(ClusterError, match="is longer than 16777216 bytes"):
            await client.get("/objects", dict)


async def lines_of(*parts):
    api = FakeApi()

    async def watched(request):
        return await Streaming(*parts)(request)

    api.watch_answers["/objects"] = watched
    async with api.client(timeout_seconds=60) as client:
        return [line async for line in client.watch("/objects", "1", idle_seconds=10)]


async def test_a_watch_takes_the_largest_object_that_there_can_be():
    """1.5 MiB of control characters in etcd are six times that as JSON, and 9 MiB here."""
    longest = b"x" * (9 * MIB)

    assert [b"a", longest, b"b"] == await lines_of(b"a\n", longest, b"\nb\n")


async def test_a_watch_without_a_line_end_is_broken_off():
    with pytest.raises(ClusterError, match="a line of the watch of /objects is longer than 16777216 bytes"):
        await lines_of(b"a\n", *[BLANKS] * 40)


@pytest.mark.parametrize("seed", range(5))
async def test_the_lines_of_a_watch_are_the_same_however_they_are_cut(seed):
    draw = random.Random(seed)
    lines = [draw.randbytes(draw.choice([1, 5, 300_000])).replace(b"\n", b"-") for _ in range(20)]
    text = b"\n".join(lines) + draw.choice([b"", b"\n", b"\n\n"])
    cuts = sorted(draw.choices(range(len(text)), k=50))

    assert lines == await lines_of(*(text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)))


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"metadata":' * 100_000], ids=["lists", "objects"])
async def test_a_text_that_is_too_deep_cannot_be_read(body):
    api = FakeApi()
    api.answers["/objects"] = answering(body.decode())
    async with api.client() as client:
        with pytest.raises(ClusterError, match="cannot be read"):
            await client.get("/objects", dict)


async def asked(client, *, watch):
    if watch:
        return [line async for line in client.watch("/objects", "1", idle_seconds=5)]
    return await client.get("/objects", dict)


@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("[" * 100_000, "HTTP503"),
        ("x" * (MIB // 2), "TooLarge"),
        (json.dumps({"message": "m" * 100_000, "reason": "r" * 100_000}), "HTTP503"),
        (json.dumps({"message": "m", "reason": "in two\nlines"}), "HTTP503"),
        (json.dumps({"message": "m", "reason": "ServiceUnavailable"}), "ServiceUnavailable"),
    ],
    ids=["deep", "long", "long words", "no reason", "said well"],
)
async def test_a_refusal_keeps_its_status_and_is_short_whatever_it_says(body, reason, watch):
    api = FakeApi()
    api.answers["/objects"] = api.watch_answers["/objects"] = answering(body, 503)
    async with api.client() as client:
        with pytest.raises(ClusterError) as raised:
            await asked(client, watch=watch)

    assert (503, reason) == (raised.value.status, raised.value.reason)
    assert len(raised.value.message) < 5_000


@pytest.mark.parametrize("watch", [False, True])
async def test_a_redirect_is_not_followed_with_the_token(watch):
    async def elsewhere(_):
        return web.Response(status=307, headers={"Location": "/stolen"})

    api = FakeApi()
    api.answers["/objects"] = api.watch_answers["/objects"] = elsewhere
    async with api.client() as client:
        with pytest.raises(ClusterError) as raised:
            await asked(client, watch=watch)

    assert 307 == raised.value.status
    assert ["/objects"] == [path for _, path, _ in api.asked]


async def test_what_a_refusal_says_of_an_address_goes_without_its_password():
    api = FakeApi()
    told = "dial https://alice:s3cr3t@adapter/x: refused"
    api.answers["/objects"] = answering({"message": told, "reason": "ServiceUnavailable"}, 503)
    async with api.client() as client:
        with pytest.raises(ClusterError, match="dial https://adapter/x: refused"):
            await client.read("/objects")


async def test_a_refusal_is_cut_behind_its_password_and_not_within_it():
    """The message ends at 4,096 characters: those before the address leave room for half of its password."""
    api = FakeApi()
    told = f"{'x' * 4070} https://alice:s3cr3t-and-much-more@adapter/x: refused"
    api.answers["/objects"] = answering({"message": told, "reason": "ServiceUnavailable"}, 503)
    async with api.client() as client:
        with pytest.raises(ClusterError) as raised:
            await client.read("/objects")

    assert "s3cr3t" not in raised.value.message
