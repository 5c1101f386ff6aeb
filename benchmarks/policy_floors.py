"""The floors of the shipped policy on a recorded series, as the operator would ask for them: budget and coverage included."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cronhpa.core.instant import HOUR, SECOND, Nanoseconds
from cronhpa.core.predictive.budget import WEEK_HOURS, Hour, exhausted
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

    from recorded import Recorded

    from cronhpa.forecasting.evaluation import CandidateScores

_MILLI = 1000
_RUN_UP_STEPS = 24
_TICKS_PER_MINUTE = 4


def target_of(name: str, autoscaler: AutoscalerModel, budget_percent: int) -> ForecastTarget:
    """An object whose pods request, and carry, a load of 1."""
    metric = ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=round(100 * autoscaler.target)))
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
    """(budgets, minutes): the floor in force from the metric delay after the start of each minute; zero where none is."""
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
        floors[row * MINUTES_PER_STEP : last * MINUTES_PER_STEP] = asked
        _spend(recording, series, autoscaler, budget, floors, hours, row, last)
    return floors


def _asked(day: WalkedDay, minutes: int) -> Counts:
    """(minutes,): the floors of a day; none where the coverage of the day before was too low."""
    if day.floors is None:
        return np.zeros(minutes, np.int16)
    assert isinstance(day.fitted, FittedPolicy), "floors come from a fit"
    level = day.floors.level[0]
    replicas = day.floors.replicas.copy()
    for place in range(replicas.shape[1]):
        excess = float(day.excess[place])
        covered = coverage_percent(float(level[place]), None if np.isnan(excess) else excess)
        if covered is not None and covered < round(100 * level[place]) - COVERAGE_SLACK_PERCENT:
            replicas[:, place] = 0
    return by_minute(replicas, day.fitted.workload, minutes)


def _spend(
    recording: Recording,
    series: Recorded,
    autoscaler: AutoscalerModel,
    budget: int,
    floors: Counts,
    hours: dict[int, Hour],
    row: int,
    last: int,
) -> None:
    """Count what a day's floors add, and take away those that come when the budget is exhausted."""
    run_up = min(row, _RUN_UP_STEPS)
    first = row - run_up
    load = series.load[first * 5 * _TICKS_PER_MINUTE : last * 5 * _TICKS_PER_MINUTE : _TICKS_PER_MINUTE]
    asked = floors[first * MINUTES_PER_STEP : last * MINUTES_PER_STEP]
    pods = simulate(load, np.stack([np.zeros_like(asked), asked]), replace(autoscaler, tick_seconds=60)).pods
    for step in range(row, last):
        now = recording.calendar(step)
        base, extra = float(pods[0, step - first]), float(pods[1, step - first] - pods[0, step - first])
        if exhausted(hours, now, round(base), budget) is not None:
            floors[step * MINUTES_PER_STEP : (step + 1) * MINUTES_PER_STEP] = 0
            extra = 0.0
        hour = now // HOUR
        hours[hour] = hours.get(hour, Hour()) + Hour(max(extra, 0.0) * 300, base * 300)
        while next(iter(hours)) <= hour - WEEK_HOURS:
            del hours[next(iter(hours))]
