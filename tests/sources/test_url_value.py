"""cronhpa.sources.url: a URL is asked. What it is shown of us and of a tenant, and one that is no good."""

import asyncio
import json
import ssl

import pytest
import trustme
from aiohttp import web

from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import TargetRef
from cronhpa.sources.parse import parse_sources
from cronhpa.sources.url import UrlValues
from sources.answering_sources import NOON, drips, endless, measured, serving


def source(port, scheme="http", path="/scale?ns=$namespace&of=$target", host="127.0.0.1", **fields):
    # Four mebibytes took a busy machine longer than the default of five seconds.
    stated = {"url": f"{scheme}://{host}:{port}{path}", "value": "queues.0.length", "timeoutSeconds": 30, **fields}
    if stated.get("format") in {"text", "prometheus"}:
        del stated["value"]
    definition = parse_sources(json.dumps({"sources": {"length": {"url": stated}}}), "test")["length"]
    return UrlValues("length", definition, lambda: NOON)


async def valued(port, of=None, **given):
    asked = source(port, **given)
    try:
        return await asked.value(of or measured())
    finally:
        await asked.close()


async def lengths(request):
    return web.json_response({"queues": [{"length": 42}]})


async def nothing(request):
    return web.Response()


async def test_the_url_of_an_object_is_asked_and_its_number_comes_back():
    seen = []

    async def answer(request):
        seen.append((request.method, request.path_qs, request.headers["Accept"], request.headers.get("Cookie")))
        return await lengths(request)

    async with serving(answer) as port:
        assert 42_000 == await valued(port)

    assert [("GET", "/scale?ns=prod&of=shop", "application/json,*/*;q=0.1", None)] == seen


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ("queues: [{length: 42}]", {"format": "yaml"}),
        ("42\n", {"format": "text"}),
        ("# TYPE length gauge\nlength 42\n", {"format": "prometheus", "metric": "length"}),
        # What is long is read in a thread.
        ("queues: [{length: 42}]\n#" + " " * 2000, {"format": "yaml"}),
    ],
)
async def test_each_format_is_read(body, fields):
    async def answer(request):
        return web.Response(text=body)

    async with serving(answer) as port:
        assert 42_000 == await valued(port, **fields)


async def test_objects_of_one_url_share_a_request_and_others_have_their_own():
    seen = []

    async def answer(request):
        seen.append(request.path_qs)
        return await lengths(request)

    async with serving(answer) as port:
        shared, own = source(port, path="/total"), source(port)
        objects = [measured(f"o{number}", target=TargetRef("apps/v1", "Deployment", f"d{number}"), period=1)
                   for number in range(50)]  # fmt: skip
        assert [42_000] * 50 == await asyncio.gather(*map(shared.value, objects))
        await asyncio.gather(*map(own.value, objects[:3]))
        await asyncio.gather(shared.close(), own.close())

    assert ["/scale?ns=prod&of=d0", "/scale?ns=prod&of=d1", "/scale?ns=prod&of=d2", "/total"] == sorted(seen)
    assert (1, 3) == (shared.requests, own.requests)


@pytest.mark.parametrize(("kind", "limit"), [("json", 2**20), ("yaml", 2**16), ("text", 2**10), ("prometheus", 2**22)])
async def test_an_answer_without_an_end_is_broken_off(kind, limit):
    """64 MiB of blanks in 64 KB of gzip."""

    fields = {"format": kind} | ({"metric": "m"} if kind == "prometheus" else {})
    async with serving(endless) as port:
        assert Absent("TooLarge", f"its answer is longer than {limit} bytes") == await valued(port, **fields)


async def test_an_answer_that_drips_is_given_up():
    async with serving(drips) as port:
        answer = await valued(port, timeoutSeconds=0.2)

    assert Absent("Timeout", "it gave no answer within 0.2 s") == answer


async def test_nobody_listening_and_an_empty_answer_are_no_value():
    async with serving(nothing) as port:
        assert Absent("NoNumber", "its answer is empty") == await valued(port)

    assert Absent("Unreachable", "it cannot be reached: Connection refused") == await valued(port)


@pytest.mark.parametrize("login", ["token", "password", "key"])
async def test_logins_are_read_from_files_and_sent_with_the_stated_headers(login, tmp_path):
    seen = []

    async def answer(request):
        seen.append([request.headers.get(name) for name in ("Authorization", "X-API-KEY", "X-Shop")])
        return await lengths(request)

    (tmp_path / "secret").write_text("s3cr3t\n")
    file = str(tmp_path / "secret")
    fields = {
        "token": {"tokenFile": file},
        "password": {"username": "me", "passwordFile": file},
        "key": {"headerFiles": {"X-API-KEY": file}},
    }[login]
    async with serving(answer) as port:
        assert 42_000 == await valued(port, headers={"X-Shop": "1"}, **fields)

    sent = {
        "token": ["Bearer s3cr3t", None, "1"],
        "password": ["Basic bWU6czNjcjN0", None, "1"],
        "key": [None, "s3cr3t", "1"],
    }[login]
    assert [sent] == seen


async def test_a_secret_that_cannot_be_read_is_no_value_and_nothing_is_asked(tmp_path):
    seen = []

    async def answer(request):
        seen.append(request.path)
        return await lengths(request)

    (tmp_path / "key").write_text("s3cr3t\r\nX-Evil: 1")
    async with serving(answer) as port:
        answers = [await valued(port, headerFiles={"X-API-KEY": str(tmp_path / name)}) for name in ("key", "none")]

    assert [Absent("Misconfigured", "a file that its login or its TLS needs cannot be read")] * 2 == answers
    assert [] == seen


async def test_a_server_is_trusted_by_the_stated_authority_alone_and_gets_our_certificate(tmp_path):
    authority, other = trustme.CA(), trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    own = authority.issue_cert("cronhpa.example")
    own.private_key_pem.write_to_path(str(tmp_path / "key"))
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "cert"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca"))
    other.cert_pem.write_to_path(str(tmp_path / "other"))
    pair = {"certFile": str(tmp_path / "cert"), "keyFile": str(tmp_path / "key"), "scheme": "https"}

    async with serving(lengths, tls=server) as port:
        assert 42_000 == await valued(port, caFile=str(tmp_path / "ca"), **pair)
        assert "Untrusted" == (await valued(port, caFile=str(tmp_path / "other"), **pair)).reason
        assert "Untrusted" == (await valued(port, scheme="https")).reason


async def test_an_answer_that_is_no_http_is_logged_without_the_query_and_the_token_that_it_repeats(tmp_path, caplog):
    (tmp_path / "token").write_text("t0k3n")

    async def echo(reader, writer):
        writer.write(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async def echo_headers(reader, writer):
        request = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nyou sent " + request.partition(b"\r\n")[2])
        writer.close()

    for answer in (echo, echo_headers):
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await valued(port, path="/a?key=s3cr3t&of=$name", tokenFile=str(tmp_path / "token"))

    broken = "source length: the connection broke before the answer was whole"
    assert [
        f"{broken} (ClientResponseError: Bad status line)",
        f"{broken} (ClientResponseError: Invalid header token)",
    ] == [record.getMessage() for record in caplog.records if record.name.startswith("cronhpa.sources")]


async def test_a_trouble_is_logged_once_and_names_no_more_than_the_host(caplog):
    async def answer(request):
        return web.Response(status=503)

    async with serving(answer) as port:
        asked = source(port, path="/a?key=s3cr3t&of=$name")
        for name in "abc":
            await asked.value(measured(name))
        await asked.close()

    told = [record.getMessage() for record in caplog.records if record.name.startswith("cronhpa.sources")]
    assert ["source length: it answered 503 (127.0.0.1)"] == told
