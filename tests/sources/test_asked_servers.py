"""cronhpa.sources.prometheus_value, cronhpa.sources.url_value: rules for all servers of sources."""

import json

import pytest
from aiohttp import web
from answering_sources import NOON, measured, serving

from cronhpa.core.spec import TargetRef
from cronhpa.sources.definition import parse_sources
from cronhpa.sources.prometheus_value import PrometheusValues
from cronhpa.sources.url_value import UrlValues

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
# Both kinds read the number 42 in this.
NUMBER = {
    "status": "success",
    "data": {"resultType": "vector", "result": [{"metric": {}, "value": [NOON // 10**9, "42"]}]},
    "length": 42,
}


@pytest.fixture(params=SERVERS)
def kind(request):
    return request.param


async def valued(kind, port, of):
    make, fields = SERVERS[kind]
    stated = {**fields, "url": f"http://127.0.0.1:{port}{fields['url']}"}
    definition = parse_sources(json.dumps({"sources": {"number": {kind: stated}}}), "test")["number"]
    source = make("number", definition, lambda: NOON)
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
