"""The command that imports, lists and exports load history."""

from __future__ import annotations

import gzip
from contextlib import closing

import pytest
from typer.testing import CliRunner

from cronhpa.cli.commands.history import app
from cronhpa.core.model.instant import HOUR, parse_instant
from cronhpa.history.database.series import Series
from cronhpa.history.past.event_reports import PastReport
from cronhpa.history.store import Store

NOON = parse_instant("2026-03-01T12:00:00Z")
WEB = Series("shop", "web", "cpu")
HEADER = "timestamp,value"
GOOD = "2026-03-01T12:00:00Z,1"


@pytest.fixture
def written(tmp_path):
    def write(*lines):
        path = tmp_path / "load.csv"
        path.write_text("\n".join([HEADER, *lines]) + "\n")
        return path

    return write


def cronhpa_history(*arguments):
    """Without a cluster: an import has to say that nobody need be asked."""
    arguments = (*arguments, "--before-object") if arguments[0] == "import" else arguments
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


def test_the_command_imports_lists_and_exports(tmp_path, written):
    path, store = written(GOOD, "2026-03-01T12:05:00Z,", "2026-03-01T12:10:00Z,2"), tmp_path / "h.db"

    imported = cronhpa_history("import", "--store", store, "shop/web", "--metric", "cpu", path)
    listed = cronhpa_history("list", "--store", store)
    exported = cronhpa_history("export", "--store", store, "shop/web")

    assert (0, 0, 0) == (imported.exit_code, listed.exit_code, exported.exit_code)
    assert "shop/web cpu: 2 values and 1 gaps read, 2 five-minute maxima kept" in imported.output
    assert [
        "OBJECT    METRIC  FROM (UTC)        TO (UTC)          STEPS  KNOWN",
        "shop/web  cpu     2026-03-01 12:00  2026-03-01 12:15  2      66 %",
    ] == listed.output.splitlines()
    assert (
        "timestamp,value\n2026-03-01T12:00:00Z,1.0\n2026-03-01T12:05:00Z,\n2026-03-01T12:10:00Z,2.0\n"
        == exported.output
    )


def test_the_command_writes_gzip_where_the_name_says_so(tmp_path, written):
    store, out = tmp_path / "h.db", tmp_path / "out.csv.gz"
    cronhpa_history("import", "--store", store, "shop/web", written(GOOD))

    assert 0 == cronhpa_history("export", "--store", store, "shop/web", out).exit_code
    assert b"timestamp,value\n2026-03-01T12:00:00Z,1.0\n" == gzip.decompress(out.read_bytes())


def test_the_command_shifts_by_seconds(tmp_path, written):
    store = tmp_path / "h.db"
    path = written(GOOD)

    assert 0 == cronhpa_history("import", "--store", store, "shop/web", path, "--shift-seconds", 3600).exit_code
    opened = Store(store)
    assert [(NOON + HOUR, 1.0)] == opened.loads.steps(WEB, 0, 2**63)
    opened.close()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("import", "--store", "{tmp}/h.db", "shop/web", "{tmp}/none.csv"), 1, "No such file"),
        (("import", "--store", "{tmp}/none/h.db", "shop/web", "{tmp}/load.csv"), 1, "writable folder is needed"),
        (("import", "--store", "{tmp}/h.db", "web", "{tmp}/none.csv"), 2, "NAMESPACE/NAME is accepted"),
        (("import", "shop/web", "{tmp}/none.csv"), 2, "--store"),
        (("export", "--store", "{tmp}/none.db", "shop/web"), 1, "there is no such file"),
        (("list", "--store", "{tmp}/none.db"), 1, "there is no such file"),
    ],
)
def test_the_command_says_what_is_wrong_in_its_exit_code_and_on_stderr(tmp_path, written, arguments, code, said):
    written(GOOD)

    outcome = cronhpa_history(*(argument.format(tmp=tmp_path) for argument in arguments))

    assert code == outcome.exit_code
    assert said in outcome.stderr
    assert "Traceback" not in outcome.output


@pytest.mark.parametrize("lines", [None, ["soon,1"], ["2026-03-01T12:00:00Z,"]])
def test_a_file_that_cannot_be_used_makes_no_store(tmp_path, written, lines):
    """Found: `history import` of a missing file left an empty store behind."""
    path = tmp_path / "none.csv" if lines is None else written(*lines)

    assert 1 == cronhpa_history("import", "--store", tmp_path / "h.db", "shop/web", path).exit_code
    assert not (tmp_path / "h.db").exists()


@pytest.mark.parametrize("other", ["h.db", "./h.db", "link.db"])
def test_a_store_is_not_copied_to_itself(tmp_path, written, monkeypatch, other):
    """Found: it ended with 0, and had done nothing."""
    monkeypatch.chdir(tmp_path)
    cronhpa_history("import", "--store", "h.db", "shop/web", written(GOOD))
    (tmp_path / "link.db").symlink_to("h.db")

    ended = cronhpa_history("copy", "h.db", other)

    assert (2, "") == (ended.exit_code, ended.stdout)
    assert "h.db is FROM as well: another store is needed" in ended.stderr


@pytest.mark.parametrize(
    ("token", "said"),
    [("t-anna\nt-bob", "holds more than one line: one is accepted"), (None, "No such file")],
)
def test_a_token_file_that_holds_no_token_is_named_and_its_text_is_not(tmp_path, token, said):
    if token is not None:
        (tmp_path / "token").write_text(token)

    ended = cronhpa_history(
        "import",
        "--store",
        tmp_path / "h.db",
        "shop/web",
        "--prometheus",
        "http://127.0.0.1:9",
        "--token-file",
        tmp_path / "token",
    )

    assert 1 == ended.exit_code
    assert "the bearer token for Prometheus: " in ended.stderr
    assert f"{tmp_path}/token" in ended.stderr
    assert said in " ".join(ended.stderr.split())
    assert "anna" not in ended.stderr
    assert not (tmp_path / "h.db").exists()


def test_exporting_an_unknown_series_ends_with_a_hint(tmp_path, written):
    store = tmp_path / "h.db"
    cronhpa_history("import", "--store", store, "shop/web", written(GOOD))

    outcome = cronhpa_history("export", "--store", store, "shop/api")

    assert 1 == outcome.exit_code
    assert "nothing is known of shop/api cpu: `cronhpa history list` shows what there is" in outcome.stderr


def test_the_command_reads_and_writes_parquet_where_the_name_says_so(tmp_path, written):
    store, out = tmp_path / "h.db", tmp_path / "out.parquet"
    cronhpa_history("import", "--store", store, "shop/web", written(GOOD))

    exported = cronhpa_history("export", "--store", store, "shop/web", out)
    imported = cronhpa_history("import", "--store", store, "shop/api", out)

    assert (0, 0) == (exported.exit_code, imported.exit_code)
    assert "shop/api cpu: 1 values and 0 gaps read" in imported.output


# --- of which object ---------------------------------------------------------------------------------------------


def checkout():
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
    spec = {"scaleTargetRef": target, "maxReplicas": 9, "metrics": [cpu]}
    return {"kind": "CronHPA", "metadata": {"name": "web", "namespace": "prod"}, "spec": spec}


@pytest.mark.parametrize("named", [("prod/web",), ("web",), ("web", "-n", "prod")])
def test_an_object_of_the_cluster_is_named_as_kubectl_names_it(served, cronhpa, written, tmp_path, named):
    """The context's namespace is prod."""
    served.hold(checkout())

    done = cronhpa("history", "import", *named, written(GOOD), "--store", tmp_path / "h.db")

    assert 0 == done.exit_code, done.output
    assert done.stdout.startswith("prod/web cpu: 1 values and 0 gaps read")


def test_the_history_of_an_object_that_is_not_there_is_refused(served, cronhpa, written, tmp_path):
    served.refuse("/apis/cronhpa.io/v1alpha1/namespaces/prod/cronhpas/wbe", 404, "NotFound", 'cronhpas "wbe" not found')

    done = cronhpa("history", "import", "wbe", written(GOOD), "--store", tmp_path / "h.db")

    assert 1 == done.exit_code
    assert done.stderr.startswith("cronhpa history import: there is no CronHPA wbe in namespace prod")
    assert done.stderr.endswith("--before-object imports all the same\n")
    assert not (tmp_path / "h.db").exists()


def test_the_history_of_a_metric_that_the_object_has_not_is_refused(served, cronhpa, written, tmp_path):
    served.hold(checkout())

    done = cronhpa("history", "import", "web", written(GOOD), "--metric", "requests", "--store", tmp_path / "h.db")

    assert 1 == done.exit_code
    assert "prod/web has no metric requests: it has cpu: name one with --metric" in done.stderr
    assert not (tmp_path / "h.db").exists()


def test_without_a_cluster_to_ask_nothing_is_imported(cronhpa, written, tmp_path):
    done = cronhpa("history", "import", "web", written(GOOD), "--store", tmp_path / "h.db", "--context", "none")

    assert 1 == done.exit_code
    assert 'context "none" does not exist' in done.stderr
    assert not (tmp_path / "h.db").exists()


def test_values_from_the_day_after_tomorrow_are_refused_and_nothing_of_them_is_kept(written, tmp_path):
    done = cronhpa_history("import", "--store", tmp_path / "h.db", "shop/web", written(GOOD, "2261-03-01T12:00:00Z,1"))

    assert 1 == done.exit_code
    assert "line 3: 2261-03-01T12:00:00Z is yet to come: times to " in done.stderr
    listed = cronhpa_history("list", "--store", tmp_path / "h.db")
    assert "shop/web" not in listed.output


def test_a_name_in_two_namespaces_is_not_guessed(cronhpa, written, tmp_path):
    done = cronhpa("history", "import", "prod/web", "-n", "dev", written(GOOD), "--store", tmp_path / "h.db")

    assert 2 == done.exit_code
    assert "is not in namespace dev" in " ".join(done.stderr.replace("│", " ").split())


def test_what_came_of_events_is_a_table_the_newest_first(tmp_path):
    with closing(Store(tmp_path / "h.db")) as store:
        numbers = {"peakPods": 444, "minutesAtMax": 0, "minutesShort": 11, "unneededPodMinutes": 251}
        sale = {"reason": "Black Friday", "objects": 30, **numbers}
        store.reports.record(
            [
                PastReport("prod", "sale", parse_instant("2025-11-28T05:00:00Z"), sale),
                PastReport("", "match", parse_instant("2026-06-11T19:00:00Z"), {"reason": "\x1b[2Jhidden"}),
            ]
        )

    told = cronhpa_history("events", "--store", tmp_path / "h.db")

    assert 0 == told.exit_code
    first, match, year_ago = (line.split() for line in told.output.splitlines())
    assert first[-1] == "REASON"
    assert ["match", "2026-06-11", "19:00"] == match[:3]
    assert "\x1b" not in told.output
    assert ["prod/sale", "2025-11-28", "05:00", "30", "444", "0", "11", "251", "Black", "Friday"] == year_ago
