"""
cronhpa.cli.objects.live_pods: the requests of the pods of a live object.

`cronhpa backtest` of an object in the cluster: on what the operator recorded, on a file, on its Prometheus.
"""

from __future__ import annotations

import asyncio
import threading

import pytest
import yaml
from typer.testing import CliRunner

from cli.commands.test_backtest import CPU, MONDAY, REQUEST, csv, hours, scores
from cronhpa.cli import app
from cronhpa.core.model.instant import DAY, MINUTE
from cronhpa.history.database.series import Series
from cronhpa.history.imports.files import import_csv
from cronhpa.history.imports.prometheus import Prometheus
from cronhpa.history.store import Store
from cronhpa.operator.monitoring.listener import Listener
from cronhpa.operator.readers.access import Verdict
from cronhpa.operator.readers.past_endpoint import BELOW, PastEndpoint
from kube.fake_api import answering


@pytest.fixture
def live(served, cronhpa, tmp_path, monkeypatch):
    """Runs the command on an object of the cluster, whose status has the request and the start-up of its pods."""
    monkeypatch.chdir(tmp_path)
    memory = {"version": 1, "recommendations": [], "scaleUpEvents": [], "scaleDownEvents": [], "startUpSeconds": 75,
              "requestPerPod": {"cpu": "1"}}  # fmt: skip
    served.hold(yaml.safe_load(CPU) | {"status": {"memory": memory}})
    (tmp_path / "load.csv").write_text(csv())

    def run(*options, given=None):
        return cronhpa("backtest", "shop", *hours("09:30", "10:30"), "-o", "json", *options, given=given)

    return run


def test_an_object_of_the_cluster_is_run_on_the_operators_store(live, tmp_path):
    store = Store(tmp_path / "history.db")
    import_csv(store.loads.backfill, Series("prod", "shop", "cpu"), tmp_path / "load.csv", now=2**62)
    store.close()

    by_variant = scores(live("--history", "history.db"))

    assert "prod/shop" == by_variant["object"]
    assert {"podCapacity": 1.0, "startUpSeconds": 75.0}.items() <= by_variant["conditions"].items()


def test_in_the_operators_pod_its_own_store_is_the_history(live, tmp_path, monkeypatch):
    """The chart sets both variables there: the store has what a Prometheus has, and more."""
    store = Store(tmp_path / "history.db")
    import_csv(store.loads.backfill, Series("prod", "shop", "cpu"), tmp_path / "load.csv", now=2**62)
    store.close()
    monkeypatch.setenv("CRONHPA_STORE", str(tmp_path / "history.db"))
    monkeypatch.setenv("CRONHPA_PROMETHEUS_URL", "http://127.0.0.1:9")

    assert "prod/shop" == scores(live())["object"]


def test_what_history_export_prints_is_a_history_on_standard_input(live, tmp_path):
    exported = (tmp_path / "load.csv").read_bytes()

    assert scores(live("--history", "load.csv")) == scores(live("--history", "-", given=exported))


def test_a_broken_line_on_standard_input_is_told_without_the_file_it_was_put_into(live):
    ended = live("--history", "-", given="timestamp,value\nsoon,1\n")

    assert 1 == ended.exit_code
    assert ended.stderr.startswith("cronhpa backtest: standard input, line 2: timestamp 'soon'")


def test_the_operators_prometheus_is_asked_with_the_operators_queries_and_token(live, tmp_path, monkeypatch):
    """Any other is not: the token is for the operator's own."""
    asked = []

    class Recording(Prometheus):
        def __init__(self, url, queries=None, token_file=None):
            super().__init__(url, queries, token_file)
            asked.append((url, dict(queries or {}), token_file))

        async def load(self, *_):
            yield [(MONDAY + minute * MINUTE, 6.0) for minute in range(24 * 60)]

    monkeypatch.setattr("cronhpa.cli.past.past.Prometheus", Recording)
    monkeypatch.setenv("CRONHPA_PROMETHEUS_URL", "http://own:9090")
    monkeypatch.setenv("CRONHPA_PROMETHEUS_QUERIES", '{"cpu": "sum(own)"}')
    monkeypatch.setenv("CRONHPA_PROMETHEUS_TOKEN_FILE", str(tmp_path / "token"))

    scores(live())
    scores(live("--history", "http://other:9090"))

    assert [
        ("http://own:9090", {"cpu": "sum(own)"}, tmp_path / "token"),
        ("http://other:9090", {}, None),
    ] == asked


@pytest.fixture
def operator_url(tmp_path):
    """The address of an operator that serves prod/shop from its store to users with Anna's token."""
    store = Store(tmp_path / "history.db")
    import_csv(store.loads.backfill, Series("prod", "shop", "cpu"), tmp_path / "load.csv", now=2**62)
    store.close()

    class Anna:
        async def may_get(self, token, namespace, name):
            return Verdict.ALLOWED if (token, namespace, name) == ("t-anna", "prod", "shop") else Verdict.REFUSED

    (tmp_path / "token").write_text("t-anna")
    (tmp_path / "nobody").write_text("t-bob")
    loop = asyncio.new_event_loop()
    past = PastEndpoint(tmp_path / "history.db", Anna(), lambda: MONDAY + DAY)
    listener = Listener("127.0.0.1", 0, {}, None, {BELOW: past.answer})
    serving = loop.create_task(listener.run())
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.gather(serving, return_exceptions=True)))
    thread.start()
    yield f"http://127.0.0.1:{listener.address[1]}"
    loop.call_soon_threadsafe(serving.cancel)
    thread.join(10)
    loop.close()


def test_an_object_of_the_cluster_is_run_on_what_the_operator_recorded(live, operator_url):
    """Without an option for the history: the same as with a copy of the operator's store."""
    result = live("--operator", operator_url, "--token-file", "token")

    assert scores(live("--history", "history.db")) == scores(result)


def test_a_user_who_may_not_get_the_object_is_told_that_nothing_was_recorded(live, operator_url):
    ended = live("--operator", operator_url, "--token-file", "nobody")

    assert (1, "") == (ended.exit_code, ended.stdout)
    assert "cronhpa backtest: the operator recorded no load of prod/shop cpu, or none for you" in ended.stderr


def test_a_token_file_of_several_lines_is_refused_in_words(live, operator_url):
    """Found: a traceback of the HTTP client."""
    ended = live("--operator", operator_url, "--token-file", "load.csv")

    assert 1 == ended.exit_code
    assert "load.csv holds more than one line: one is accepted" in ended.stderr


def test_an_operator_that_is_not_reached_is_named_with_another_way(live, tmp_path, monkeypatch):
    (tmp_path / "token").write_text("t-anna")
    monkeypatch.setenv("PATH", "/nowhere")

    ended = live("--token-file", "token")

    assert 1 == ended.exit_code
    assert "kubectl is not installed" in ended.stderr
    assert "with --history copy.db:" in ended.stderr


def test_a_file_without_a_history_says_where_one_may_be_had(live, tmp_path):
    (tmp_path / "shop.yaml").write_text(CPU)

    ended = CliRunner().invoke(app, ["backtest", "shop.yaml", *REQUEST])

    assert 1 == ended.exit_code
    assert ended.stderr.startswith(
        "cronhpa backtest: where is the load? Name a file, a copy of the operator's store or"
    )
    assert "cronhpa history export prod/shop --metric cpu | ... --history -" in ended.stderr


def target_of_pods(served, *requests):
    """A Deployment whose pods request these quantities of cpu."""
    apps, pods = "/apis/apps/v1", "/api/v1/namespaces/prod/pods"
    served.answers[apps] = answering({"resources": [{"name": "deployments", "kind": "Deployment"}]})
    scale = {"metadata": {}, "spec": {"replicas": 2}, "status": {"replicas": 2, "selector": "app=shop"}}
    served.answers[f"{apps}/namespaces/prod/deployments/shop/scale"] = answering(scale)
    items = [
        {
            "metadata": {"name": f"shop-{number}"},
            "spec": {"containers": [{"resources": {"requests": {"cpu": request}}}]},
        }
        for number, request in enumerate(requests)
    ]
    served.answers[pods] = answering({"metadata": {}, "items": items})


def test_pod_facts_that_no_status_states_are_read_from_the_pods(served, live):
    """A plain object's status has no request. Two pods of 500m and 1500m: a core each."""
    served.hold(yaml.safe_load(CPU))
    target_of_pods(served, "500m", "1500m")

    by_variant = scores(live("--history", "load.csv"))

    assert {"podCapacity": 1.0, "startUpSeconds": 60.0}.items() <= by_variant["conditions"].items()


def test_pods_that_may_not_be_read_are_named_and_an_option_takes_their_place(served, live):
    served.hold(yaml.safe_load(CPU))
    served.refuse("/apis/apps/v1", 403, "Forbidden", "apps is forbidden")

    without = live("--history", "load.csv")
    stated = live("--history", "load.csv", "--pod-request", "cpu=1")

    assert 1 == without.exit_code
    assert "what its pods request cannot be read: " in without.stderr
    assert "--pod-request cpu=500m" in without.stderr
    assert (0, "") == (stated.exit_code, "".join(line for line in stated.stderr.splitlines() if "cannot" in line))
