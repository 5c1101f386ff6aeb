"""Load history in CSV and Parquet files, in and out; the command that does it is in tests/cli."""

import gzip
import io

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa.core.model.instant import DAY, MINUTE, format_instant, parse_instant
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.imports import files as module
from cronhpa.history.imports import parquet
from cronhpa.history.imports.files import (
    CsvError,
    HistoryError,
    Imported,
    export_csv,
    import_csv,
    import_file,
    read_points,
)
from cronhpa.history.store import Store

NOON = parse_instant("2026-03-01T12:00:00Z")
# Long after all that is imported.
LATER = parse_instant("2200-01-01T00:00:00Z")
WEB = Series("shop", "web", "cpu")


@pytest.fixture
def loads(tmp_path):
    opened = Store(tmp_path / "history.db")
    yield opened.loads
    opened.close()


@pytest.fixture
def written(tmp_path):
    def write(*lines, name="load.csv"):
        path = tmp_path / name
        content = "\n".join(lines).encode() + b"\n"
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def everything(loads):
    return loads.steps(WEB, 0, 2**63)


@pytest.mark.parametrize("name", ["load.csv", "load.csv.gz"])
def test_minutes_become_five_minute_maxima_and_gaps_stay_gaps(loads, written, name):
    path = written(
        "timestamp,value", "2026-03-01T12:00:00Z,1.5", "2026-03-01T13:01:00+01:00,2.5", "2026-03-01T12:05:00Z,",
        "2026-03-01T12:10:00Z,0", name=name,
    )  # fmt: skip

    outcome = import_csv(loads.backfill, WEB, path, now=LATER)

    assert Imported(rows=3, gaps=1, steps=2, first=NOON, last=NOON + 3 * STEP) == outcome
    assert [(NOON, 2.5), (NOON + 2 * STEP, 0.0)] == everything(loads)


def test_a_file_by_the_minute_is_kept_by_the_minute(loads, written):
    """The spike hazard is fitted to single minutes: a file provides nine days of them at once."""
    path = written("timestamp,value", *[f"2026-03-01T12:0{minute}:00Z,{minute}" for minute in range(10)])

    import_csv(loads.backfill, WEB, path, now=LATER)

    assert pytest.approx([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], abs=0.02) == list(loads.minute_history(WEB, 0, 2**63)[1])


def test_five_minute_maxima_that_come_back_change_no_minute(loads, written, tmp_path):
    """The load jumped at 12:03. A step's maximum has no minute, and at 12:00 it would move the jump."""
    minutes = [(NOON + minute * MINUTE, 10.0 if minute == 3 else 1.0) for minute in range(5)]
    loads.backfill(WEB, minutes)
    by_minute = loads.minutes(WEB, 0, 2**63)
    text = io.StringIO()
    export_csv(loads, WEB, text)

    import_csv(loads.backfill, WEB, written(*text.getvalue().splitlines()), now=LATER)

    assert [1.0, 1.0, 1.0, 10.0, 1.0] == pytest.approx([high for _, high in by_minute], abs=0.02)
    assert by_minute == loads.minutes(WEB, 0, 2**63)


def test_importing_twice_changes_nothing(loads, written):
    path = written("timestamp,value", "2026-03-01T12:00:00Z,1.5", "2026-03-01T12:05:00Z,2.5")

    import_csv(loads.backfill, WEB, path, now=LATER)
    once = everything(loads)
    import_csv(loads.backfill, WEB, path, now=LATER)

    assert once == everything(loads)


def test_a_shift_moves_every_value(loads, written):
    import_csv(loads.backfill, WEB, written("timestamp,value", "2026-03-01T12:00:00Z,1.5"), now=LATER, shift=DAY + STEP)

    assert [(NOON + DAY + STEP, 1.5)] == everything(loads)


def test_loads_more_than_28_days_before_the_newest_are_not_kept(loads, written):
    path = written("timestamp,value", "2026-02-01T11:55:00Z,1", "2026-02-01T12:05:00Z,2", "2026-03-01T12:00:00Z,3")

    assert 2 == import_csv(loads.backfill, WEB, path, now=LATER).steps
    assert [2.0, 3.0] == [high for _, high in everything(loads)]


def test_a_byte_order_mark_and_windows_line_ends_are_read_over(loads, tmp_path):
    path = tmp_path / "load.csv"
    path.write_bytes("\ufefftimestamp,value\r\n2026-03-01T12:00:00Z,1.5\r\n".encode())

    import_csv(loads.backfill, WEB, path, now=LATER)

    assert [(NOON, 1.5)] == everything(loads)


def test_a_gap_may_be_written_as_pandas_and_prometheus_do(loads, written):
    import_csv(
        loads.backfill,
        WEB,
        written("timestamp,value", "2026-03-01T12:00:00Z,1", "2026-03-01T12:05:00Z,NaN", "2026-03-01T12:10:00Z,nan"),
        now=LATER,
    )

    assert [(NOON, 1.0)] == everything(loads)


GOOD = "2026-03-01T12:00:00Z,1"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["time,load", GOOD], "line 1: the header is 'time,load': 'timestamp,value' is accepted"),
        (["timestamp,value", GOOD, "2026-03-01T12:00:00Z,many"], "line 3: value 'many': a number at or above zero"),
        (["timestamp,value", GOOD, "2026-03-01T12:00:00Z,-1"], "line 3: value '-1': a number at or above zero"),
        (["timestamp,value", GOOD, "2026-03-01T12:00:00Z,inf"], "line 3: value 'inf': a number at or above zero"),
        (["timestamp,value", "2026-03-01T12:00:00,1"], "line 2: timestamp '2026-03-01T12:00:00': an RFC 3339 time"),
        (["timestamp,value", "1772366400,1"], "line 2: timestamp '1772366400': an RFC 3339 time with an offset"),
        (["timestamp,value", "2026-03-01T12:00:00Z,1,2"], "line 2: 3 fields: timestamp,value is accepted"),
        (["timestamp,value", "1969-03-01T12:00:00Z,1"], "line 2: 1.0 at 1969-03-01T12:00:00Z"),
        (["timestamp,value", "2026-03-01T12:00:00Z,"], "1 gaps and no value: at least one value is needed"),
        ([], "line 1: there is no header: 'timestamp,value' is accepted"),
        (["timestamp,value"], "0 gaps and no value"),
        (["timestamp,value", '"2026'], "CSV text in UTF-8, plain or gzipped, is accepted"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_nothing_is_imported(loads, written, lines, said):
    path = written(*lines)

    with pytest.raises(HistoryError) as raised:
        import_csv(loads.backfill, WEB, path, now=LATER)

    assert str(path) in str(raised.value)
    assert said in str(raised.value)
    assert [] == everything(loads)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00\x01" * 9,
        gzip.compress(b"timestamp,value\n" * 99)[:30],
        # A block of the third kind; the format knows three, 0 to 2.
        gzip.compress(b"timestamp,value\n" * 99)[:10] + b"\x07" * 30,
        b"",
        b"\0" * 99,
    ],
    # Named, because gzip writes the time into its bytes, and two workers would collect two tests of different names.
    ids=["binary", "cut gzip", "damaged gzip", "empty", "zeros"],
)
def test_a_file_that_is_no_text_is_refused(loads, tmp_path, content):
    path = tmp_path / "load.csv"
    path.write_bytes(content)

    with pytest.raises(CsvError, match="is accepted"):
        import_csv(loads.backfill, WEB, path, now=LATER)


def test_progress_of_a_long_file_rises_to_its_size(loads, written):
    path = written("timestamp,value", *[GOOD] * 25_000)
    seen = []

    import_csv(loads.backfill, WEB, path, now=LATER, progress=lambda done, total: seen.append((done, total)))

    size = path.stat().st_size
    assert [size] * 3 == [total for _, total in seen]
    assert sorted(seen) == seen
    assert size == seen[-1][0]


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.integers(0, 500), st.floats(0, 1e15), min_size=1, max_size=30))
def test_exported_loads_are_imported_again_to_the_last_digit(tmp_path_factory, highs):
    folder = tmp_path_factory.mktemp("roundtrip")
    stores = Store(folder / "a.db"), Store(folder / "b.db")
    loads, again = (opened.loads for opened in stores)
    loads.backfill(WEB, [(NOON + at * STEP, high) for at, high in highs.items()])

    text = io.StringIO()
    export_csv(loads, WEB, text)
    (folder / "load.csv").write_text(text.getvalue())
    import_csv(again.backfill, WEB, folder / "load.csv", now=LATER)

    assert everything(loads) == everything(again)
    # A header, and a line for each step from the first to the last, known or not.
    assert 1 + max(highs) - min(highs) + 1 == len(text.getvalue().splitlines())
    for opened in stores:
        opened.close()


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_parquet_in_and_out_gives_what_csv_gives(loads, written, tmp_path, unit):
    import_csv(
        loads.backfill,
        WEB,
        written("timestamp,value", GOOD, "2026-03-01T12:05:00Z,", "2026-03-01T12:10:00Z,2.5"),
        now=LATER,
    )
    other = Store(tmp_path / "again.db")
    again = other.loads

    assert 2 == parquet.export(loads, WEB, tmp_path / "load.parquet")
    frame = pd.read_parquet(tmp_path / "load.parquet")
    frame["timestamp"] = frame["timestamp"].dt.as_unit(unit).dt.tz_convert("Asia/Tokyo")
    frame.to_parquet(tmp_path / "other.parquet")
    outcome = import_file(again.backfill, WEB, tmp_path / "other.parquet", now=LATER)

    assert Imported(rows=2, gaps=1, steps=2, first=NOON, last=NOON + 3 * STEP) == outcome
    assert everything(loads) == everything(again)
    other.close()


def times(*texts, zone="UTC"):
    return pd.to_datetime(list(texts)).tz_localize(zone)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ({"time": [1.0]}, "the columns are time: timestamp and value are needed"),
        ({"timestamp": times("2026-03-01", zone=None), "value": [1.0]}, "timestamp: timestamp[us]: times with a zone"),
        ({"timestamp": times("2026-03-01"), "value": ["many"]}, "value: "),
        ({"timestamp": times("2026-03-01", None), "value": [1.0, 2.0]}, "row 2: no timestamp"),
        ({"timestamp": times("2026-03-01"), "value": [-1.0]}, "row 1: -1.0 at 2026-03-01T00:00:00Z: a number from 0"),
        (
            {"timestamp": times("3000-01-01"), "value": [1.0]},
            "times from 1970 to 2262 are accepted",
        ),
        (
            {"timestamp": times("2026-03-01"), "value": [float("nan")]},
            "1 gaps and no value: at least one value is needed",
        ),
    ],
    ids=["columns", "no zone", "no numbers", "no time", "negative", "year 3000", "empty"],
)
def test_a_parquet_file_that_is_no_history_is_refused(loads, tmp_path, frame, said):
    path = tmp_path / "load.parquet"
    pd.DataFrame(frame).to_parquet(path)

    with pytest.raises(HistoryError) as raised:
        import_file(loads.backfill, WEB, path, now=LATER)

    assert str(path) in str(raised.value)
    assert said in str(raised.value)
    assert [] == everything(loads)


@pytest.mark.parametrize("value", [-3.0, float("inf"), 1e39])
def test_what_is_no_load_is_refused_in_points_too(tmp_path, value):
    path = tmp_path / "load.parquet"
    pd.DataFrame({"timestamp": times("2026-03-01"), "value": [value]}).to_parquet(path)

    with pytest.raises(HistoryError, match=r"row 1: .* a number from 0 to 3.4e38"):
        read_points(path)


def test_a_file_that_is_no_parquet_is_refused(loads, tmp_path):
    path = tmp_path / "load.parquet"
    path.write_text("timestamp,value\n")

    with pytest.raises(HistoryError, match="a Parquet file is needed"):
        import_file(loads.backfill, WEB, path, now=LATER)


def test_a_damaged_parquet_file_is_refused(loads, tmp_path):
    path = tmp_path / "load.parquet"
    pd.DataFrame({"timestamp": times("2026-03-01"), "value": [1.0]}).to_parquet(path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"PAR1\x15", b"PAR1\xff"))

    with pytest.raises(HistoryError, match="a Parquet file is needed"):
        import_file(loads.backfill, WEB, path, now=LATER)


def test_the_pandas_metadata_of_a_parquet_file_is_ignored(loads, tmp_path):
    """Two columns are read, by their names; what else a file holds may be damaged, or of any size."""
    path = tmp_path / "load.parquet"
    table = pa.table({"timestamp": times("2026-03-01"), "value": [1.0], "note": ["x" * 1000]})
    pq.write_table(table.replace_schema_metadata({"pandas": b"\xff"}), path)

    assert 1 == import_file(loads.backfill, WEB, path, now=LATER).rows


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ("2026-02-28T11:59:59Z", "line 2: 2026-03-01T12:00:00Z is yet to come: times to 2026-03-01T11:59:59Z"),
        ("2026-02-28T12:00:00Z", "1 values"),
    ],
)
def test_a_load_more_than_a_day_ahead_is_refused(tmp_path, written, loads, now, said):
    """One line of the year 2261 would drop the 28 days before today, as they are older than 28 days then."""
    path = written("timestamp,value", GOOD)
    try:
        told = f"{import_csv(loads.backfill, WEB, path, now=parse_instant(now)).rows} values"
    except HistoryError as problem:
        told = str(problem)

    assert said in told


def test_a_shift_into_the_future_is_refused(loads, written):
    with pytest.raises(HistoryError, match=r"2026-03-03T12:00:00Z is yet to come: .* is dropped"):
        import_csv(loads.backfill, WEB, written("timestamp,value", GOOD), now=NOON, shift=2 * DAY)


def test_a_parquet_row_of_the_future_is_refused(loads, tmp_path):
    path = tmp_path / "load.parquet"
    pd.DataFrame({"timestamp": times("2026-03-01", "2261-01-01"), "value": [1.0, 1.0]}).to_parquet(path)

    with pytest.raises(HistoryError, match=r"row 2: 2261-01-01T00:00:00Z is yet to come"):
        import_file(loads.backfill, WEB, path, now=NOON)


@pytest.mark.slow
@pytest.mark.parametrize("newest_first", [True, False])
def test_of_years_by_the_minute_the_newest_28_days_are_kept(loads, tmp_path, newest_first):
    """150,000 minutes are 104 days, in either order: 28 days of 288 steps are kept, the newest with its value."""
    minutes = range(150_000)
    lines = [f"{format_instant(NOON + minute * MINUTE)},{minute}" for minute in minutes]
    path = tmp_path / "load.csv"
    path.write_text("\n".join(["timestamp,value", *(reversed(lines) if newest_first else lines)]))

    imported = import_csv(loads.backfill, WEB, path, now=LATER)

    assert (150_000, 28 * 288) == (imported.rows, imported.steps)
    assert 149_999.0 == everything(loads)[-1][1]


def test_a_line_longer_than_any_is_refused(loads, written):
    path = written("timestamp,value", f"2026-03-01T12:00:00Z,{'0' * 65_536}1")

    with pytest.raises(CsvError, match="line 2: more than 65,536 characters"):
        import_csv(loads.backfill, WEB, path, now=LATER)


def test_an_error_quotes_a_field_shortened(loads, written):
    path = written("timestamp,value", f"2026-03-01T12:00:00Z,{'x' * 60_000}")

    with pytest.raises(CsvError) as raised:
        import_csv(loads.backfill, WEB, path, now=LATER)

    assert len(str(raised.value)) < 600


def test_more_points_than_28_days_of_seconds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POINTS_MAX", 3)
    path = tmp_path / "load.csv"
    path.write_text("timestamp,value\n" + "".join(f"2026-03-01T12:00:0{second}Z,1\n" for second in range(4)))

    with pytest.raises(HistoryError, match="more than 3 times: 28 days by the second"):
        read_points(path)
