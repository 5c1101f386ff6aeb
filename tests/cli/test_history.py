"""The command that imports, lists and exports load history."""

from __future__ import annotations

import gzip

import pytest
from typer.testing import CliRunner

from cronhpa.cli.history import app
from cronhpa.core.instant import HOUR, parse_instant
from cronhpa.history.series import Series
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
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


def test_the_command_imports_lists_and_exports(tmp_path, written):
    path, store = written(GOOD, "2026-03-01T12:05:00Z,", "2026-03-01T12:10:00Z,2"), tmp_path / "h.db"

    imported = cronhpa_history("import", "--store", store, "shop/web", "--metric", "cpu", path)
    listed = cronhpa_history("list", "--store", store)
    exported = cronhpa_history("export", "--store", store, "shop/web")

    assert (0, 0, 0) == (imported.exit_code, listed.exit_code, exported.exit_code)
    assert "shop/web cpu: 2 values and 1 gaps read, 2 five-minute maxima kept" in imported.output
    row = [cell.strip() for line in listed.output.splitlines() if "shop/web" in line for cell in line.split("│")]
    assert ["shop/web", "cpu", "2026-03-01 12:00", "2026-03-01 12:15", "2", "66 %"] == row[1:-1]
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
        (("import", "--store", "{tmp}/none/h.db", "shop/web", "{tmp}/none.csv"), 1, "writable folder is needed"),
        (("import", "--store", "{tmp}/h.db", "web", "{tmp}/none.csv"), 2, "NAMESPACE/NAME is accepted"),
        (("import", "shop/web", "{tmp}/none.csv"), 2, "--store"),
        (("export", "--store", "{tmp}/none.db", "shop/web"), 1, "there is no such file"),
        (("list", "--store", "{tmp}/none.db"), 1, "there is no such file"),
    ],
)
def test_the_command_says_what_is_wrong_in_its_exit_code_and_on_stderr(tmp_path, arguments, code, said):
    outcome = cronhpa_history(*(argument.format(tmp=tmp_path) for argument in arguments))

    assert code == outcome.exit_code
    assert said in outcome.stderr
    assert "Traceback" not in outcome.output


def test_exporting_what_is_not_known_ends_with_a_hint(tmp_path, written):
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
