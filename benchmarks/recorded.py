"""Recorded series as the benchmarks use them: an instant and a load a line, in CSV files, gzipped or not."""

from __future__ import annotations

import os
import sys
import warnings
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas as pd

from cronhpa.forecasting.columns import MINUTES_PER_STEP, Floats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

Found = TypeVar("Found")

TICKS_PER_STEP = 20  # of 15 s

# The mean load is what 20 pods carry at a target of 60 %.
_MEAN_LOAD = 20 * 0.6
_MINUTE_SECONDS = 60
_STEP_SECONDS = 60 * MINUTES_PER_STEP
_DAY_SECONDS = 86_400
# With more than this missing, a gap means that the place is closed: a bank's calls by night are zero calls.
_CLOSED_SHARE = 0.25
_SUFFIXES = (".csv", ".csv.gz")
# Later than any second since 1970 that a clock shows today, and earlier than any of its milliseconds.
_SECONDS_MAX = 1e11
_LONG_HOURLY_DAYS = 35
_LATE_SECONDS_MAX = 5


@dataclass(frozen=True)
class Recorded:
    """
    One series, in units of what a pod carries, replayed with five minutes a step.

    load: (ticks,), what is scaled for, linear between recorded points, through gaps too.
    steps: (steps,), the maximum of each step, NaN in a gap: all that history keeps. What is recorded more coarsely than
    five minutes (30 min, 1 h) is replayed faster, a recorded point a step.
    minutes: (minutes,), the recorded points where there is one a minute, or None.
    begin: the start of the first step. steps_per_day: of the recorded calendar. first_step: where the test begins; what
    lies before it is warm-up. remarks: what was made of points that are none.
    """

    name: str
    load: Floats
    steps: Floats
    minutes: Floats | None
    begin: pd.Timestamp
    steps_per_day: int
    first_step: int
    remarks: tuple[str, ...] = ()

    @property
    def days(self) -> float:
        """How many days of replay are tested."""
        return (len(self.steps) - self.first_step) * _STEP_SECONDS / _DAY_SECONDS


def read_all(folder: Path) -> tuple[list[Recorded], dict[str, str]]:
    """
    The series of a folder by name, and why each of the others is left out.

    Exits where there is no series at all.
    """
    if not folder.is_dir():
        sys.exit(f"{folder} is no folder: a folder of CSV files, `timestamp,value`, gzipped or not, is needed")
    files = sorted((path for path in folder.iterdir() if path.name.endswith(_SUFFIXES)), key=lambda path: path.name)
    if not files:
        sys.exit(f"{folder}: no file ends with .csv or .csv.gz: a folder of `timestamp,value` series is needed")
    recordings: list[Recorded] = []
    left_out: dict[str, str] = {}
    for path in files:
        try:
            recordings.append(read(path))
        except (ValueError, OSError, EOFError, zlib.error) as problem:
            said = str(problem)
            left_out[path.name] = said if said.startswith(str(path)) else f"{path}: {said}"
    if not recordings:
        sys.exit("\n".join(["no series can be used:", *left_out.values()]))
    return recordings, left_out


def for_each(
    task: Callable[[Recorded], Found], several: Sequence[Recorded], jobs: int | None = None
) -> Iterator[tuple[Recorded, Found]]:
    """What a task finds of each series, as soon as it is found, the longest series first; jobs: None for all cores."""
    longest_first = sorted(several, key=lambda series: -len(series.load))
    with ProcessPoolExecutor(max_workers=jobs or os.cpu_count()) as pool:
        running = {pool.submit(task, series): series for series in longest_first}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        finally:
            for future in running:
                future.cancel()


def read(path: Path) -> Recorded:
    """
    Raises ValueError, with the file's name, for what is no series, for a grid that is neither of minutes nor of whole
    five minutes, and for a series that is over before its warm-up is.
    """
    series, remarks = _points(path)
    if len(series) < 2:
        raise ValueError(f"{path}: {len(series)} instant: two make a grid")
    apart = _apart_seconds(series)
    if apart > _LATE_SECONDS_MAX and abs(apart - _MINUTE_SECONDS * round(apart / _MINUTE_SECONDS)) <= _LATE_SECONDS_MAX:
        # Whoever writes is some seconds late.
        series.index = pd.DatetimeIndex(series.index).round(f"{_MINUTE_SECONDS}s")
    seconds = _grid_seconds(path, series)
    every = seconds if seconds >= _STEP_SECONDS else _MINUTE_SECONDS
    # Several points of a minute are one: a metric is the mean of a minute.
    series = series.resample(f"{every}s", origin="start").mean()
    if _MINUTE_SECONDS < seconds < _STEP_SECONDS:
        series = series.interpolate(limit=seconds // _MINUTE_SECONDS - 1, limit_area="inside")
    return _replayed(path, series, tuple(remarks))


def _points(path: Path) -> tuple[pd.Series[float], list[str]]:
    """
    The load by instant, sorted. The first column is the instant, `value`, else the second, is the load; a line without
    a header is one of them already.
    """
    table = pd.read_csv(path, skipinitialspace=True, encoding="utf-8-sig")
    if not pd.isna(pd.to_datetime(str(table.columns[0]), utc=True, errors="coerce")) or str(table.columns[0]).isdigit():
        table = pd.read_csv(path, header=None, skipinitialspace=True, encoding="utf-8-sig")
    if table.shape[1] < 2:
        raise ValueError(f"{path}: {table.shape[1]} column: an instant and a load are needed, `timestamp,value`")
    names = [str(name).strip().lower() for name in table.columns]
    stamps, loads = table.iloc[:, 0], table.iloc[:, names.index("value") if "value" in names else 1]
    if pd.api.types.is_numeric_dtype(stamps):
        at = pd.to_datetime(stamps, unit="s" if stamps.abs().max() < _SECONDS_MAX else "ms", utc=True)
    else:
        at = pd.to_datetime(stamps, utc=True, format="ISO8601", errors="coerce")
    if at.isna().any():
        row = int(np.flatnonzero(at.isna())[0])
        raise ValueError(f"{path}: row {row + 1}: {stamps.iloc[row]!r} is no instant: 2026-03-01T00:00:00Z is one")
    values = pd.to_numeric(loads, errors="coerce")
    if (values.isna() & loads.notna() & (loads.astype(str).str.strip().str.lower() != "nan")).any():
        row = int(np.flatnonzero(values.isna() & loads.notna())[0])
        raise ValueError(f"{path}: row {row + 1}: {loads.iloc[row]!r} is no load: a number, or nothing for a gap")
    series = pd.Series(values.to_numpy(dtype=np.float64), index=pd.DatetimeIndex(at)).sort_index()
    remarks = []
    impossible = (series < 0) | np.isinf(series)
    if impossible.any():
        remarks.append(f"{int(impossible.sum())} negative or infinite loads are taken for gaps")
        series = series.mask(impossible)
    if series.index.has_duplicates:
        remarks.append(f"{int(series.index.duplicated().sum())} instants come twice: their mean counts")
        series = series.groupby(level=0).mean()
    if not (series > 0).any():
        raise ValueError(f"{path}: no load is above zero: there is nothing to scale for")
    return series, remarks


def _apart_seconds(series: pd.Series[float]) -> int:
    return int(series.index.to_series().diff().median().total_seconds())  # type: ignore[attr-defined]  # as above


def _grid_seconds(path: Path, series: pd.Series[float]) -> int:
    seconds = _apart_seconds(series)
    if seconds <= _MINUTE_SECONDS and _MINUTE_SECONDS % max(seconds, 1) == 0:
        return max(seconds, 1)
    if seconds % _STEP_SECONDS and not (seconds < _STEP_SECONDS and seconds % _MINUTE_SECONDS == 0):
        raise ValueError(
            f"{path}: a point every {seconds} s: a part of a minute, minutes or a multiple of 300 s is accepted"
        )
    if _DAY_SECONDS % max(seconds, _STEP_SECONDS) or seconds > _DAY_SECONDS // 24:
        raise ValueError(f"{path}: a point every {seconds} s: at least one an hour, as many each day, is accepted")
    return seconds


def _replayed(path: Path, series: pd.Series[float], remarks: tuple[str, ...]) -> Recorded:
    seconds = int((series.index[1] - series.index[0]).total_seconds())
    values = series.to_numpy(dtype=np.float64)
    if np.isnan(values).mean() > _CLOSED_SHARE:
        values = np.nan_to_num(values)
    values = values * (_MEAN_LOAD / np.nanmean(values))
    per_step = max(1, _STEP_SECONDS // seconds)
    # A point belongs to the minute, and to the step, that it ends: the first one ends what was not recorded.
    own = values[1 : 1 + (len(values) - 1) // per_step * per_step]
    steps_per_day = _DAY_SECONDS // max(seconds, _STEP_SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a step of nothing but gaps is a gap
        steps = np.nanmax(own.reshape(-1, per_step), axis=1)
    days = len(steps) / steps_per_day
    warm_up = _warm_up_days(days, steps_per_day)
    if days < warm_up + 1:
        raise ValueError(f"{path}: {days:.1f} days: {warm_up:g} are warm-up, and one more is the least that is tested")
    is_known = ~np.isnan(values)
    rows = np.arange(len(values))
    ticks = np.arange(len(steps) * TICKS_PER_STEP) * per_step / TICKS_PER_STEP
    return Recorded(
        name=path.name.removesuffix(".gz").removesuffix(".csv"),
        load=np.interp(ticks, rows[is_known], values[is_known]),
        steps=steps,
        minutes=own if per_step > 1 else None,
        begin=series.index[0],
        steps_per_day=steps_per_day,
        first_step=int(warm_up * steps_per_day),
        remarks=remarks,
    )


def _warm_up_days(days: float, steps_per_day: int) -> float:
    """A week, 8 of 16 days, 28 of a long hourly series, 35 % up to three weeks of others."""
    if steps_per_day == 24 and days >= _LONG_HOURLY_DAYS:
        return 28
    if 15 <= days <= 17:
        return 8
    return max(7.0, min(21.0, 0.35 * days))
