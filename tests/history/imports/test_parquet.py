"""Load history as a Parquet file; what a file must not hold is in `test_files`."""

import pandas as pd

from cronhpa.core.model.instant import MINUTE
from cronhpa.history.database.series import STEP
from cronhpa.history.imports import parquet
from history.samples import NOON, WEB, sample


def test_a_file_has_a_row_for_every_step_and_null_for_a_gap(store, tmp_path):
    store.loads.record([sample(0, 1.0), sample(600, 2.0)])

    rows = parquet.export(store.loads, WEB, tmp_path / "load.parquet")

    frame = pd.read_parquet(tmp_path / "load.parquet")
    assert 2 == rows
    assert ["timestamp", "value"] == list(frame.columns)
    assert [NOON, NOON + STEP, NOON + 2 * STEP] == [at.value for at in frame["timestamp"]]
    assert [1.0, None, 2.0] == [None if pd.isna(value) else value for value in frame["value"]]


def test_a_series_that_the_store_does_not_have_is_not_exported(store, tmp_path):
    assert 0 == parquet.export(store.loads, WEB, tmp_path / "load.parquet")
    assert not (tmp_path / "load.parquet").exists()


def test_rows_are_given_in_the_order_of_the_file_with_their_place(tmp_path):
    stamps = pd.to_datetime([NOON + MINUTE, NOON], unit="ns", utc=True)
    pd.DataFrame({"timestamp": stamps, "value": [2.0, None]}).to_parquet(tmp_path / "load.parquet")

    assert [(1, NOON + MINUTE, 2.0), (2, NOON, None)] == list(parquet.rows(tmp_path / "load.parquet"))
