"""benchmarks.traces: the shipped traces are those of the published figures, and SOURCES.txt names all of them."""

from __future__ import annotations

import gzip
import io
import re
import sys
import tarfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
TRACES = PROJECT / "benchmarks" / "traces"
PAGE = (TRACES / "SOURCES.txt").read_text()


@pytest.fixture(autouse=True)
def _script(monkeypatch):
    monkeypatch.syspath_prepend(TRACES)
    yield
    sys.modules.pop("convert", None)


def shipped():
    return {path.name.removesuffix(".csv.gz") for path in TRACES.glob("*.csv.gz")}


def listed(heading):
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^- `(\w+)`:", section, re.MULTILINE))


def rows(points, every_minutes=1, decimals=6):
    import convert

    return convert.Recipe("x", "y", "z", "p", points, every_minutes * convert.MINUTE, decimals, "").rows


def test_the_sources_list_what_is_shipped_and_what_is_not():
    import convert

    assert shipped() == listed("Shipped")
    assert {recipe.name for recipe in convert.RECIPES} == listed("Shipped") | listed("Not shipped")
    assert set() == listed("Shipped") & listed("Not shipped")


def test_every_series_of_the_published_tables_has_a_recipe():
    import convert

    page = (PROJECT / "docs" / "engineering" / "forecasting.md").read_text()
    published = re.findall(r"^\| (\w+_\d+[mh]) \|", page, re.MULTILINE)

    assert set() < set(published) <= {recipe.name for recipe in convert.RECIPES}


def test_shipped_series_are_those_that_the_figures_were_made_from():
    import convert

    assert {} == {
        recipe.name: digest
        for recipe in convert.RECIPES
        if recipe.name in shipped()
        and (digest := convert.digest(convert.read(TRACES / f"{recipe.name}.csv.gz"))) != recipe.digest
    }


def test_what_was_written_reads_the_same(tmp_path):
    import convert

    made = rows(convert.iso)(b"timestamp,value\n2021-08-01 00:00:00,4.25\n2021-08-01 00:02:00,6075540.0\n")
    convert.write(tmp_path / "x.csv.gz", made)

    assert [("2021-08-01T00:00:00Z", 4.25), ("2021-08-01T00:01:00Z", None), ("2021-08-01T00:02:00Z", 6075540.0)] == made
    assert made == convert.read(tmp_path / "x.csv.gz")
    assert b"T00:01:00Z,\n" in gzip.decompress((tmp_path / "x.csv.gz").read_bytes())


def test_points_move_down_to_the_grid_and_an_instant_that_is_there_twice_gets_the_mean():
    import convert

    made = rows(convert.iso, 5)(b"t,v\n2014-04-10 00:04:00,1\n2014-04-10 00:09:00,2\n2014-04-10 00:09:00,5\n")

    assert [("2014-04-10T00:00:00Z", 1.0), ("2014-04-10T00:05:00Z", 3.5)] == made


def test_a_minute_in_two_log_files_is_added_up():
    import convert

    made = rows(convert.minute_counts)(b"period,count\n1998-04-30 21:30:00,2\n1998-04-30 21:30:00,11\n")

    assert [("1998-04-30T21:30:00Z", 13.0)] == made


def test_the_logs_of_nasa_are_parted_at_the_shutdown_of_the_first_of_august():
    """July: 150 s from 00:00:01 on, two whole minutes. August: a request a second until 14:52:01, then none."""
    import convert

    august = 14 * 3600 + 52 * 60 + 1
    made = rows(convert.nasa, decimals=0)(archive([2] * 150 + [1] * august + [0] * 3600 + [1] * 60))

    # July's first second is before its log: 59 counts of 2, then 60.
    assert [("1995-07-01T04:00:00Z", 118.0), ("1995-07-01T04:01:00Z", 120.0), ("1995-07-01T04:02:00Z", None)] == made[
        :3
    ]
    values = dict(made)
    assert [None, 60.0] == [values["1995-08-01T03:59:00Z"], values["1995-08-01T04:00:00Z"]]
    assert [60.0, 1.0, 0.0] == [values[f"1995-08-01T18:5{minute}:00Z"] for minute in (1, 2, 3)]


def test_a_minute_without_a_message_is_missing_and_the_last_one_is_left_out_unless_it_is_whole():
    import convert

    made = rows(convert.twitter)(archive([1] * 60 + [0] * 60 + [3] * 60 + [9] * 59))

    assert [("2021-08-01T00:00:00Z", 60.0), ("2021-08-01T00:01:00Z", None), ("2021-08-01T00:02:00Z", 180.0)] == made


def archive(counts):
    text = " ".join(map(str, counts)).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:bz2") as out:
        entry = tarfile.TarInfo("workload.txt")
        entry.size = len(text)
        out.addfile(entry, io.BytesIO(text))
    return packed.getvalue()


def test_a_missing_clone_is_named(tmp_path, capsys):
    import convert

    assert 1 == convert.main(tmp_path / "clones", tmp_path / "out", ["nyc_taxi_30m"])
    assert "clone of github.com/numenta/NAB" in capsys.readouterr().out
