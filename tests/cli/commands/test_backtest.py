"""
cronhpa.cli.commands.backtest, cronhpa.forecasting.backtest, cronhpa.cli.tables.backtest_table, cronhpa.cli.past.past

`cronhpa backtest`: its table, its JSON, its picture, and its errors.
"""

from __future__ import annotations

import json
import struct
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from cronhpa.cli import app
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, format_instant, parse_instant
from cronhpa.history.database.series import Series
from cronhpa.history.imports.files import import_csv
from cronhpa.history.imports.prometheus import Prometheus
from cronhpa.history.store import Store

MONDAY = parse_instant("2026-03-09T00:00:00Z")
CPU = """
apiVersion: cronhpa.io/v1alpha1
kind: CronHPA
metadata: {name: shop, namespace: prod}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  minReplicas: 2
  maxReplicas: 120
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
"""
SCHEDULES = """\
  schedules:
  - {name: rush, start: "50 9 * * *", end: "0 11 * * *", minReplicas: 30, leadTimeSeconds: 0}
"""
FORECAST = "  forecast: {}\n"
# 6 cores, from 10:00 to 11:00 each day 12; a pod of 1 core is scaled for 0.6 of it: 10 pods, then 20.
REQUEST = ("--pod-request", "cpu=1", "--pod-startup", "2m")


def csv(days=1, first=MONDAY, minutes=1):
    lines = ["timestamp,value"]
    for minute in range(0, days * 24 * 60 + 1, minutes):
        at = first + minute * MINUTE
        lines.append(f"{format_instant(at)},{12 if at // HOUR % 24 == 10 else 6}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def backtest(tmp_path, monkeypatch):
    """Runs the command on the texts of an object and a history, in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def run(text, *options, history=None):
        (tmp_path / "shop.yaml").write_text(text)
        if history is not None or not (tmp_path / "load.csv").exists():
            (tmp_path / "load.csv").write_text(csv() if history is None else history)
        command = ["backtest", "shop.yaml", *(() if "--history" in options else ("--history", "load.csv"))]
        return CliRunner().invoke(app, [*command, *options])

    return run


def scores(result):
    assert 0 == result.exit_code, result.stderr
    return json.loads(result.stdout)


def hours(begin, end):
    return ("--from", f"2026-03-09T{begin}:00Z", "--to", f"2026-03-09T{end}:00Z")


def test_costs_are_pod_hours_times_the_price_of_a_pod(backtest):
    """A pod that requests a core costs what a core does."""
    span = hours("09:30", "10:00")
    priced = scores(backtest(CPU, *REQUEST, *span, "--core-price", "0.5", "-o", "json"))["variants"]["reactive"]

    assert pytest.approx(priced["podHours"] / 2, abs=0.01) == priced["cost"]
    assert f" {priced['cost']:,.2f} " in backtest(CPU, *REQUEST, *span, "--core-price", "0.5").stdout
    assert "cost" not in backtest(CPU, *REQUEST, *span).stdout
    # Found: in 80 columns the figures with cost were cut, such as "24.…".
    assert "…" not in backtest(CPU + SCHEDULES, *REQUEST, *span, "--core-price", "0.5").stdout
    unpriced = backtest(CPU, *REQUEST, *span, "--gib-price", "0.5")
    assert "its price is not known: no request for memory is known: state a pod's price" in unpriced.stderr


def test_a_pod_of_which_one_container_is_measured_has_no_price_by_its_requests(backtest):
    measured = CPU.replace(
        "type: Resource, resource: {", "type: ContainerResource, containerResource: {container: main, "
    )

    result = backtest(measured, *REQUEST, *hours("09:30", "10:00"), "--core-price", "0.5")

    assert (0, False) == (result.exit_code, "cost" in result.stdout)
    assert "its price is not known: no request for cpu is known: state a pod's price" in result.stderr


def test_a_window_that_opens_before_the_rise_takes_its_minutes_away(backtest):
    """
    The rise is a line from 6 at 09:59 to 12 at 10:00. Reactive: the 10 pods of 1 core are passed at 2/3 of it, and 12
    are carried once the pods asked for at 10:00:30 and later are ready. Scheduled: 30 pods from 09:52 on.
    """
    by_variant = scores(backtest(CPU + SCHEDULES, *REQUEST, *hours("09:30", "11:30"), "-o", "json"))

    reactive, scheduled = by_variant["variants"]["reactive"], by_variant["variants"]["scheduled"]
    assert 2 < reactive["underProvisionedMinutes"] < 4
    assert "2026-03-09T09:59:40Z" == reactive["underProvisioned"][0]["from"]
    assert 0 == scheduled["underProvisionedMinutes"] == scheduled["unservedPercent"]
    assert reactive["podHours"] < scheduled["podHours"]
    assert {"Schedule/rush"} <= set(scheduled["actionsDecidedBy"])
    assert ["reactive", "scheduled"] == list(by_variant["variants"])
    assert {"podCapacity": 1.0, "startUpSeconds": 120.0}.items() <= by_variant["conditions"].items()


def test_the_table_compares_with_metrics_alone(backtest):
    result = backtest(CPU + SCHEDULES, *REQUEST, *hours("09:30", "11:30"))

    assert 0 == result.exit_code
    assert "prod/shop: Mon 2026-03-09 09:30 +00:00 to Mon 2026-03-09 11:30 +00:00, 2 h" == result.stdout.splitlines()[0]
    assert all(word in result.stdout for word in ("reactive", "scheduled", "-100 %", "Schedule/rush", "pod-hours"))
    assert "A pod carries 1, requests 1 cpu, is ready after 2 min; metrics are means of 1 min" in " ".join(
        result.stdout.split()
    )
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_the_example_of_a_request_has_the_unit_of_its_resource(backtest):
    """Found: "--pod-request memory=500m" was advised, which is half a byte."""
    result = backtest(CPU.replace("cpu, target", "memory, target"))

    assert 1 == result.exit_code
    assert result.stderr.rstrip().endswith("--pod-request memory=1Gi")


def test_a_history_that_is_too_short_for_a_forecast_says_so(backtest):
    """Found: "Wed 2026-03-11 00:00 to Tue 2026-03-10 00:00 cannot be run", of which nobody had asked for either."""
    result = backtest(CPU + FORECAST, *REQUEST)

    assert 1 == result.exit_code
    assert (
        "the history of Mon 2026-03-09 00:00 +00:00 to Tue 2026-03-10 00:00 +00:00 is too short: a forecast learns "
        "from the first 48 h" in result.stderr
    )


def test_memory_is_told_with_the_unit_that_people_write(backtest):
    """Found: "A pod carries 1.074e+09". 2 GiB are recorded all along."""
    memory = CPU.replace(
        "cpu, target: {type: Utilization, averageUtilization: 60}",
        "memory, target: {type: AverageValue, averageValue: 1Gi}",
    )
    history = csv().replace(",6", f",{2 << 30}").replace(",12", f",{2 << 30}")

    told = " ".join(
        backtest(memory, "--pod-request", "memory=1536Mi", *hours("09:30", "10:30"), history=history).stdout.split()
    )

    assert "A pod carries 1Gi, requests 1.5Gi memory" in told


def test_a_large_load_of_no_unit_is_told_in_digits(backtest):
    told = " ".join(backtest(CPU, *REQUEST, *hours("09:30", "10:30"), "--pod-capacity", "12500").stdout.split())

    assert "A pod carries 12,500, requests 1 cpu" in told


def test_a_forecast_is_made_from_the_days_before_and_raises_ahead_of_the_rise(backtest):
    """
    Five days that rise at 10:00; on the sixth the selected forecast, made every minute, asks for pods ahead of it.
    """
    options = (*REQUEST, "--from", "2026-03-14T09:30:00Z", "--to", "90m", "-o", "json")

    by_variant = scores(backtest(CPU + FORECAST, *options, history=csv(days=6)))

    reactive, forecast = (by_variant["variants"][name] for name in ("reactive", "forecast"))
    assert 2 < reactive["underProvisionedMinutes"] < 4
    assert forecast["underProvisionedMinutes"] < reactive["underProvisionedMinutes"] / 2
    assert forecast["actionsDecidedBy"]["Forecast/cpu"] > 0
    assert by_variant["forecasts"].startswith("90 by ")


def test_the_last_seven_days_are_run_and_never_the_two_that_a_forecast_begins_with(backtest):
    by_variant = scores(backtest(CPU + FORECAST, *REQUEST, "--to", "30m", "-o", "json", history=csv(days=3)))

    assert ("2026-03-11T00:00:00Z", "2026-03-11T00:30:00Z") == (by_variant["from"], by_variant["to"])


def test_the_operators_own_store_is_a_history_by_the_minute_where_it_keeps_minutes(backtest, tmp_path):
    """A point of 12 in minute 10:00 stands at 10:00:30: the rise is a line from 09:59:30, at 10 two thirds up it."""
    (tmp_path / "load.csv").write_text(csv())
    store = Store(tmp_path / "history.db")
    import_csv(store.loads.backfill, Series("prod", "shop", "cpu"), tmp_path / "load.csv", now=MONDAY + DAY)
    store.close()

    by_variant = scores(backtest(CPU, *REQUEST, *hours("09:30", "11:30"), "--history", "history.db", "-o", "json"))

    assert "2026-03-09T10:00:10Z" == by_variant["variants"]["reactive"]["underProvisioned"][0]["from"]


def test_five_minute_maxima_in_the_store_are_a_history(backtest, tmp_path):
    """They stand at their middle: the rise is a line from 09:57:30 to 10:02:30, at 10 after two thirds of it."""
    store = Store(tmp_path / "history.db")
    (tmp_path / "load.csv").write_text(csv(minutes=5))
    import_csv(store.loads.backfill, Series("prod", "shop", "cpu"), tmp_path / "load.csv", now=MONDAY + DAY)
    store.close()

    by_variant = scores(backtest(CPU, *REQUEST, *hours("09:30", "11:30"), "--history", "history.db", "-o", "json"))

    assert "2026-03-09T10:00:50Z" == by_variant["variants"]["reactive"]["underProvisioned"][0]["from"]


def test_a_store_that_knows_nothing_of_the_object_says_so(backtest, tmp_path):
    Store(tmp_path / "history.db").close()

    result = backtest(CPU, *REQUEST, "--history", "history.db")

    assert 1 == result.exit_code
    assert "nothing is known of prod/shop cpu" in result.stderr


def test_facts_that_the_status_remembers_need_no_options(backtest):
    """As `kubectl get -o yaml` prints it: the status remembers what a pod requests and how long it takes to start."""
    status = "status:\n  memory: {version: 1, recommendations: [], scaleUpEvents: [], scaleDownEvents: [],"
    learnt = status + ' startUpSeconds: 75, requestPerPod: {cpu: "500m"}}\n'

    by_variant = scores(backtest(CPU + learnt, *hours("09:30", "10:30"), "-o", "json"))

    assert {"podCapacity": 0.5, "startUpSeconds": 75.0}.items() <= by_variant["conditions"].items()


def test_a_pure_schedule_is_run_once_it_is_said_what_a_pod_carries(backtest):
    pure = CPU.partition("  metrics:")[0] + SCHEDULES

    refused = backtest(pure, *hours("09:30", "11:30"))
    by_variant = scores(backtest(pure, "--pod-capacity", "500m", *hours("09:30", "11:30"), "-o", "json"))

    assert (1, True) == (refused.exit_code, "--pod-capacity" in refused.stderr)
    # 2 pods carry 1 core of 6 until the window has raised them to 30, ready a minute after 09:51:00.
    assert ["scheduled"] == list(by_variant["variants"])
    assert 60 > by_variant["variants"]["scheduled"]["underProvisionedMinutes"] > 20


def test_the_pods_of_a_time_without_a_known_load_count_and_that_is_told(backtest):
    """
    Of 13:00 to 15:00 the load is not known between the values of 13:59 and 15:00: 10 pods for two hours. Found: it said
    that nothing is said about that time.
    """
    known = [line for line in csv().splitlines(keepends=True) if not "T14:" <= line[10:14] < "T15:"]

    result = backtest(CPU, *REQUEST, *hours("13:00", "15:00"), history="".join(known))

    assert ["reactive", "0.0", "min", "0.000", "%", "20.0"] == result.stdout.splitlines()[2].split()[:6]
    assert "The load of 1 h 1 min is not known: its pods count, its shortages do not." in result.stdout


def test_metrics_without_history_are_left_out_and_named(backtest):
    memory = "  - {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}\n"

    result = backtest(CPU + memory, *REQUEST, *hours("09:30", "10:30"), "-o", "json")

    assert {"Metric/cpu"} == set(scores(result)["variants"]["reactive"]["reconciliationsDecidedBy"])
    assert "memory is left out: the history is of cpu" in result.stderr


def test_an_override_was_for_an_incident_and_is_left_out(backtest):
    override = '  override: {minReplicas: 50, until: "2030-01-01T00:00:00Z", reason: INC-4711}\n'

    result = backtest(CPU + override, *REQUEST, *hours("08:00", "09:00"), "-o", "json")

    assert 10 == scores(result)["variants"]["reactive"]["mostReplicas"]
    assert "override: it is left out" in result.stderr


def test_a_calendar_that_nobody_knows_here_is_left_out_and_blocks_no_scale_down(backtest):
    """Found: as in an operator without it the schedule could not be read, and nothing was scaled down all week."""
    named = SCHEDULES.replace("leadTimeSeconds: 0}", "leadTimeSeconds: 0, exclude: {calendars: [company]}}")
    options = (*REQUEST, *hours("09:30", "12:30"), "-o", "json")
    plain, unknown = (backtest(CPU + schedules, *options) for schedules in (SCHEDULES, named))

    assert scores(plain)["variants"]["scheduled"] == scores(unknown)["variants"]["scheduled"]
    assert "calendars: left out, as the operator alone knows them" in unknown.stderr
    assert "calendars" not in plain.stderr


def test_hours_that_nobody_recorded_are_told_and_left_out(backtest):
    lines = csv().splitlines()
    kept = [line for line in lines if "T05:" not in line]

    result = backtest(CPU, *REQUEST, *hours("04:00", "07:00"), history="\n".join(kept))

    assert "The load of 1 h 1 min is not known" in result.stdout


def test_a_parquet_file_is_a_history(backtest, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    (tmp_path / "load.csv").write_text(csv())
    pandas.read_csv(tmp_path / "load.csv", parse_dates=["timestamp"]).to_parquet(tmp_path / "load.parquet")

    options = (*REQUEST, *hours("09:30", "10:30"), "-o", "json")

    assert scores(backtest(CPU, *options, "--history", "load.parquet")) == scores(backtest(CPU, *options))


def test_a_prometheus_is_asked_for_28_days(backtest, monkeypatch):
    """tests/history/imports/test_prometheus.py tests the requests and the answers."""
    asked = []

    async def load(_source, query, begin, end):
        asked.append((query, end - begin))
        yield [(MONDAY + minute * MINUTE, 6.0) for minute in range(60)]
        yield [(MONDAY + minute * MINUTE, 6.0) for minute in range(60, 121)]

    monkeypatch.setattr(Prometheus, "load", load)

    by_variant = scores(backtest(CPU, *REQUEST, "--history", "http://prometheus:9090", "-o", "json"))

    assert ("2026-03-09T00:00:00Z", "2026-03-09T02:00:00Z") == (by_variant["from"], by_variant["to"])
    ((query, length),) = asked
    assert 28 * DAY == length
    assert 'namespace="prod", pod=~"shop-[a-z0-9]+-[a-z0-9]{5}"' in query


def test_a_prometheus_without_the_load_is_named_without_its_password(backtest, monkeypatch):
    """Found: the password of the URL was printed."""

    async def load(*_):
        for part in ():
            yield part

    monkeypatch.setattr(Prometheus, "load", load)

    result = backtest(CPU, *REQUEST, "--history", "http://me:secret@prometheus:9090")

    assert 1 == result.exit_code
    assert "http://prometheus:9090 knows nothing of prod/shop cpu" in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_is_drawn(backtest, tmp_path, suffix):
    result = backtest(CPU + SCHEDULES, *REQUEST, *hours("09:30", "11:30"), "--picture", f"rush.{suffix}")

    assert 0 == result.exit_code
    content = (tmp_path / f"rush.{suffix}").read_bytes()
    if suffix == "png":
        width, height = struct.unpack(">II", content[16:24])
        assert width > 1000 < height * 3
    else:
        texts = " ".join(
            "".join(node.itertext()) for node in ET.fromstring(content).iter() if node.tag.endswith("text")
        )
        for words in ("too few pods, reactive", "scheduled 0 min", "open: rush", "pods that the load needs"):
            assert words in texts


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ((), 1, "--pod-request cpu=500m"),
        (("--pod-request", "500m"), 2, "cpu=500m"),
        (("--pod-request", "cpu=none"), 2, "cpu=500m"),
        ((*REQUEST, "--pod-capacity", "0"), 2, "above zero"),
        ((*REQUEST, "--metric-delay", "soon"), 2, "30"),
        ((*REQUEST, "--metric-window", "9s"), 2, "a pod has a sample of 10 s at least"),
        ((*REQUEST, "--from", "2031-01-01"), 1, "the history is of Mon 2026-03-09 00:00"),
        ((*REQUEST, "--from", "now"), 1, "Tue 2026-03-10 00:00 +00:00 to Tue 2026-03-10 00:00 +00:00 cannot be run"),
        ((*REQUEST, "--zone", "Berlin"), 2, "IANA"),
        ((*REQUEST, "--history", "none.csv"), 1, "none.csv: No such file"),
        ((*REQUEST, "--history", "shop.yaml"), 1, "shop.yaml, line 1"),
        ((*REQUEST, "--name", "other"), 1, "0 objects named other: say which with --name: shop"),
        ((*REQUEST, "--picture", "rush.jpg"), 2, ".svg or .png"),
    ],
    ids=[
        "request",
        "unnamed",
        "text",
        "capacity",
        "length",
        "window",
        "span",
        "now",
        "zone",
        "missing",
        "no-csv",
        "name",
        "picture",
    ],
)
def test_a_backtest_that_cannot_run_says_what_it_needs(backtest, options, code, says):
    result = backtest(CPU, *options)

    assert code == result.exit_code
    assert says in " ".join(result.stderr.replace("│", " ").split())


def test_a_wrong_spec_is_named_with_its_field(backtest):
    result = backtest(CPU.replace("minReplicas: 2", "minReplica: 2"), *REQUEST)

    assert 1 == result.exit_code
    assert "shop.yaml:7: prod/shop: spec.minReplica: there is no such field: did you mean minReplicas?" in result.stderr
