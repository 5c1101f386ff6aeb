"""
Load history as Parquet, in and out of the store: columns `timestamp` (with a zone) and `value`, null for a gap.

Imported only where a Parquet file is read or written: pandas and pyarrow are extras, and cost 200 MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from cronhpa.core.instant import Nanoseconds
from cronhpa.history.files import HEADER, HistoryError
from cronhpa.history.load_history import LoadHistory as Store
from cronhpa.history.series import STEP, Series

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def rows(path: Path) -> Iterator[tuple[str, Nanoseconds, float | None]]:
    """
    (where, instant, value or None for a gap) of every row.

    Raises HistoryError for what cannot be read, OSError where the file cannot be opened.
    """
    try:
        frame = pd.read_parquet(path)
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError) as problem:
        # Of a damaged file pyarrow says an OSError without a number, and pandas stumbles over its own note in it.
        if isinstance(problem, OSError) and problem.errno is not None:
            raise
        said = " ".join(str(problem).split())
        raise HistoryError(path, "", said, "a Parquet file is needed") from None
    # A frame that was written with its times as the index brings them back so.
    frame = frame.reset_index() if HEADER[0] not in frame.columns and frame.index.name == HEADER[0] else frame
    missing = [name for name in HEADER if name not in frame.columns]
    if missing:
        found = f"the columns are {', '.join(map(str, frame.columns))}"
        raise HistoryError(path, "", found, f"{' and '.join(HEADER)} are needed")
    stamps, values = frame[HEADER[0]], frame[HEADER[1]]
    if not isinstance(stamps.dtype, pd.DatetimeTZDtype):
        raise HistoryError(
            path, HEADER[0], f"{stamps.dtype}", "times with a zone, such as timestamp[ns, UTC], are needed"
        )
    if not pd.api.types.is_numeric_dtype(values.dtype):
        raise HistoryError(path, HEADER[1], f"{values.dtype}", "numbers are needed, null for a gap")
    if stamps.isna().any():
        raise HistoryError(
            path, f"row {int(stamps.isna().argmax()) + 1}", "no timestamp", "a time with a zone is needed"
        )
    try:
        instants = stamps.dt.tz_convert("UTC").astype("datetime64[ns, UTC]").astype(np.int64)
    except pd.errors.OutOfBoundsDatetime as problem:
        raise HistoryError(path, HEADER[0], str(problem), "times from 1970 to 2262 are accepted") from None
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    for row, (at, value) in enumerate(zip(instants.tolist(), numbers.tolist(), strict=True), start=1):
        yield f"row {row}", at, None if np.isnan(value) else value


def export(store: Store, series: Series, path: Path) -> int:
    """
    Write the five-minute maxima of a series, a row for every step from the first to the last, null where unknown.

    Returns the number of rows with a value; 0, and no file, where the store knows nothing of the series.
    Raises StoreError where the store cannot be read, OSError where the file cannot be written.
    """
    first, highs = store.history(series, 0, 2**63)
    if not highs:
        return 0
    stamps = pd.to_datetime(first + np.arange(len(highs)) * STEP, unit="ns", utc=True)
    frame = pd.DataFrame({HEADER[0]: stamps, HEADER[1]: np.frombuffer(highs, dtype=np.float64)})
    frame.to_parquet(path, index=False)
    return int(frame[HEADER[1]].notna().sum())
