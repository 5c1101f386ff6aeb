"""
What it is worth that forecasts know of special days: the day itself, and the same weekday a week later.

`python benchmarks/days_left_out.py nyc_taxi_30m.csv.gz`: the taxi rides of New York in half hours (benchmarks/traces
says where they are to be had), with the public holidays of the state of New York and the blizzard of January 2015. Of
`wikipedia_views_1h.csv.gz`: page views an hour in 2020, with the public holidays of the United States and days that
much was read on. Then with a sale that was made up: two and a half times the load on a Friday from 10 to 22. A series
is replayed faster than its calendar, each step in five minutes, by columns, with a budget of 5 %: minutes and pod-hours
are those of the replay, in which a day of half hours has four hours. Protocol: docs/engineering/forecasting.md.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import holidays
import numpy as np
from policy_floors import replayed
from recorded import TICKS_PER_STEP, Recorded, read

from cronhpa.core.model.instant import DAY, from_datetime
from cronhpa.core.model.spec import Span
from cronhpa.forecasting.columns import MINUTES_PER_STEP, AutoscalerModel
from cronhpa.forecasting.outcomes import Outcomes

# The series has local times without a zone, which are read as UTC.
_BLIZZARD = {date(2015, 1, 26): "Blizzard", date(2015, 1, 27): "Blizzard"}
_MUCH_READ = {
    date(2020, 1, 26): "Death of K. Bryant",
    date(2020, 2, 10): "Academy Awards",
    date(2020, 11, 4): "After the election",
    date(2020, 11, 7): "Election is called",
}
_BUDGET = 5
_WEEK = timedelta(days=7)


_SALE_HOURS = (10, 22)
_SALE_TIMES = 2.5


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    series = read(Path(sys.argv[1]))
    _compare(series, special_days(series))
    print()
    sale = date(2014, 12, 5) if series.begin.year < 2020 else date(2020, 12, 4)
    _compare(with_sale(series, sale), {sale: "Sale, made up"})


def with_sale(series: Recorded, day: date) -> Recorded:
    """The series with the load of a sale on a day."""
    per_hour = series.steps_per_day // 24
    first = (day - series.begin.date()).days * series.steps_per_day
    begin, end = (first + hour * per_hour for hour in _SALE_HOURS)
    steps, load = series.steps.copy(), series.load.copy()
    steps[begin:end] *= _SALE_TIMES
    load[begin * TICKS_PER_STEP : end * TICKS_PER_STEP] *= _SALE_TIMES
    return replace(series, steps=steps, load=load)


def _compare(series: Recorded, days: dict[date, str]) -> None:
    autoscaler = AutoscalerModel()
    spans = [_span(day) for day in days]
    without = replayed(series, autoscaler, [_BUDGET]).outcomes
    knowing = replayed(series, autoscaler, [_BUDGET], left_out=spans).outcomes
    print(f"{series.name}, budget {_BUDGET} %: minutes short, pod-hours")
    print(f"{'':34}{'reactive':>18}{'forecast':>18}{'without the days':>18}")
    sums = {"day itself": np.zeros((3, 2)), "a week later": np.zeros((3, 2))}
    for day, name in days.items():
        for what, at in (("day itself", day), ("a week later", day + _WEEK)):
            rows = _rows(series, at)
            if rows is None:
                continue
            found = np.array([_sums(without, 0, rows), _sums(without, 1, rows), _sums(knowing, 1, rows)])
            sums[what] += found
            print(f"{name[:18]:18} {at} {what[:4]:5}{_cells(found)}")
    for what, found in sums.items():
        print(f"{'all, ' + what:34}{_cells(found)}")
    runs = ((without, 0), (without, 1), (knowing, 1))
    every = np.array([_sums(outcomes, row, slice(None)) for outcomes, row in runs])
    print(f"{'every day of the test':34}{_cells(every)}")


def special_days(series: Recorded) -> dict[date, str]:
    """The public holidays within the series, and what else happened."""
    first = series.begin.date()
    last = first + timedelta(days=len(series.steps) // series.steps_per_day)
    subdivision, others = ("NY", _BLIZZARD) if first.year < 2020 else (None, _MUCH_READ)
    public = holidays.country_holidays("US", subdiv=subdivision, years=range(first.year, last.year + 1))
    named = {day: name for day, name in public.items() if first <= day < last}
    return dict(sorted((named | others).items()))


def _span(day: date) -> Span:
    begin = from_datetime(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo("UTC")))
    return Span(begin, begin + DAY)


def _rows(series: Recorded, day: date) -> slice | None:
    """The steps of a day among those of the test; None if it lies outside."""
    first = (day - series.begin.date()).days * series.steps_per_day - series.first_step
    last = first + series.steps_per_day
    return slice(first, last) if first >= 0 and last <= len(series.steps) - series.first_step else None


def _sums(outcomes: Outcomes, row: int, steps: slice) -> tuple[float, float]:
    """Minutes short and pod-hours."""
    under = float(outcomes.under[row, steps].sum(dtype=np.float64)) / 60
    return under, float(outcomes.pods[row, steps].sum(dtype=np.float64)) * MINUTES_PER_STEP / 60


def _cells(found: np.ndarray) -> str:
    return "".join(f"{minutes:8.2f} {hours:9.1f}" for minutes, hours in found)


if __name__ == "__main__":
    main()
