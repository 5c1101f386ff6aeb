"""Recorded series as the benchmarks use them: `timestamp,value` in a folder of CSV files, gzipped or not."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cronhpa.learning.screening import MINUTES_PER_STEP, Floats

if TYPE_CHECKING:
    from pathlib import Path

TICKS_PER_STEP = 20  # of 15 s

# The mean load is what 20 pods carry at a target of 60 %.
_MEAN_LOAD = 20 * 0.6
_STEP_SECONDS = 60 * MINUTES_PER_STEP
_DAY_SECONDS = 86_400
# With more than this missing, a gap means that the place is closed: a bank's calls by night are zero calls.
_CLOSED_SHARE = 0.25


@dataclass(frozen=True)
class Recorded:
    """
    One series, in units of what a pod carries, replayed with five minutes a step.

    load: (ticks,), what is scaled for, linear between recorded points, through gaps too.
    steps: (steps,), the maximum of each step, NaN in a gap: all that history keeps. What is recorded more coarsely than
    five minutes (30 min, 1 h) is replayed faster, a recorded point a step.
    minutes: (minutes,), the recorded points where there is one a minute, or None.
    steps_per_day: of the recorded calendar. first_step: where the test begins; what lies before it is warm-up.
    """

    name: str
    load: Floats
    steps: Floats
    minutes: Floats | None
    steps_per_day: int
    first_step: int

    @property
    def days(self) -> float:
        """How many days of replay are tested."""
        return (len(self.steps) - self.first_step) * _STEP_SECONDS / _DAY_SECONDS


def read(path: Path) -> Recorded:
    """Raises ValueError, with the file's name, for a grid that is neither of minutes nor of whole five minutes."""
    table = pd.read_csv(path)
    at = pd.to_datetime(table["timestamp"], utc=True)
    seconds = int(at.diff().median().total_seconds())
    if seconds not in {60, 300} and seconds % _STEP_SECONDS:
        raise ValueError(f"{path}: a point every {seconds} s: every 60, 300 or a multiple of 300 s is accepted")
    series = pd.Series(table["value"].to_numpy(dtype=np.float64), index=at).asfreq(f"{seconds}s")
    values = series.to_numpy()
    if np.isnan(values).mean() > _CLOSED_SHARE:
        values = np.nan_to_num(values)
    values = values * (_MEAN_LOAD / np.nanmean(values))
    per_step = max(1, _STEP_SECONDS // seconds)
    values = values[: len(values) // per_step * per_step]
    steps_per_day = _DAY_SECONDS // max(seconds, _STEP_SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a step of nothing but gaps is a gap
        steps = np.nanmax(values.reshape(-1, per_step), axis=1)
    known = ~np.isnan(values)
    rows = np.arange(len(values))
    ticks = np.arange(len(steps) * TICKS_PER_STEP) * per_step / TICKS_PER_STEP
    return Recorded(
        name=path.name.split(".")[0],
        load=np.interp(ticks, rows[known], values[known]),
        steps=steps,
        minutes=values if per_step > 1 else None,
        steps_per_day=steps_per_day,
        first_step=int(_warm_up_days(len(steps) / steps_per_day, steps_per_day) * steps_per_day),
    )


def _warm_up_days(days: float, steps_per_day: int) -> float:
    """A week, 8 of 16 days, 28 of an hourly series, 35 % up to three weeks of others."""
    if steps_per_day == 24:
        return 28
    if 15 <= days <= 17:
        return 8
    return max(7.0, min(21.0, 0.35 * days))
