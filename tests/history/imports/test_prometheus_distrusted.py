"""A Prometheus that answers too much, too slowly, with nonsense or with an address elsewhere, and who waits for it."""

import asyncio
import gzip
import json
import logging
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from cronhpa.cli import app as command
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.model.spec import TargetRef
from cronhpa.history.database.series import Series
from cronhpa.history.imports import prometheus as module
from cronhpa.history.imports.backfill import Backfills
from cronhpa.history.imports.prometheus import Prometheus, PrometheusError, PrometheusUnusableError
from cronhpa.history.store import Store
from cronhpa.operator.settings import Settings
from forecasting.answering import Answering, matrix

NOON = parse_instant("2026-03-01T12:00:00Z")
TARGET = TargetRef("apps/v1", "Deployment", "web")
PASSWORD = "s3cr3t"


@asynccontextmanager
async def served(answer):
    """The address of a server that answers every request so."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def loaded(url, **settings):
    async with Prometheus(url, **settings) as prometheus:
        return [point async for part in prometheus.load("up", NOON, NOON + HOUR) for point in part]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_an_answer_without_an_end_is_broken_off(packed):
    """64 MiB of blanks are 64 KB of gzip: the bound counts bytes after decompression."""
    sent = 0

    async def endless(request):
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Encoding": "gzip"} if packed else {})
        await response.prepare(request)
        mebibyte = b" " * 2**20
        for part in [gzip.compress(mebibyte * 64)] if packed else [mebibyte] * 300:
            await response.write(part)
            sent += len(part)
        return response

    async with served(endless) as address:
        with pytest.raises(PrometheusUnusableError, match=r"its answer is longer than 2097152 bytes"):
            await loaded(f"http://{address}")

    # The rest of what was sent lies in sockets.
    assert sent < 30 * 2**20


async def test_an_answer_that_drips_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.3)

    async def dripping(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b" ")
            await asyncio.sleep(0.05)
        return response

    async with served(dripping) as address:
        with pytest.raises(PrometheusUnusableError, match=r"no whole answer within 0\.3 s"):
            await loaded(f"http://{address}")


async def test_a_redirect_is_not_followed_with_the_credentials(tmp_path):
    asked = []
    (tmp_path / "token").write_text("secret")

    async def elsewhere(request):
        asked.append(request.path)
        return web.Response(status=307, headers={"Location": "/stolen"})

    async with served(elsewhere) as address:
        with pytest.raises(PrometheusUnusableError, match="307: it points elsewhere, which is not followed"):
            await loaded(f"http://{address}", token_file=tmp_path / "token")

    assert ["/api/v1/query_range"] == asked


@pytest.mark.parametrize(
    "values",
    [
        [["1", "1"]],
        [[NOON // SECOND, "many"]],
        [[NOON // SECOND, 1]],
        [[NOON // SECOND]],
        [[NOON // SECOND + 60 * i % 3600, "1"] for i in range(10_082)],
    ],
    ids=["time as text", "no number", "number as number", "half a point", "too many"],
)
async def test_malformed_points_are_refused(values):
    answer = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [{"values": values}]}})
    async with Answering(answer=answer) as server:
        with pytest.raises(PrometheusError, match=r"gives no numbers over time|gives 10082 points"):
            await loaded(server.url)


async def test_points_outside_the_span_that_was_asked_for_are_left_out():
    """An hour was asked for: its first minute is 12:00, its last 12:59."""
    values = [[NOON // SECOND + 60 * minute, "1"] for minute in (-10_000, -1, 0, 59, 60, 10_000)]
    values.append([1e300, "1"])
    answer = json.dumps({"status": "success", "data": matrix(values)})
    async with Answering(answer=answer) as server:
        assert [(NOON, 1.0), (NOON + 59 * MINUTE, 1.0)] == await loaded(server.url)


async def test_a_deep_answer_is_no_answer():
    async with Answering(answer='{"data": ' + "[" * 500_000) as server:
        with pytest.raises(PrometheusUnusableError, match="an answer of Prometheus' HTTP API is needed"):
            await loaded(server.url)


# --- who waits ---------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


def objects(count):
    return [(Series("shop", f"web-{i}", "cpu"), TARGET, None) for i in range(count)]


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "history.db")
    yield opened
    opened.close()


async def test_a_failing_prometheus_is_not_queried_once_for_each_object(store):
    """Pauses of 1, 2, 4, 8, 10, 10, ... minutes: queries at 0, 1, 3, 7, 15, 25, 35, 45 and 55 are 9 in an hour."""
    asked = []

    async def sign_in(request):
        asked.append((await request.post())["query"])
        return web.Response(text="<html>Sign in</html>")

    clock = Clock()
    async with served(sign_in) as address:
        backfills = Backfills(clock)
        for _ in range(360):
            await backfills.run_round(lambda: Prometheus(f"http://{address}"), store.loads, objects(100), lambda: NOON)
            clock.seconds += 10

    assert 9 == len(asked)


async def test_a_prometheus_is_opened_only_for_an_object_whose_past_is_due(store):
    """A client was opened and closed every ten seconds, for ever."""
    opened = []
    async with Answering(lambda _: None) as server:

        def open_prometheus():
            opened.append(server.url)
            return Prometheus(server.url)

        backfills = Backfills(Clock())
        for count in (0, 2, 2, 2, 3):
            await backfills.run_round(open_prometheus, store.loads, objects(count), lambda: NOON)

    assert 2 == len(opened)


async def test_an_object_whose_query_is_refused_costs_the_others_nothing(store):
    queries = {"cpu": 'load{of="$name"}'}
    refused = Answering(answer=json.dumps({"status": "error", "error": "no"}), status=400)
    async with refused as server:
        await Backfills(Clock()).run_round(
            lambda: Prometheus(server.url, queries), store.loads, objects(3), lambda: NOON
        )

    assert [f'load{{of="web-{i}"}}' for i in range(3)] == [query for query, *_ in server.asked]


async def test_the_past_of_a_container_is_asked_for_without_that_of_others(store):
    async with Answering(lambda _: None) as server:
        wanted = [(Series("shop", "web", "cpu"), TARGET, "app")]
        await Backfills(Clock()).run_round(lambda: Prometheus(server.url), store.loads, wanted, lambda: NOON)

    assert server.asked
    assert all('container="app"}' in query for query, *_ in server.asked)


async def test_an_object_with_an_invalid_name_is_not_queried_and_the_others_are(store):
    attack = TargetRef("apps/v1", "Deployment", 'x"}) or sum(load{namespace="victim')
    wanted = [(Series("shop", "bad", "cpu"), attack, None), *objects(1)]
    async with Answering(lambda _: None) as server:
        await Backfills(Clock()).run_round(lambda: Prometheus(server.url), store.loads, wanted, lambda: NOON)

    assert server.asked
    assert not [query for query, *_ in server.asked if "victim" in query]


# --- the password ------------------------------------------------------------------------------------------------


async def test_user_and_password_of_the_url_are_sent_and_told_to_nobody(store, caplog):
    seen = []

    async def refuses(request):
        seen.append(request.headers["Authorization"])
        return web.Response(status=401, text="who are you?")

    async with served(refuses) as address:
        url = f"http://alice:{PASSWORD}@{address}"
        with caplog.at_level(logging.DEBUG):
            await Backfills(Clock()).run_round(lambda: Prometheus(url), store.loads, objects(1), lambda: NOON)

    assert ["Basic YWxpY2U6czNjcjN0"] == seen  # base64 of alice:s3cr3t
    assert f"{address}: 401" in caplog.text.replace("http://", "").replace("/api/v1/query_range", "")
    assert PASSWORD not in caplog.text


async def test_a_token_that_a_server_repeats_in_a_line_that_is_no_http_is_told_to_nobody(tmp_path):
    (tmp_path / "token").write_text(PASSWORD)

    async def echo(reader, writer):
        request = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nyou sent " + request.partition(b"\r\n")[2])
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(PrometheusError) as raised:
            await loaded(url, token_file=tmp_path / "token")

    told = f"{url}/api/v1/query_range: ClientResponseError: Invalid header token: is that a Prometheus?"
    assert told == str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://alice:s3cr3t@127.0.0.1:9",
        "http://alice:s3cr3t@nobody.invalid",
        "http://alice:s3cr3t@127.0.0.1:9/x",
        "http://alice:s3cr3t@127.0.0.1:99999",
        "http://alice:s3cr3t/x@127.0.0.1",
        "http://alice:s3cr3t?x@127.0.0.1",
        "http://alice:s3cr3t#x@127.0.0.1",
        "alice:s3cr3t@127.0.0.1",
        "http://alice:s3cr3t@[127.0.0.1",
        "http://alice:s3cr3t @127.0.0.1\n",
        "ftp://alice:s3cr3t@127.0.0.1",
    ],
)
async def test_no_error_of_any_address_tells_its_password(url, tmp_path):
    with pytest.raises(PrometheusError) as raised:
        await loaded(url)

    runner = CliRunner()
    options = ["import", "a/b", "--store", str(tmp_path / "h.db"), "--prometheus", url]
    imported = await asyncio.to_thread(runner.invoke, command, ["history", *options])
    assert PASSWORD not in str(raised.value)
    assert 1 == imported.exit_code
    assert PASSWORD not in imported.output


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CRONHPA_PROMETHEUS_URL", "http://alice:s3cr3t/x@prometheus", "it cannot be read"),
        ("CRONHPA_PROMETHEUS_URL", "prometheus.monitoring/x", "it is no http or https URL"),
        ("CRONHPA_PROMETHEUS_QUERIES", '{"cpu": "sum($metric)"}', "the query for cpu: $metric stands outside"),
    ],
)
def test_the_operator_does_not_start_with_a_prometheus_that_cannot_be_asked(name, value, said, monkeypatch):
    monkeypatch.setenv(name, value)
    result = CliRunner().invoke(command, ["run"])

    assert 2 == result.exit_code
    assert f"{name}: " in result.stderr
    assert said in result.stderr
    assert PASSWORD not in result.output


@given(st.text(min_size=1))
def test_any_text_is_an_address_or_refused_without_being_told(text):
    secret = f"http://alice:{PASSWORD}{text}@prometheus"
    try:
        assert secret == Settings(prometheus_url=secret).prometheus_url
    except ValidationError as problem:
        (error,) = problem.errors(include_url=False)
        assert PASSWORD not in error["msg"]
