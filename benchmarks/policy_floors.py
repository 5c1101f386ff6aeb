"""The floors of the shipped policy on a recorded series, with its budget and its coverage check."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from recorded import TICKS_PER_STEP, Recorded

from cronhpa.core.instant import HOUR, SECOND, Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.core.predictive.budget import THRIFT_FROM, WEEK_HOURS, Hour, thrift
from cronhpa.core.predictive.floor import COVERAGE_SLACK_PERCENT
from cronhpa.core.spec import ForecastSettings, MetricTarget, ResourceMetric, Spec, TargetRef
from cronhpa.forecasting.columns import MINUTES_PER_STEP, AutoscalerModel, Counts, simulate
from cronhpa.forecasting.coverage import coverage_percent
from cronhpa.forecasting.daily import DailyWalk, WalkedDay
from cronhpa.forecasting.fitted_models import by_minute
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.policy import FittedPolicy
from cronhpa.forecasting.recording import Recording
from cronhpa.history.series import Series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cronhpa.forecasting.evaluation import CandidateScores

_MILLI = 1000
_RUN_UP_STEPS = 24
_TICKS_PER_MINUTE = 4
_STEP_SECONDS = 300


def target_of(name: str, autoscaler: AutoscalerModel, budget_percent: int) -> ForecastTarget:
    """An object whose pods request, and carry, a load of 1."""
    metric = ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=round(100 * autoscaler.goal.load)))
    spec = Spec(
        TargetRef("apps/v1", "Deployment", name),
        1,
        10_000,
        namespace="bench",
        metrics=(metric,),
        forecast=ForecastSettings(budget_percent=budget_percent),
    )
    return ForecastTarget(
        Series("bench", name, "cpu"), spec, start_up=autoscaler.start_up_seconds * SECOND, request=_MILLI
    )


def policy_floors(series: Recorded, autoscaler: AutoscalerModel, budgets: Sequence[int]) -> Counts:
    """(budgets, minutes): the floor in force from the metric delay after the start of each minute; zero for none."""
    recording = Recording(series.begin.value, series.steps, series.minutes, steps_per_day=series.steps_per_day)
    evaluate = _once()
    return np.stack([_floors(recording, series, autoscaler, budget, evaluate) for budget in budgets])


def _once() -> Callable[[Nanoseconds, Callable[[], CandidateScores]], CandidateScores]:
    """The scores of a day do not depend on the budget: the first policy that asks computes them."""
    scores: dict[Nanoseconds, CandidateScores] = {}

    def evaluate(begin: Nanoseconds, work: Callable[[], CandidateScores]) -> CandidateScores:
        if begin not in scores:
            scores[begin] = work()
        return scores[begin]

    return evaluate


def _floors(
    recording: Recording,
    series: Recorded,
    autoscaler: AutoscalerModel,
    budget: int,
    evaluate: Callable[[Nanoseconds, Callable[[], CandidateScores]], CandidateScores],
) -> Counts:
    walk = DailyWalk(recording, target_of(series.name, autoscaler, budget), evaluate=evaluate)
    floors = np.zeros(len(series.steps) * MINUTES_PER_STEP, np.int16)
    hours: dict[int, Hour] = {}
    for row in range(series.first_step, len(series.steps), series.steps_per_day):
        now = recording.calendar(row)
        past = [hour for at, hour in hours.items() if now // HOUR - WEEK_HOURS <= at < now // HOUR]
        base = sum(hour.base for hour in past)
        day = walk.day(row, 100 * sum(hour.extra for hour in past) / base if base else None)
        last = min(row + series.steps_per_day, len(series.steps))
        asked = _asked(day, (last - row) * MINUTES_PER_STEP)
        span = slice(row * MINUTES_PER_STEP, last * MINUTES_PER_STEP)
        floors[span] = _limited(_Day(recording, series, autoscaler, budget, row, last), floors, asked, hours)
    return floors


def _asked(day: WalkedDay, minutes: int) -> Counts:
    """(levels of thrift, minutes): the floors of a day; none where the coverage of the day before was too low."""
    if day.floors is None:
        return np.zeros((1 + len(THRIFT_FROM), minutes), np.int16)
    assert isinstance(day.fitted, FittedPolicy), "floors come from a fit"
    replicas = np.stack([day.floors.replicas, *(counts for counts, _ in day.floors.thrifty)])
    for place, (level, excess) in enumerate(zip(day.floors.level[0], day.excess, strict=True)):
        covered = coverage_percent(float(level), None if np.isnan(excess) else float(excess))
        if covered is not None and covered < round(100 * level) - COVERAGE_SLACK_PERCENT:
            replicas[..., place] = 0
    return by_minute(replicas, day.fitted.workload, minutes)


class _Day(NamedTuple):
    """A day of a recording, from one step to another."""

    recording: Recording
    series: Recorded
    autoscaler: AutoscalerModel
    budget: int
    row: int
    last: int


def _limited(day: _Day, floors: Counts, asked: Counts, hours: dict[int, Hour]) -> Counts:
    """(minutes,): the floors of a day as the budget allows them; `hours` counts what they add."""
    first = day.row - min(day.row, _RUN_UP_STEPS)
    load = day.series.load[first * TICKS_PER_STEP : day.last * TICKS_PER_STEP : _TICKS_PER_MINUTE]
    before = floors[first * MINUTES_PER_STEP : day.row * MINUTES_PER_STEP]
    rows = [np.concatenate([before, each]) for each in asked]
    model = replace(day.autoscaler, tick_seconds=60)
    pods = simulate(load, np.stack([np.zeros_like(rows[0]), *rows]), model).pods[:, day.row - first :]
    allowed = np.zeros(asked.shape[1], np.int16)
    for step in range(day.last - day.row):
        now = day.recording.calendar(day.row + step)
        base = float(pods[0, step])
        level = thrift(hours, now, round(base), day.budget)
        extra = 0.0
        if not isinstance(level, Absent):
            minutes = slice(step * MINUTES_PER_STEP, (step + 1) * MINUTES_PER_STEP)
            allowed[minutes] = asked[level, minutes]
            extra = max(float(pods[1 + level, step]) - base, 0.0)
        hour = now // HOUR
        hours[hour] = hours.get(hour, Hour()) + Hour(extra * _STEP_SECONDS, base * _STEP_SECONDS)
        while next(iter(hours)) <= hour - WEEK_HOURS:
            del hours[next(iter(hours))]
    return allowed
