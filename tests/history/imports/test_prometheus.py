"""History from a Prometheus: its queries, the loads read from the answers, and the errors without an answer."""

import asyncio
import json
import re

import pytest
from typer.testing import CliRunner

from cronhpa.cli.commands.history import app
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.model.spec import TargetRef
from cronhpa.history.database.series import Series
from cronhpa.history.imports.prometheus import Prometheus, PrometheusError
from forecasting.answering import Answering, matrix

NOON = parse_instant("2026-03-01T12:00:00Z")
WEB = Series("shop", "web", "cpu")
TARGET = TargetRef("apps/v1", "Deployment", "web-server")


def answered(data, **more):
    return json.dumps({"status": "success", "data": data, **more})


async def load(server, begin, end, **settings):
    async with Prometheus(server.url, **settings) as prometheus:
        query = prometheus.query_for(WEB, TARGET)
        return [value async for part in prometheus.load(query, begin, end) for value in part]


@pytest.mark.parametrize(
    ("kind", "pods", "other"),
    [
        ("Deployment", "web-server-7d4f9c-x2x4z", "web-server-admin-7d4f9c-x2x4z"),
        ("ReplicaSet", "web-server-x2x4z", "web-server-admin-x2x4z"),
        ("StatefulSet", "web-server-12", "web-server-db-12"),
        ("Rollout", "web-server-whatever", "web-serve-r"),
    ],
)
async def test_cpu_is_asked_for_as_the_sum_over_the_targets_pods(kind, pods, other):
    """And not over those of a workload whose name begins alike."""
    async with Prometheus("http://localhost:9090") as prometheus:
        query = prometheus.query_for(WEB, TargetRef("apps/v1", kind, "web-server"))

    assert query.startswith('sum(rate(container_cpu_usage_seconds_total{namespace="shop", pod=~"web-server-')
    (pattern,) = re.findall('pod=~"([^"]*)"', query)
    assert re.fullmatch(pattern, pods)
    assert not re.fullmatch(pattern, other)


@pytest.mark.parametrize("metric", ["cpu", "memory"])
async def test_the_usage_of_a_container_is_asked_for_without_the_others_of_its_pods(metric):
    """Found: what its sidecars use was imported as the load of a ContainerResource metric, and forecast."""
    series = Series("shop", "web", metric)
    async with Prometheus("http://localhost:9090", matcher='cluster="a"') as prometheus:
        query = prometheus.query_for(series, TARGET, "app")
        with pytest.raises(PrometheusError, match="is not a container's name"):
            prometheus.query_for(series, TARGET, 'app"} or {')

    assert re.search(r'[{]namespace="shop", pod=~"[^"]+", container="app", cluster="a"[}]', query)


async def test_a_stated_query_is_asked_as_it_is():
    stated = {"cpu": 'load{pod=~"$target-.+"}'}
    async with Prometheus("http://localhost:9090", stated) as prometheus:
        assert 'load{pod=~"web-server-.+"}' == prometheus.query_for(WEB, TARGET)


async def test_a_query_of_the_operators_is_filled_in_with_the_objects_names():
    template = 'load{ns="$namespace", n="$name", t="$kind/$target", m="$metric", money="$$"}'
    async with Answering() as server:
        await load(server, NOON, NOON + HOUR, queries={"cpu": template})

    assert 'load{ns="shop", n="web", t="Deployment/web-server", m="cpu", money="$"}' == server.asked[0][0]


async def test_every_minute_of_the_span_is_asked_for_once_in_parts_of_seven_days():
    """Fifteen days: 7 + 7 + 1. A part ends a minute before the next begins."""
    async with Answering() as server:
        values = await load(server, NOON, NOON + 15 * DAY)

    assert [60] * 3 == [step for _, _, _, step in server.asked]
    assert [(NOON + i * MINUTE, 1.5) for i in range(15 * 1440)] == values
    assert max((end - start) // 60 + 1 for _, start, end, _ in server.asked) < 11_000


async def test_a_gap_and_not_a_number_stay_gaps():
    odd = {NOON // SECOND: None, NOON // SECOND + 60: "NaN"}
    async with Answering(lambda at: odd.get(at, "2")) as server:
        assert [(NOON + 2 * MINUTE, 2.0)] == await load(server, NOON, NOON + 3 * MINUTE)


async def test_a_token_is_read_anew_for_every_query(tmp_path):
    token = tmp_path / "token"
    async with Answering() as server, Prometheus(server.url, token_file=token) as prometheus:
        for text in ("first\n", "second\n"):
            token.write_text(text)
            async for _ in prometheus.load("up", NOON, NOON + HOUR):
                pass

    assert ["Bearer first", "Bearer second"] == server.headers


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (
            json.dumps({"status": "error", "error": "parse error at char 7"}),
            400,
            "400: parse error at char 7: asked was",
        ),
        ("Unauthorized", 401, "401: it refuses requests without credentials: a file with a bearer token, or a user"),
        ("<html>Sign in</html>", 200, "an answer of Prometheus' HTTP API is needed"),
        (answered({"resultType": "vector", "result": []}), 200, "200: vector"),
        (answered(matrix([[1, "1"]], [[1, "2"]])), 200, "gives 2 series: one is needed, such as a sum(...) of them"),
        (answered({"resultType": "matrix", "result": [{"values": "many"}]}), 200, "gives no numbers over time"),
    ],
    ids=["refused", "no login", "no json", "vector", "two series", "no numbers"],
)
async def test_an_answer_that_is_no_load_is_refused_with_what_came(answer, status, said):
    async with Answering(answer=answer, status=status) as server:
        with pytest.raises(PrometheusError) as raised:
            await load(server, NOON, NOON + HOUR)

    assert said in str(raised.value)


async def test_an_unreachable_prometheus_is_named_with_its_address():
    async with Answering() as server:
        pass
    with pytest.raises(PrometheusError, match=rf"{server.url}/api/v1/query_range: .*: is that a Prometheus\?"):
        await load(server, NOON, NOON + HOUR)


@pytest.mark.parametrize(
    ("metric", "queries", "said"),
    [
        ("requests", {}, "there is no query for requests, only for cpu, memory: add one for this metric"),
        ("cpu", {"cpu": "load{$cluster}"}, "the query for cpu: a dollar sign begins no known name: $namespace, $name"),
    ],
)
def test_a_query_that_is_missing_or_holds_an_unknown_name_is_told(metric, queries, said):
    with pytest.raises(PrometheusError) as raised:
        Prometheus("http://nobody", queries).query_for(Series("shop", "web", metric), TARGET)

    assert said in str(raised.value)


async def imported(*arguments):
    """The command in a thread of its own: it has a loop of its own. There is no cluster to ask for the object."""
    runner = CliRunner()
    words = ["import", "--before-object", *(str(argument) for argument in arguments)]
    return await asyncio.to_thread(runner.invoke, app, words)


async def test_the_command_imports_from_a_prometheus(tmp_path):
    path = tmp_path / "history.db"
    async with Answering() as server:
        done = await imported("shop/web", "--store", path, "--prometheus", server.url, "--days", 2, "--query", "sum(x)")

    assert 0 == done.exit_code, done.output
    assert "sum(x)" == server.asked[0][0]
    # Two days of minutes touch 577 steps, and 576 where the clock stands at the beginning of one.
    assert re.search("shop/web cpu: 2880 values and 0 gaps read, 57[67] five-minute maxima kept", done.output)


async def test_the_command_says_what_is_missing(tmp_path):
    path = tmp_path / "history.db"
    async with Answering(lambda _: None) as server:
        nothing = await imported("shop/web", "--store", path, "--prometheus", server.url)
    neither = await imported("shop/web", "--store", path)

    assert (1, 2) == (nothing.exit_code, neither.exit_code)
    assert "knows nothing of shop/web cpu over the last 28 days: asked was sum(rate(" in nothing.stderr
    assert "one of FILE and --prometheus URL is needed" in neither.stderr


async def test_a_tenant_is_named_to_the_server_beside_the_token(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret")
    async with Answering() as server, Prometheus(server.url, token_file=token, tenant="team-a") as prometheus:
        async for _ in prometheus.load("up", NOON, NOON + HOUR):
            pass

    assert ["team-a"] == server.tenants
    assert ["Bearer secret"] == server.headers


async def test_a_file_without_certificates_is_named(tmp_path):
    (tmp_path / "ca.pem").write_text("none")

    with pytest.raises(PrometheusError, match=r"ca\.pem: .*: a file of PEM certificates is needed"):
        async with Prometheus("https://localhost:1", ca_file=tmp_path / "ca.pem"):
            pass
