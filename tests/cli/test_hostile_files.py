"""Files made to exhaust memory or time: a command ends with one line of words, without much memory or a traceback."""

from __future__ import annotations

import gzip
from functools import partial

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cronhpa.cli.objects import yaml_documents
from cronhpa.history.imports import files as history

MIB = 2**20
HPA = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{name: {name}, namespace: prod, labels: {labels}}}
spec: {{maxReplicas: 3, scaleTargetRef: {{kind: Deployment, name: shop, apiVersion: apps/v1}}}}
"""


@pytest.fixture
def cronhpa(forked):
    """Runs a command with so much address space."""
    return partial(forked.run, memory=768 * MIB)


def refused(done, code, *said):
    """Asserts the exit code and one line on stderr with these words, and no output of Python or a library."""
    told = done.stderr.decode()
    assert (code, b"") == (done.returncode, done.stdout), told[-2000:]
    assert "Traceback" not in told
    assert 1 == len(told.strip().splitlines()), told[-2000:]
    assert [] == [text for text in said if text not in told], told[-2000:]


def laughs(first, depth):
    """YAML in which each line puts the one before ten times: 10^depth values in a kilobyte."""
    lines = [f"l0: &l0 {first}"]
    lines += [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]" for level in range(1, depth + 1)]
    return "{" + ", ".join(lines) + "}"


def merges(depth):
    """The same by merge keys, of which each is a mapping that is merged ten times."""
    lines = ["l0: &l0 {a: 1}"]
    lines += [f"l{level}: &l{level} {{<<: [{', '.join([f'*l{level - 1}'] * 10)}]}}" for level in range(1, depth + 1)]
    return "{" + ", ".join(lines) + "}"


def lists(depth):
    """Lists whose items are Lists, each of which puts the one before ten times."""
    first = "{kind: List, items: [{kind: CronHPA, metadata: {name: a}, spec: {}}]}"
    lines = [f"l0: &l0 {first}"]
    lines += [
        f"l{level}: &l{level} {{kind: List, items: [{', '.join([f'*l{level - 1}'] * 10)}]}}"
        for level in range(1, depth + 1)
    ]
    return "kind: List\n" + "\n".join(lines) + f"\nitems: [*l{depth}]\n"


ALIASES = {
    "aliases of aliases": HPA.format(name="shop", labels=laughs("[x]", 9)),
    "merges of merges": HPA.format(name="shop", labels=merges(9)),
    "Lists of Lists": lists(9),
}


# What each command ends with where a file cannot be read.
CODES = {"convert": 2, "preview": 1}


@pytest.mark.parametrize("command", CODES)
@pytest.mark.parametrize("text", ALIASES.values(), ids=ALIASES)
def test_a_kilobyte_that_stands_for_a_billion_values_is_refused(cronhpa, tmp_path, command, text):
    (tmp_path / "laughs.yaml").write_text(text)

    said = "more than 500,000 values, aliases counted where they are put"
    refused(cronhpa(command, tmp_path / "laughs.yaml"), CODES[command], said)


def test_values_written_out_count_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(yaml_documents, "NODES_MAX", 1000)
    (tmp_path / "many.yaml").write_text("[" + "1," * 1000 + "]")

    with pytest.raises(yaml_documents.UnreadableFileError, match="more than 1,000 values"):
        list(yaml_documents.read_documents(tmp_path / "many.yaml"))


def test_an_alias_that_is_put_a_few_times_is_read(cronhpa, tmp_path):
    (tmp_path / "hpa.yaml").write_text(HPA.format(name="shop", labels="{a: &a shop, b: *a, c: *a}"))

    assert 0 == cronhpa("convert", tmp_path / "hpa.yaml").returncode


@pytest.mark.parametrize("command", CODES)
def test_a_file_of_more_bytes_than_anybody_writes_is_refused(cronhpa, tmp_path, command):
    """Sparse, and a gigabyte: it is not read further than to its limit."""
    with (tmp_path / "big.yaml").open("wb") as file:
        file.truncate(1024 * MIB)

    refused(
        cronhpa(command, tmp_path / "big.yaml"),
        CODES[command],
        "it has more than 16 MiB: give its objects in several files",
    )


def test_a_pipe_that_does_not_end_is_refused(cronhpa):
    refused(
        cronhpa("convert", "-", given=b"a" * (yaml_documents.BYTES_MAX + 1)),
        2,
        "standard input: it has more than 16 MiB",
    )


def test_a_number_in_base_60_of_a_million_digits_is_refused(cronhpa, tmp_path):
    """PyYAML multiplies it out, digit by digit."""
    (tmp_path / "sixty.yaml").write_text(f"a: 1{':59' * 1_000_000}")

    refused(cronhpa("convert", tmp_path / "sixty.yaml"), 2, "a number of 3,000,001 characters, at most 64 are read")


NAMES = {
    "a NUL": ('"a\\0b"', "'a\\x00b' is no name"),
    "a line break": ('"a\\nb"', "'a\\nb' is no name"),
    "a slash": ("../../etc/cron.d/a", "'../../etc/cron.d/a' is no name"),
    "dots": ("..", "'..' is no name"),
    "three hundred letters": ("a" * 300, "aaa' is no name"),
    "capitals": ("Shop", "'Shop' is no name"),
}


@pytest.mark.parametrize(("name", "said"), NAMES.values(), ids=NAMES)
def test_a_name_that_no_object_has_makes_no_file(cronhpa, tmp_path, name, said):
    good, bad = (HPA.format(name=one, labels="{}") for one in ("good", name))
    (tmp_path / "hpa.yaml").write_text(f"{good.replace('name: shop,', 'name: other,')}---{bad}")

    done = cronhpa("convert", tmp_path / "hpa.yaml", "-o", tmp_path / "out")

    told = done.stderr.decode()
    assert (2, [tmp_path / "out" / "prod.good.yaml"]) == (done.returncode, list((tmp_path / "out").iterdir()))
    assert said in told
    assert "no file is made of it" in told
    assert "Traceback" not in told


def test_what_a_file_says_is_told_on_one_line_without_its_control_characters(cronhpa, tmp_path):
    (tmp_path / "hpa.yaml").write_text(HPA.format(name='"a\\e[2Jb\\nforged"', labels="{}").replace("/v2", "/v9"))

    told = cronhpa("convert", tmp_path / "hpa.yaml").stderr.decode()

    assert [] == [char for char in told.replace("\n", "") if not char.isprintable()]
    assert [] == [line for line in told.splitlines() if line.startswith("forged")]


# --- history -----------------------------------------------------------------------------------------------------


@pytest.fixture
def imported(cronhpa, tmp_path):
    """Imports a file, with such limits."""
    return partial(cronhpa, "history", "import", "--before-object", "--store", tmp_path / "h.db", "shop/web")


def test_a_packed_line_of_half_a_gigabyte_is_refused(imported, tmp_path):
    """2 MB as a file; the process may have a quarter of a gigabyte."""
    with gzip.open(tmp_path / "line.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"timestamp,value\n")
        for _ in range(8):
            file.write(b"1" * (64 * MIB))

    refused(imported(tmp_path / "line.csv.gz", memory=256 * MIB), 1, "line 2: more than 65,536 characters")


@pytest.mark.parametrize(("limit", "value"), [("TEXT_MAX", 2 * MIB), ("ROWS_MAX", 40)])
def test_more_text_or_lines_than_any_history_has_are_refused(tmp_path, monkeypatch, limit, value):
    """Lines that are right, each 50 kB of zeros before its number: 42 are 2.1 MB."""
    monkeypatch.setattr(history, limit, value)
    line = b"2026-03-01T12:00:00Z," + b"0" * 50_000 + b"1\n"
    (tmp_path / "lines.csv.gz").write_bytes(gzip.compress(b"timestamp,value\n" + line * 42))

    with pytest.raises(history.CsvError, match=r"lines of 2 MiB so far: [0-9,]+ lines and [0-9,]+ MiB are accepted"):
        history.read_points(tmp_path / "lines.csv.gz")


@pytest.mark.long
def test_ten_million_lines_of_one_minute_are_read_in_little_memory(imported, tmp_path):
    with gzip.open(tmp_path / "lines.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"timestamp,value\n")
        for _ in range(100):
            file.write(b"2026-03-01T12:00:00Z,1\n" * 100_000)

    done = imported(tmp_path / "lines.csv.gz", memory=256 * MIB)

    assert b"10000000 values and 0 gaps read, 1 five-minute maxima kept" in done.stdout, done.stderr[-2000:]


# What pyarrow, pandas and numpy map without a file.
ARROW = 4096 * MIB


def packed(path, rows, times):
    """So many rows of one time and one number; times: how often they are written, as row groups."""
    stamps = pd.DatetimeIndex(["2026-03-01"] * 1).tz_localize("UTC").repeat(rows)
    table = pa.table({"timestamp": stamps, "value": pa.array([1.0]).take(pa.array([0] * rows))})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(times):
            writer.write_table(table, row_group_size=rows)


@pytest.mark.slow
def test_a_small_parquet_file_of_very_many_rows_is_refused(imported, tmp_path):
    packed(tmp_path / "rows.parquet", 1_000_000, 21)
    assert (tmp_path / "rows.parquet").stat().st_size < MIB

    refused(imported(tmp_path / "rows.parquet", memory=ARROW), 1, "21,000,000 rows: 20,000,000 are accepted")


def test_a_parquet_file_of_one_large_row_group_is_read_some_rows_at_a_time(imported, tmp_path):
    packed(tmp_path / "rows.parquet", 300_000, 1)

    done = imported(tmp_path / "rows.parquet", memory=ARROW)

    assert b"300000 values and 0 gaps read" in done.stdout, done.stderr[-2000:]


@pytest.mark.long
def test_columns_of_a_parquet_file_that_are_no_history_are_not_read(imported, tmp_path):
    """A column of 64 texts of 16 MiB, a gigabyte that is packed to nothing."""
    stamps = pd.DatetimeIndex(["2026-03-01"] * 64).tz_localize("UTC")
    big = pa.array(["x" * (16 * MIB)])
    table = pa.table({"timestamp": stamps, "value": [1.0] * 64, "note": pa.chunked_array([big] * 64)})
    pq.write_table(table, tmp_path / "note.parquet", compression="zstd", use_dictionary=False, row_group_size=1)

    done = imported(tmp_path / "note.parquet", memory=ARROW)

    assert b"64 values and 0 gaps read" in done.stdout, done.stderr[-2000:]
