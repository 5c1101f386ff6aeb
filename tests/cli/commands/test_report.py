"""`cronhpa report` offline: its answer, its page, its manifests, its errors."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle

import pytest
import yaml
from msgspec.structs import replace
from typer.testing import CliRunner

from cronhpa.cli import app
from cronhpa.cli.report.html import as_html
from cronhpa.core.model.instant import DAY, SECOND, format_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.prices import Prices
from cronhpa.core.model.spec import Span
from cronhpa.reporting.cases import Suggestion, SuggestionKind
from cronhpa.reporting.cluster_report import report_of
from cronhpa.reporting.reported_target import LeftOut
from cronhpa.reporting.suggestions import JudgedTarget
from cronhpa.simulation.run import ReplicaChange, Run
from cronhpa.simulation.score import ScoreAccumulator
from reporting.made_targets import MONDAY, deployment, hpa, points, rush, target


@contextmanager
def served(status):
    """The address of a server that answers with this status, and the paths that it was asked for."""
    asked = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.path)
            self.send_error(status)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


SCRIPT = "<script>alert(1)</script>"


def run(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """
    Four days of a load that needs 20 pods each morning, where 10 are allowed; an HPA with two days of a load, and one
    without any.
    """
    folder = tmp_path_factory.mktemp("report")
    (folder / "loads/prod").mkdir(parents=True)
    for name, days in (("shop", 4), ("short", 2)):
        lines = [f"{format_instant(at)},{value}" for at, value in points(days, rush)]
        (folder / f"loads/prod/{name}.csv").write_text("\n".join(["timestamp,value", *lines]))
    bodies = [hpa(maximum=10), deployment()]
    bodies += [body for name in ("unknown", "short") for body in (hpa(name), deployment(name))]
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(bodies))
    return folder


@pytest.fixture(scope="module")
def reported(folder):
    arguments = [folder / "objects.yaml", "--history", folder / "loads", "--jobs", 1, "--time-zone", "UTC"]
    result = run(*arguments, "-o", "json", "--html", folder / "report.html", "--write", folder / "proposals")
    assert 0 == result.exit_code, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (deployment() | {"spec": "x"}, "Deployment/shop is left out: spec: found str: object is accepted"),
        (
            deployment() | {"kind": "Pod", "spec": {"containers": [{"name": "main"}, 5]}},
            "Pod/shop is left out: spec.containers[1]: found int: object is accepted",
        ),
        (
            {key: value for key, value in deployment().items() if key != "kind"},
            "object/shop is left out: Object missing required field `kind`",
        ),
    ],
)
def test_an_object_of_another_shape_is_told_and_left_out_alone(tmp_path, body, told):
    """Found: a traceback."""
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([body, hpa()]))

    result = run(tmp_path / "objects.yaml", "--history", tmp_path)

    assert 1 == result.exit_code
    assert f"objects.yaml: {told}" in result.stderr
    assert "cpu: its Utilization target needs what a pod requests, and its pods state none" in " ".join(
        result.stdout.split()
    )


@pytest.mark.slow
def test_the_answer_names_what_is_worth_doing_and_what_is_left_out(reported):
    (target,) = reported["targets"]

    assert "prod/Deployment/shop" == target["target"]
    assert any("maxReplicas" in suggestion["change"] for suggestion in target["suggestions"])
    left_out = {one["autoscaler"]: one["why"] for one in reported["leftOut"]}
    assert ["prod/Deployment/short", "prod/HorizontalPodAutoscaler/unknown"] == sorted(left_out)
    assert "loads has no prod/unknown.cpu.csv" in left_out["prod/HorizontalPodAutoscaler/unknown"]
    assert left_out["prod/Deployment/short"].startswith("48 h of load are too short")


def test_the_figures_are_those_of_a_backtest_of_the_written_manifest(folder, reported):
    (target,) = reported["targets"]
    best = target.get("together") or target["suggestions"][0]
    (manifest,) = (folder / "proposals").glob("*.yaml")
    arguments = [manifest, "--history", folder / "loads/prod/shop.csv", "--pod-request", "cpu=1", "-o", "json"]
    arguments += ["--from", target["from"], "--to", target["to"]]

    result = CliRunner().invoke(app, ["backtest", *map(str, arguments)])

    assert 0 == result.exit_code, result.stderr
    score = list(json.loads(result.stdout)["variants"].values())[-1]
    assert best["underProvisionedMinutes"] == score["underProvisionedMinutes"]
    assert best["podHours"] == score["podHours"]
    assert manifest.read_text().startswith(f"# {best['change'][:20]}")


def test_the_page_loads_nothing_and_shows_the_week(folder, reported):
    page = (folder / "report.html").read_text()

    assert not re.search(r"(?:src|href)=|url\(|<script|@import", page)
    assert "prod/Deployment/shop" in page
    assert 3 == page.count("<path ")


def test_a_page_of_two_hundred_restless_targets_can_be_mailed():
    """A load that moves each 15 s changes the count 5,760 times a day; a column of pixels is twelve minutes wide."""
    judged = JudgedTarget(
        target=target(points(3, rush), hpa()),
        span=Span(MONDAY, MONDAY + 7 * DAY),
        needed=(3.0,) * 1008,
        week=_restless_week(range(3, 20)),
        suggestions=(Suggestion(SuggestionKind.BOUNDS, "minReplicas 2", "why", {}, _restless_week(range(5, 9))),),
    )

    page = as_html(report_of([judged] * 200, [], [], Prices()))

    assert 600 == page.count("<path ")
    assert len(page) < 10 * 2**20
    # The counts between which it moves are both drawn in each column, and ten pictures stand open.
    lowest, highest = (round(160 * (1 - pods / 19 / 1.05)) for pods in (3, 19))
    assert f"V{highest}V{lowest}" in page or f"V{lowest}V{highest}" in page
    assert 190 == page.count("<details>")


def _restless_week(counts):
    """Another count each 15 s."""
    numbers = cycle(counts)
    changes = tuple(
        ReplicaChange(at, count, count)
        for at, count in zip(range(MONDAY, MONDAY + 7 * DAY, 15 * SECOND), numbers, strict=False)
    )
    score = replace(ScoreAccumulator(1.0).score(), span=7 * DAY, most_replicas=max(counts))
    return Run(score, changes, Memory())


def test_a_name_of_the_cluster_is_text_on_the_page(reported):
    page = as_html(report_of([], [LeftOut(SCRIPT, SCRIPT)], [SCRIPT], Prices()))

    assert SCRIPT not in page
    assert 3 == page.count("&lt;script&gt;")


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    """Four days of a load that pods are scaled for, twice: there is nothing to gain."""
    folder = tmp_path_factory.mktemp("steady")
    (folder / "loads/prod").mkdir(parents=True)
    lines = [f"{format_instant(at)},{value}" for at, value in points(4, lambda _: 6.0)]
    bodies = []
    for name in ("one", "two"):
        (folder / f"loads/prod/{name}.csv").write_text("\n".join(["timestamp,value", *lines]))
        bodies += [hpa(name, utilization=95), deployment(name)]
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(bodies))
    return folder


def test_nothing_to_gain_is_told_with_its_doubts(steady, tmp_path):
    result = run(steady / "objects.yaml", "--history", steady / "loads", "--jobs", 1, "--html", tmp_path / "page.html")

    assert 0 == result.exit_code, result.stderr
    told = "prod/Deployment/one: never short in 2.0 days, and no setting saves pods doubt: 4 days of history only"
    assert told in " ".join(result.stdout.split())
    page = (tmp_path / "page.html").read_text()
    assert 2 == page.count("never short in 2.0 days, and no setting saves pods.")
    assert 2 == page.count("Doubt: 4 days of history only.")


def test_two_autoscalers_of_one_target_are_both_judged(steady):
    """As while a CronHPA is tried beside the HPA."""
    other = hpa("two", utilization=95)
    other["spec"]["scaleTargetRef"]["name"] = "one"
    (steady / "twice.yaml").write_text(yaml.safe_dump_all([hpa("one", utilization=95), other, deployment("one")]))

    result = run(steady / "twice.yaml", "--history", steady / "loads", "--jobs", 1, "-o", "json")

    assert 0 == result.exit_code, result.output
    targets = json.loads(result.stdout)["targets"]
    assert ["prod/Deployment/one"] * 2 == [one["target"] for one in targets]
    assert {"HorizontalPodAutoscaler/one", "HorizontalPodAutoscaler/two"} == {one["autoscaler"] for one in targets}


def test_what_was_judged_before_an_interrupt_is_shown(steady, monkeypatch):
    """Ctrl-C after the first of two targets."""
    import concurrent.futures

    as_completed = concurrent.futures.as_completed

    def interrupted(futures):
        yield next(as_completed(futures))
        raise KeyboardInterrupt

    monkeypatch.setattr(concurrent.futures, "as_completed", interrupted)

    result = run(steady / "objects.yaml", "--history", steady / "loads", "--jobs", 1, "-o", "json")

    answer = json.loads(result.stdout)
    assert (130, 1) == (result.exit_code, len(answer["targets"]))
    assert ["the report was interrupted before it was judged"] == [one["why"] for one in answer["leftOut"]]
    assert "interrupted: 1 of 2 targets were judged" in result.stderr


def test_the_written_manifest_can_be_previewed(folder, reported):
    (manifest,) = (folder / "proposals").glob("*.yaml")

    result = CliRunner().invoke(app, ["preview", str(manifest)])

    assert 0 == result.exit_code, result.stderr
    assert "prod/shop" in result.stdout


def test_the_rights_are_to_get_and_list_alone():
    role = yaml.safe_load(run("--print-rbac").stdout)

    assert [["get", "list"]] * len(role["rules"]) == [rule["verbs"] for rule in role["rules"]]
    assert ["autoscaling"] in [rule["apiGroups"] for rule in role["rules"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "where is the load?"),
        (["--history", "x", "--time-zone", "Berlin"], "Berlin"),
        (["shop.yaml", "--history", "x", "-l", "app=shop"], "a file is read as a whole"),
        (["--prometheus", "http://u:p@h:1/?a=b"], "it holds more than a host, a port and a path"),
        (["--prometheus", "http://h:1", "--query", "cpu"], "write METRIC=PROMQL"),
        (["--history", "x", "--dask", "tcp://h:8786"], "only tls://HOST:PORT is accepted"),
        (["--history", "x", "--dask", "tls://h:8786"], "CRONHPA_DASK_CA_FILE"),
    ],
)
def test_a_wrong_option_is_told_with_what_is_accepted(arguments, said):
    result = run(*arguments)

    assert 2 == result.exit_code
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_credentials_that_are_refused_end_the_report_at_once(folder, tmp_path):
    """A server that answers 401 to whatever is asked."""
    (tmp_path / "token").write_text("wrong")

    with served(HTTPStatus.UNAUTHORIZED) as (url, asked):
        result = run(folder / "objects.yaml", "--prometheus", url, "--token-file", tmp_path / "token")

    assert (1, 1) == (result.exit_code, len(asked))
    assert "401: it refuses these credentials" in " ".join(result.stderr.split())


def test_objects_without_an_autoscaler_end_with_1(folder, tmp_path):
    (tmp_path / "pods.yaml").write_text(yaml.safe_dump(deployment()))

    result = run(tmp_path / "pods.yaml", "--history", folder / "loads")

    assert (1, "no target could be judged: there is no autoscaler") == (
        result.exit_code, result.stderr.strip().split("report: ")[-1],
    )  # fmt: skip


def test_a_file_with_a_key_twice_is_refused_with_both_lines(folder, tmp_path):
    """Found: the last of the two counted, without a word."""
    (tmp_path / "twice.yaml").write_text("kind: HorizontalPodAutoscaler\nspec:\n  maxReplicas: 9\n  maxReplicas: 90\n")

    result = run(tmp_path / "twice.yaml", "--history", folder / "loads")

    said = "twice.yaml:4: maxReplicas: it stands in line 3 already: leave one"
    assert (1, True) == (result.exit_code, said in "".join(result.stderr.split("\n")))


def test_a_scheduler_that_does_not_answer_is_named(folder, monkeypatch):
    monkeypatch.setenv("CRONHPA_DASK_INSECURE", "true")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"

    result = run(folder / "objects.yaml", "--history", folder / "loads", "--dask", address)

    assert 1 == result.exit_code
    assert f"--dask {address}: " in result.stderr


@pytest.mark.long
def test_a_dask_cluster_judges_as_this_machine_does(folder, reported, monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setenv("CRONHPA_DASK_INSECURE", "true")
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as dask:
        arguments = ["--dask", dask.scheduler_address, "--time-zone", "UTC", "-o", "json"]
        result = run(folder / "objects.yaml", "--history", folder / "loads", *arguments)

    assert 0 == result.exit_code, result.stderr
    assert reported == json.loads(result.stdout)


def test_the_page_is_utf_8_whatever_the_locale(tmp_path):
    """Found: a traceback where the locale's encoding lacks a letter of a name; the page says that it is UTF-8."""
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump(hpa("größe"), allow_unicode=True), "utf-8")
    arguments = ["report", "objects.yaml", "--history", ".", "--html", "page.html"]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}

    done = subprocess.run([sys.executable, "-m", "cronhpa.cli", *arguments], cwd=tmp_path, env=environment, check=False)

    assert 1 == done.returncode
    assert "größe" in (tmp_path / "page.html").read_text("utf-8")
