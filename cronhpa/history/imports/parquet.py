"""
Load history as Parquet, in and out of the store: columns `timestamp` (with a zone) and `value`, null for a gap.

Imported only where a Parquet file is read or written: pandas and pyarrow are extras, and large.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cronhpa.core.model.printable import shortened
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.imports.files import ENOUGH, HEADER, ROWS_MAX, TEXT_MAX, TOLD_MAX, HistoryError, Row
from cronhpa.history.load.load_history import LoadHistory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# pyarrow unpacks a page of a column as a whole, and a row group page by page.
_ROWS_AT_ONCE = 65_536
_INSTANT = pa.timestamp("ns", "UTC")


def rows(path: Path) -> Iterator[Row]:
    """
    Every row, read some ten thousand at a time.

    Raises HistoryError for content that cannot be read, OSError where the file cannot be opened.
    """
    try:
        with path.open("rb") as opened, pq.ParquetFile(opened) as file:
            _check(path, file)
            before = 0
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=list(HEADER), use_threads=False):
                yield from _of_batch(path, batch, before)
                before += batch.num_rows
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, MemoryError) as problem:
        # For a damaged file pyarrow raises an OSError without a number.
        if isinstance(problem, OSError) and problem.errno is not None:
            raise
        text = " ".join(str(problem).split())
        raise HistoryError(path, "", text, "a Parquet file is needed") from None


def _check(path: Path, file: pq.ParquetFile) -> None:
    """Raises HistoryError for other columns than a history's, and for more rows or bytes than any history has."""
    metadata = file.metadata
    if metadata.num_rows > ROWS_MAX:
        accepted = f"{ROWS_MAX:,} are accepted: {ENOUGH}"
        raise HistoryError(path, "", f"{metadata.num_rows:,} rows", accepted)
    schema = file.schema_arrow
    if any(schema.names.count(name) != 1 for name in HEADER):
        columns = f"the columns are {shortened(', '.join(schema.names), TOLD_MAX)}"
        raise HistoryError(path, "", columns, f"{' and '.join(HEADER)} are needed")
    stamp, value = (schema.field(name).type for name in HEADER)
    if not pa.types.is_timestamp(stamp) or stamp.tz is None:
        raise HistoryError(path, HEADER[0], f"{stamp}", "times with a zone, such as timestamp[ns, UTC], are needed")
    if not (pa.types.is_integer(value) or pa.types.is_floating(value) or pa.types.is_decimal(value)):
        raise HistoryError(path, HEADER[1], f"{value}", "numbers are needed, null for a gap")
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        unpacked = sum(
            column.total_uncompressed_size
            for column in map(group.column, range(group.num_columns))
            if column.path_in_schema in HEADER
        )
        if unpacked > TEXT_MAX:
            accepted = f"{TEXT_MAX // 2**20:,} MiB are accepted"
            raise HistoryError(path, f"row group {index}", f"{unpacked // 2**20:,} MiB unpacked", accepted)


def _of_batch(path: Path, batch: pa.RecordBatch, before: int) -> Iterator[Row]:
    """before: how many rows came before these."""
    stamps, values = batch.column(HEADER[0]), batch.column(HEADER[1])
    if stamps.null_count:
        row = before + int(np.argmax(stamps.is_null().to_numpy(zero_copy_only=False))) + 1
        raise HistoryError(path, f"row {row}", "no timestamp", "a time with a zone is needed")
    try:
        instants = pc.cast(stamps, _INSTANT).cast(pa.int64()).to_pylist()
    except pa.ArrowInvalid as problem:
        text = " ".join(str(problem).split())
        raise HistoryError(path, HEADER[0], text, "times from 1970 to 2262 are accepted") from None
    numbers = pc.cast(values, pa.float64(), safe=False).to_pylist()
    for row, (at, value) in enumerate(zip(instants, numbers, strict=True), start=before + 1):
        yield row, at, None if value is None or math.isnan(value) else value


def export(loads: LoadHistory, series: Series, path: Path) -> int:
    """
    Write the five-minute maxima of a series, a row for every step from the first to the last, null where unknown.

    Returns the number of rows with a value; 0, and no file, where the store knows nothing of the series.
    Raises StoreError where the store cannot be read, OSError where the file cannot be written.
    """
    first, highs = loads.history(series, 0, 2**63)
    if not highs:
        return 0
    stamps = pd.to_datetime(first + np.arange(len(highs)) * STEP, unit="ns", utc=True)
    frame = pd.DataFrame({HEADER[0]: stamps, HEADER[1]: np.frombuffer(highs, dtype=np.float64)})
    frame.to_parquet(path, index=False)
    return int(frame[HEADER[1]].notna().sum())
