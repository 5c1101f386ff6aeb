"""
cronhpa.sources.prometheus, cronhpa.sources.server: a Prometheus is asked.

What it is shown of us and of a tenant, and one that is no good.
"""

import asyncio
import json
import ssl

import pytest
import trustme
from aiohttp import web

from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import TargetRef
from cronhpa.sources.parse import parse_sources
from cronhpa.sources.prometheus import PrometheusValues
from sources.answering_sources import NOON, drips, endless, measured, serving, vector

QUERY = 'sum(rate(requests{namespace="$namespace",deployment="$target"}[1m]))'


def source(port, clock=lambda: NOON, scheme="http", query=QUERY, **fields):
    stated = {"url": f"{scheme}://127.0.0.1:{port}/base", "query": query, **fields}
    definition = parse_sources(json.dumps({"sources": {"requests": {"prometheus": stated}}}), "test")["requests"]
    return PrometheusValues("requests", definition, clock)


async def nothing(request):
    return web.Response()


async def valued(port, of=None, **given):
    asked = source(port, **given)
    try:
        return await asked.value(of or measured())
    finally:
        await asked.close()


async def test_the_query_of_an_object_is_asked_and_its_number_comes_back():
    seen = []

    async def answer(request):
        form = await request.post()
        seen.append((request.method, request.path, form["query"], form["lookback_delta"]))
        return vector(({}, "42"))

    async with serving(answer) as port:
        assert 42_000 == await valued(port)

    query = 'sum(rate(requests{namespace="prod",deployment="shop"}[1m]))'
    assert [("POST", "/base/api/v1/query", query, "120s")] == seen


async def test_a_thousand_objects_of_one_query_cost_one_request_a_period():
    seen = []

    async def answer(request):
        seen.append((await request.post())["query"])
        return vector(*(({"namespace": "prod", "deployment": f"d{number}"}, str(number)) for number in range(1000)))

    query = "sum by (namespace, deployment) (rate(requests[1m]))"
    async with serving(answer) as port:
        asked = source(port, query=query, join={"namespace": "namespace", "target": "deployment"})
        objects = [measured(f"o{number}", target=TargetRef("apps/v1", "Deployment", f"d{number}"), period=60)
                   for number in range(1000)]  # fmt: skip
        first = await asyncio.gather(*map(asked.value, objects[:500]))
        second = await asyncio.gather(*map(asked.value, objects[500:]))
        await asked.close()

    assert [number * 1000 for number in range(1000)] == [*first, *second]
    assert [query] == seen
    assert 1 == asked.requests


async def test_a_query_that_is_refused_is_told_in_the_words_of_prometheus():
    async def answer(request):
        return web.json_response({"status": "error", "errorType": "bad_data", "error": "parse error"}, status=400)

    async with serving(answer) as port:
        assert "it refused the query: parse error" == (await valued(port)).message


async def test_an_answer_without_an_end_is_broken_off():
    """The answer is 64 MiB of blanks in 64 KB of gzip: the uncompressed size counts."""

    async with serving(endless) as port:
        assert "its answer is longer than 8388608 bytes" == (await valued(port)).message


async def test_an_answer_that_drips_is_given_up_and_names_no_address():
    async with serving(drips) as port:
        answer = await valued(port, timeoutSeconds=0.2)

    assert Absent("Timeout", "it gave no answer within 0.2 s") == answer


async def test_nobody_listening_is_no_value_and_names_no_address():
    async with serving(nothing) as port:
        pass
    answer = await valued(port)

    assert Absent("Unreachable", "it cannot be reached: Connection refused") == answer


@pytest.mark.parametrize("login", ["token", "password"])
async def test_logins_are_read_from_files_and_sent_with_the_stated_headers(login, tmp_path):
    seen = []

    async def answer(request):
        seen.append((request.headers["Authorization"], request.headers["X-Scope-OrgID"]))
        return vector(({}, "1"))

    (tmp_path / "secret").write_text("s3cr3t\n")
    file = str(tmp_path / "secret")
    fields = {"tokenFile": file} if login == "token" else {"username": "me", "passwordFile": file}
    async with serving(answer) as port:
        assert 1000 == await valued(port, headers={"X-Scope-OrgID": "shop"}, **fields)

    assert [("Bearer s3cr3t" if login == "token" else "Basic bWU6czNjcjN0", "shop")] == seen


async def test_a_header_that_is_secret_is_read_from_its_file_and_repeated_to_nobody(tmp_path):
    async def answer(request):
        told = f"no rights for {request.headers['X-API-KEY']}"
        return web.json_response({"status": "error", "errorType": "x", "error": told}, status=400)

    (tmp_path / "key").write_text("s3cr3t\n")
    async with serving(answer) as port:
        answered = await valued(port, headerFiles={"X-API-KEY": str(tmp_path / "key")})

    assert "it refused the query: no rights for ..." == answered.message


async def test_a_login_that_cannot_be_read_is_no_value_and_told_to_nobody(tmp_path):
    async with serving(nothing) as port:
        (tmp_path / "token").write_text("s3cr3t\nX-Evil: 1")
        several = await valued(port, tokenFile=str(tmp_path / "token"))
        missing = await valued(port, tokenFile=str(tmp_path / "none"))

    assert several == missing == Absent("Misconfigured", "a file that its login or its TLS needs cannot be read")


async def test_a_server_is_trusted_by_the_stated_authority_alone_and_gets_our_certificate(tmp_path):
    authority, other = trustme.CA(), trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("prometheus.example").configure_cert(server)
    authority.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    own = authority.issue_cert("cronhpa.example")
    own.private_key_pem.write_to_path(str(tmp_path / "key"))
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "cert"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca"))
    other.cert_pem.write_to_path(str(tmp_path / "other"))

    async def answer(request):
        return vector(({}, "1"))

    def of(ca, **more):
        return {"scheme": "https", "caFile": str(tmp_path / ca), "certFile": str(tmp_path / "cert"),
                "keyFile": str(tmp_path / "key"), **more}  # fmt: skip

    async with serving(answer, tls=server) as port:
        assert 1000 == await valued(port, **of("ca", serverName="prometheus.example"))
        assert "Untrusted" == (await valued(port, **of("other", serverName="prometheus.example"))).reason
        assert "Untrusted" == (await valued(port, **of("ca", serverName="another.example"))).reason
        assert "Untrusted" == (await valued(port, scheme="https")).reason


async def test_of_troubles_whose_words_differ_ten_are_logged_until_an_answer(caplog):
    """Found: all words of a Prometheus that refuses each query in other ones were kept, and logged."""
    words = iter([*"abcdefghijkl", None, "m"])

    async def answer(request):
        word = next(words)
        refusal = web.json_response({"status": "error", "error": word}, status=400)
        return vector(({}, "1")) if word is None else refusal

    async with serving(answer) as port:
        asked = source(port)
        for name in "abcdefghijklmn":
            await asked.value(measured(target=TargetRef("apps/v1", "Deployment", name)))
        await asked.close()

    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [f"source requests: it refused the query: {word} (127.0.0.1)" for word in "abcdefghijm"] == told


async def test_each_trouble_is_logged_once_and_its_end_too(caplog):
    works = False

    async def answer(request):
        return vector(({}, "1")) if works else web.Response(status=503)

    caplog.set_level("INFO")
    async with serving(answer) as port:
        asked = source(port)
        for name in "abc":
            await asked.value(measured(name, period=0.001))
            await asyncio.sleep(0.002)
        works = True
        for name in "de":
            await asked.value(measured(name, period=0.001))
            await asyncio.sleep(0.002)
        await asked.close()

    told = [record.getMessage() for record in caplog.records if record.name.startswith("cronhpa.sources")]
    assert ["source requests: it answered 503 (127.0.0.1)", "source requests answers again"] == told
