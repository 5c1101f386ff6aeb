"""cronhpa.sources.prometheus, cronhpa.sources.url, cronhpa.sources.server: rules of both."""

import asyncio
import json
import os

import pytest
import trustme
from aiohttp import web

from cronhpa.core.model.spec import TargetRef
from cronhpa.sources.parse import parse_sources
from cronhpa.sources.prometheus import PrometheusValues
from cronhpa.sources.url import UrlValues
from sources.answering_sources import NOON, measured, serving
from sources.served_time import serve_in_time

# Texts that would end a quoted PromQL label, leave a path or a query of a URL, or are no name of an object.
HOSTILE = [
    'a"} or up{x="',
    "a\\",
    "a\nb",
    "a{b}",
    "a}",
    "a'",
    "a`",
    "$namespace",
    "a b",
    "",
    "A",
    "a/b",
    "ü",
    "a" * 254,
    "../admin",
    "a/../../b",
    "a?b=c",
    "a#b",
    "a%2fb",
    "a@evil",
    "a\\b",
    "a\r\nX: y",
]
SERVERS = {
    "prometheus": (PrometheusValues, {"url": "/base", "query": 'sum(load{namespace="$namespace",of="$target"})'}),
    "url": (UrlValues, {"url": "/scale?ns=$namespace&of=$target", "value": "length"}),
}
# A text that names the target alone: the answer's series, or the server, tells namespaces apart.
OF_TARGET = {
    "prometheus": {"query": 'sum by (of) (load{app="$target"})', "join": {"namespace": "of"}},
    "url": {"url": "/scale?of=$target"},
}
# Both kinds read the number 42 in this.
NUMBER = {
    "status": "success",
    "data": {"resultType": "vector", "result": [{"metric": {"of": "prod"}, "value": [NOON // 10**9, "42"]}]},
    "length": 42,
}


@pytest.fixture(params=SERVERS)
def kind(request):
    return request.param


def source_of(kind, port, **more):
    make, fields = SERVERS[kind]
    stated = {**fields, **more}
    stated["url"] = f"http://127.0.0.1:{port}{stated['url']}"
    definition = parse_sources(json.dumps({"sources": {"number": {kind: stated}}}), "test")["number"]
    return make("number", definition, lambda: NOON)


async def valued(kind, port, of):
    source = source_of(kind, port)
    try:
        return await source.value(of)
    finally:
        await source.close()


async def test_a_server_of_either_kind_that_answers_gives_the_number(kind):
    async def answer(request):
        return web.json_response(NUMBER)

    async with serving(answer) as port:
        assert 42_000 == await valued(kind, port, measured())


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("field", ["namespace", "target"])
async def test_a_text_that_is_no_name_never_reaches_a_server(kind, hostile, field):
    asked = []

    async def answer(request):
        asked.append(request.path_qs)
        return web.json_response(NUMBER)

    of = (
        measured(namespace=hostile) if field == "namespace" else measured(target=TargetRef("v1", "Deployment", hostile))
    )
    async with serving(answer) as port:
        absent = await valued(kind, port, of)

    assert "BadName" == absent.reason
    assert "that a query may hold" in absent.message
    assert "\n" not in absent.message
    assert [] == asked


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (500, "HTTP500", "it answered 500"),
        (503, "HTTP503", "it answered 503"),
        (404, "HTTP404", "it answered 404"),
        (401, "HTTP401", "it answered 401"),
        (204, "HTTP204", "it answered 204"),
        (302, "Redirected", "points elsewhere and is not followed"),
        (307, "Redirected", "points elsewhere and is not followed"),
    ],
)
async def test_a_status_other_than_200_is_no_value_and_no_redirect_is_followed(kind, status, reason, words):
    asked = []

    async def answer(request):
        asked.append(request.path)
        return web.json_response(NUMBER, status=status, headers={"Location": "/stolen"})

    async with serving(answer) as port:
        absent = await valued(kind, port, measured())

    assert reason == absent.reason
    assert words in absent.message
    assert 1 == len(asked)


def numbers_beside(kind, hanging, *, answers, **more):
    """
    What an object of `prod` gets, one answer after the other, and when it had all of them, beside objects whose
    answers hang for a second each. It asks in the middle of that second.
    """
    return serve_in_time(_numbers_beside(kind, hanging, answers, more))


async def _numbers_beside(kind, hanging, answers, more):
    never = asyncio.Event()

    async def answer(request):
        text = request.path_qs + (await request.post()).get("query", "")
        if "hostile" in text or "slow" in text:
            await never.wait()
        return web.json_response(NUMBER)

    async with serving(answer) as port:
        source = source_of(kind, port, timeoutSeconds=1, **more)

        async def ask_on(of):
            while True:
                began = asyncio.get_running_loop().time()
                await source.value(of)
                if asyncio.get_running_loop().time() == began:
                    await asyncio.sleep(0.01)  # else the clock would stand still for ever

        asking = [asyncio.create_task(ask_on(of)) for of in hanging]
        await asyncio.sleep(0.5)
        try:
            # A period of next to nothing: each answer is a request of its own.
            got = [await source.value(measured(period=1e-3)) for _ in range(answers)]
            return got, asyncio.get_running_loop().time()
        finally:
            never.set()
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            await source.close()


def test_a_hundred_objects_whose_answers_hang_take_no_number_of_another_namespace(kind):
    """Of the 32 connections their namespace has 24, each for its whole second."""
    hanging = [
        measured(namespace="hostile", target=TargetRef("apps/v1", "Deployment", f"slow-{number}"))
        for number in range(100)
    ]

    got, at = numbers_beside(kind, hanging, answers=30)

    assert [42_000] * 30 == got
    assert 1 > at


def test_a_hundred_objects_take_no_number_of_another_namespace_where_the_text_names_the_target_alone(kind):
    """
    Each of them asks a question of its own. Found: it had a share of its own with it, and a hundred had all 32
    connections. One asks what `prod` asks, and waits behind the others of its namespace, as their 24 connections hang.
    """
    names = [*(f"slow-{number}" for number in range(100)), "shop"]
    hanging = [measured(namespace="hostile", target=TargetRef("apps/v1", "Deployment", name)) for name in names]

    got, at = numbers_beside(kind, hanging, answers=30, **OF_TARGET[kind])

    assert [42_000] * 30 == got
    assert 1 > at


def test_a_hundred_namespaces_whose_answers_hang_delay_another_one_until_they_have_hung(kind):
    """
    They have all connections for a second. After it one is `prod`'s; for another second the namespaces that had none
    yet have the rest. From then on all of them are known as slow, and have 24 together.
    """
    hanging = [measured(namespace=f"hostile-{number}") for number in range(100)]

    got, at = numbers_beside(kind, hanging, answers=30)

    assert 42_000 == got[0]
    assert [42_000] * 28 == got[2:]
    assert 2 == pytest.approx(at, abs=0.1)


def test_an_object_that_gets_no_connection_is_told_so_and_no_reconciliation_waits_for_ever(kind):
    """34 objects of one namespace: 24 wait for their answers, and ten for a connection, each for a second."""

    async def asked():
        never = asyncio.Event()

        async def answer(request):
            await never.wait()
            return web.json_response(NUMBER)

        async with serving(answer) as port:
            source = source_of(kind, port, timeoutSeconds=1)
            targets = [TargetRef("apps/v1", "Deployment", f"slow-{number}") for number in range(34)]
            got = await asyncio.gather(*(source.value(measured(target=target)) for target in targets))
            never.set()
            await source.close()
            return got, asyncio.get_running_loop().time()

    got, at = serve_in_time(asked())

    assert [
        *["it gave no answer within 1 s"] * 24,
        *["none of its connections was free within 1 s"] * 10,
    ] == [absent.message for absent in got]
    assert 1 == pytest.approx(at, abs=0.1)


async def test_a_request_that_comes_after_the_source_was_closed_is_no_value_and_no_error(kind):
    """It waited for a connection, and the file of sources was replaced twice meanwhile."""
    source = source_of(kind, 1)
    await source.close()

    assert "the operator's file of sources was replaced meanwhile" == (await source.value(measured())).message


@pytest.mark.parametrize("awaited", ["caFile", "tokenFile"])
async def test_a_source_that_is_closed_while_a_request_reads_its_files_opens_nothing(kind, awaited, tmp_path):
    """
    A pipe makes the read wait. Found: a session was opened that nobody closed, or the request failed as a bug of ours.
    """
    content = {"caFile": trustme.CA().cert_pem.bytes(), "tokenFile": b"secret"}[awaited]
    pipe = tmp_path / awaited
    os.mkfifo(pipe)
    source = source_of(kind, 1, **{awaited: str(pipe)})
    asked = asyncio.create_task(source.value(measured()))
    written = await asyncio.to_thread(pipe.open, "wb")  # opens once the request reads
    await source.close()
    with written:
        written.write(content)

    assert "the operator's file of sources was replaced meanwhile" == (await asked).message
