"""
How good a forecast is: scores as small pure functions, and a rolling origin that cuts history once.

`python -m cronhpa_models.evaluation SERIES.csv[.gz] ...` prints the scores of the method on recorded series
(`timestamp,value`, an empty value is a gap).
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pandas import DataFrame, DatetimeIndex, Timedelta, read_csv, to_datetime

from cronhpa_models import periodic_autoregression
from cronhpa_models.method import Floats, Method, nanoseconds_per_step

if TYPE_CHECKING:
    from collections.abc import Sequence

_DAY = Timedelta(days=1)


def pinball_loss(actual: Floats, forecast: Floats, level: float) -> float:
    """
    The mean loss that the true `level` quantile minimises, in load units: `level` for each unit that was too low,
    1 - `level` for each unit that was too high. Pairs with a gap are left out; NaN where none are left.
    """
    missed = (actual - forecast)[_known(actual, forecast)]
    return float(np.maximum(level * missed, (level - 1) * missed).mean()) if missed.size else float("nan")


def coverage(actual: Floats, forecast: Floats) -> float:
    """The share of outcomes at or below the forecast. Pairs with a gap are left out; NaN where none are left."""
    known = _known(actual, forecast)
    return float((actual <= forecast)[known].mean()) if known.any() else float("nan")


def mase(actual: Floats, forecast: Floats, season_before: Floats) -> float:
    """
    Mean absolute error relative to that of repeating the last season: below one is better than yesterday.

    season_before: what was measured one season before each outcome. Only pairs known in all three count.
    Scaled as Hyndman & Koehler (2006), with the seasonal naive error of the same span.
    """
    known = _known(actual, forecast) & ~np.isnan(season_before)
    naive = np.abs(actual - season_before)[known].sum()
    return float(np.abs(actual - forecast)[known].sum() / naive) if naive > 0 else float("nan")


@dataclass(frozen=True)
class Backtest:
    """
    What was forecast and what came.

    origins: the first step that each forecast speaks of. forecasts: (origins, levels, horizon, objects).
    outcomes, day_before: (origins, horizon, objects), what came, and what had come 24 hours before that.
    """

    origins: DatetimeIndex
    levels: tuple[float, ...]
    forecasts: Floats
    outcomes: Floats
    day_before: Floats


def rolling_origin(
    method: Method,
    load: DataFrame,
    *,
    first: int,
    levels: Sequence[float],
    every: int = 1,
    refit_every: int | None = None,
    history_days: int = 28,
) -> Backtest:
    """
    Forecast again and again, each time from the rows before the origin only.

    first: the row of the first origin. every: rows between origins. refit_every: rows between fits, a day if None.
    """
    day = int(_DAY // Timedelta(nanoseconds_per_step(load.index), unit="ns"))
    refit_every = refit_every or day
    rows = range(first, len(load), every)
    fitted, fitted_at = b"", -refit_every
    forecasts: list[Floats] = []
    for origin in rows:
        if origin - fitted_at >= refit_every:
            fitted, fitted_at = method.fit(load.iloc[max(0, origin - history_days * day) : origin]), origin
        forecasts.append(method.forecast(fitted, load.iloc[max(0, origin - day // 4) : origin], levels).load)
    horizon = forecasts[0].shape[1]
    at = np.asarray(rows)[:, None] + np.arange(horizon)
    return Backtest(
        origins=DatetimeIndex(load.index[list(rows)]),
        levels=tuple(levels),
        forecasts=np.stack(forecasts),
        outcomes=_take(load, at),
        day_before=_take(load, at - day),
    )


def scores(backtest: Backtest, steps: slice = slice(0, 2)) -> dict[str, float]:
    """
    Pinball loss in percent of the mean load and coverage for each level, MASE where the median was asked for.

    steps: the part of the horizon that is scored; by default what lies up to ten minutes ahead.
    """
    outcomes = backtest.outcomes[:, steps]
    mean = float(np.nanmean(outcomes))
    found: dict[str, float] = {}
    for i, level in enumerate(backtest.levels):
        forecast = backtest.forecasts[:, i, steps]
        found[f"pinball {level}"] = 100 * pinball_loss(outcomes, forecast, level) / mean
        found[f"coverage {level}"] = coverage(outcomes, forecast)
        if level == 0.5:  # noqa: PLR2004 - the median is the point forecast
            found["mase"] = mase(outcomes, forecast, backtest.day_before[:, steps])
    return found


def read_series(path: Path, step: str = "5min") -> DataFrame:
    """One recorded series as maxima of `step` on a regular UTC grid, a column named after the file."""
    table = read_csv(path)
    table.index = to_datetime(table.pop("timestamp"), utc=True)
    series = table["value"].resample(step).max()
    return series.to_frame(path.name.split(".")[0])


def _take(load: DataFrame, rows: np.ndarray) -> Floats:
    """Rows of a frame by position, NaN where there are none."""
    values = load.to_numpy(dtype=np.float64)
    inside = (rows >= 0) & (rows < len(values))
    return np.where(inside[..., None], values[np.where(inside, rows, 0)], np.nan)


def _known(actual: Floats, forecast: Floats) -> np.ndarray:
    return ~np.isnan(actual) & ~np.isnan(forecast)


def _main(paths: list[Path]) -> None:
    """A line per series: seven days of warm-up, the rest forecast at every step and fitted daily."""
    if not paths:
        sys.exit("usage: python -m cronhpa_models.evaluation SERIES.csv[.gz] ...")
    rows = {}
    for path in paths:
        load = read_series(path)
        week = int(Timedelta(days=7) // Timedelta(nanoseconds_per_step(load.index), unit="ns"))
        started = time.process_time()
        backtest = rolling_origin(periodic_autoregression, load, first=week, levels=(0.5, 0.9, 0.95))
        rows[path.name.split(".")[0]] = scores(backtest) | {"cpu s": time.process_time() - started}
    table = DataFrame(rows).T
    table.loc["median"] = table.median()
    table.loc["mean"] = table.iloc[:-1].mean()
    print(table.round(3).to_string())  # noqa: T201 - a command's output


if __name__ == "__main__":
    _main([Path(argument) for argument in sys.argv[1:]])
