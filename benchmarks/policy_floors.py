"""The shipped policy on a recorded series by columns, with its budget and its coverage check."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from recorded import TICKS_PER_STEP, Recorded

from cronhpa.core.forecasts.budget import BUDGET_LEVELS, WEEK_HOURS, PodHour, budget_level, spent_percent
from cronhpa.core.forecasts.floor import COVERAGE_SLACK_PERCENT
from cronhpa.core.metrics.observe import START_UP_GRAIN
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.memory import lead_time
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import (
    ControllerOptions,
    ForecastSettings,
    MetricTarget,
    ResourceMetric,
    Span,
    Spec,
    TargetRef,
)
from cronhpa.forecasting.columns import AutoscalerModel, Autoscalers, Counts, mean_loads
from cronhpa.forecasting.coverage import coverage_percent
from cronhpa.forecasting.daily import DailyWalk, Evaluate, WalkedDay
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.outcomes import Outcomes, outcomes_of
from cronhpa.forecasting.policy import FittedPolicy
from cronhpa.forecasting.recording import Recording
from cronhpa.history.database.series import STEP, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cronhpa.forecasting.evaluation import CandidateScores

_MILLI = 1000
_TICKS_PER_MINUTE = 4
_TICK_SECONDS = 15
_FLOOR_MAX = 14_000


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


class Replayed(NamedTuple):
    """
    The shipped policy on the test of a series, by columns.

    floors: (budgets, ticks), in force at each tick. outcomes: of plain reactive scaling, then of each budget.
    """

    floors: Counts
    outcomes: Outcomes


class Ledger(Protocol):
    """What a forecast has added to the pods, and how dear a pod is therefore."""

    def count(self, replicas: int, plain: int) -> None:
        """Pods of a tick, with the forecast and without."""

    def level(self, now: Nanoseconds, plain: int) -> int | None:
        """The budget level for the next minute; None: the forecast abstains. now: begin of its step."""

    def percent(self, now: Nanoseconds) -> float | None:
        """Extra pod-hours of the last seven days; None where nothing was counted."""


def replayed(
    series: Recorded,
    autoscaler: AutoscalerModel,
    budgets: Sequence[int],
    ledgers: Sequence[Ledger] | None = None,
    evaluate: Evaluate | None = None,
    left_out: Sequence[Span] = (),
) -> Replayed:
    """
    Tick after tick, as a budget allows at each minute what it has left: the rule of BudgetTracker.limit.

    ledgers: one for each budget; None: each counts the pods beyond plain reactive scaling. evaluate: for who looks at
    the evaluated days afterwards. left_out: spans that are not learnt.
    """
    recording = Recording(
        series.begin.value, series.steps, series.minutes, series.steps_per_day, left_out=tuple(left_out)
    )
    evaluate = evaluate or evaluated_once()
    walks = [DailyWalk(recording, target_of(series.name, autoscaler, budget), evaluate=evaluate) for budget in budgets]
    load = series.load[series.first_step * TICKS_PER_STEP :]
    autoscalers = Autoscalers(mean_loads(load, autoscaler)[:, None], 1 + len(budgets), autoscaler)
    spent = [PlainLedger(budget) for budget in budgets] if ledgers is None else ledgers
    delay = autoscaler.ticks(autoscaler.delay_seconds)
    # A forecast of the first minute is known after the delay.
    asked = np.zeros((1 + len(BUDGET_LEVELS), len(budgets), len(load) + delay), np.int16)
    has_forecast = np.zeros((len(budgets), len(load) + delay), np.bool_)
    floors = np.zeros((len(budgets), len(load)), np.int16)
    counts = np.broadcast_to(autoscalers.first, (1, 1 + len(budgets)))
    floor = np.ones((1, 1 + len(budgets)), np.int16)
    levels: list[int | None] = [0] * len(budgets)
    for tick in range(len(load)):
        row = series.first_step + tick // TICKS_PER_STEP
        if tick % (series.steps_per_day * TICKS_PER_STEP) == 0:
            for place, (walk, spending) in enumerate(zip(walks, spent, strict=True)):
                ahead, is_made = _asked(walk.day(row, spending.percent(recording.calendar(row))), autoscaler)
                end = min(tick + delay + ahead.shape[1], asked.shape[2])
                asked[:, place, tick + delay : end] = ahead[:, : end - tick - delay]
                has_forecast[place, tick + delay : end] = is_made[: end - tick - delay]
        # The operator asks for the level when a forecast comes, each minute from the delay on.
        if (tick - delay) % _TICKS_PER_MINUTE == 0:
            now = recording.calendar(row)
            levels = [spending.level(now, int(counts[0, 0])) for spending in spent]
        for place, level in enumerate(levels):
            floors[place, tick] = 0 if level is None else asked[level, place, tick]
        np.maximum(floors[:, tick], 1, out=floor[0, 1:])
        # As the operator, which counts from one reconcile with a forecast to the next.
        is_counted = has_forecast[:, max(tick - 1, 0) : tick + 1].all(axis=1).tolist()
        for spending, count, is_one in zip(spent, counts[0, 1:].tolist(), is_counted, strict=True):
            if is_one:
                spending.count(count, int(counts[0, 0]))
        counts = autoscalers.decide(tick, floor)
    return Replayed(floors, outcomes_of(load, autoscalers.replicas[:, 0], autoscaler))


class PlainLedger:
    """The pods beyond those of plain reactive scaling, by hours of the calendar."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._hours: dict[int, PodHour] = {}
        self._extra = self._base = 0

    def count(self, replicas: int, plain: int) -> None:
        self._extra += replicas - plain
        self._base += plain

    def level(self, now: Nanoseconds, plain: int) -> int | None:
        hour = now // HOUR
        if self._base:
            added = PodHour(float(self._extra * _TICK_SECONDS), float(self._base * _TICK_SECONDS))
            self._hours[hour] = self._hours.get(hour, PodHour()) + added
            self._extra = self._base = 0
        while self._hours and next(iter(self._hours)) <= hour - WEEK_HOURS:
            del self._hours[next(iter(self._hours))]
        level = budget_level(self._hours, now, plain, self._budget)
        return None if isinstance(level, Absent) else level

    def percent(self, now: Nanoseconds) -> float | None:
        return spent_percent(self._hours, now)


def evaluated_once() -> Evaluate:
    """The scores of a day do not depend on the budget: the first policy that asks computes them."""
    scores: dict[Nanoseconds, CandidateScores] = {}

    def evaluate(begin: Nanoseconds, work: Callable[[], CandidateScores]) -> CandidateScores:
        if begin not in scores:
            scores[begin] = work()
        return scores[begin]

    return evaluate


def _asked(day: WalkedDay, autoscaler: AutoscalerModel) -> tuple[Counts, NDArray[np.bool_]]:
    """
    (budget levels, ticks): the floors of a day, each forecast from the delay after its origin on; none where nothing
    can be said or the coverage of the day before was too low. And (ticks,): whether there is a forecast.
    """
    every = MINUTE if day.by_minute else STEP
    per_origin = every // SECOND // autoscaler.tick_seconds
    if day.provisioned is None:
        ticks = len(day.excess) * per_origin
        return np.zeros((1 + len(BUDGET_LEVELS), ticks), np.int16), np.zeros(ticks, np.bool_)
    assert isinstance(day.fitted, FittedPolicy), "floors come from a fit"
    replicas = np.stack([day.provisioned.replicas, *(counts for counts, _ in day.provisioned.by_budget_level)])
    believed = np.ceil(day.provisioned.ceiling / day.fitted.workload.carried - 1e-9)
    replicas = np.minimum(replicas, np.minimum(believed, _FLOOR_MAX).astype(np.int16))
    is_made = ~np.isnan(day.provisioned.load[[0, -1]]).any(axis=0)
    replicas[..., ~is_made] = 0
    for place, (level, excess) in enumerate(zip(day.provisioned.level[0], day.excess, strict=True)):
        covered = coverage_percent(float(level), None if np.isnan(excess) else float(excess))
        if covered is not None and covered < round(100 * level) - COVERAGE_SLACK_PERCENT:
            replicas[..., place] = 0
    # The steps that the lead time touches, counted from the one in which the forecast was issued: as `issue` lays the
    # loads of the windows over them.
    origin = np.arange(len(day.excess) * per_origin) // per_origin
    now = autoscaler.delay_seconds + np.arange(len(origin)) * autoscaler.tick_seconds
    issued = autoscaler.delay_seconds + origin * (every // SECOND)
    begin = issued - issued % (STEP // SECOND)
    lead = lead_time(_learned(autoscaler.start_up_seconds * SECOND), ControllerOptions()) // SECOND
    first, last = ((at - begin) // (STEP // SECOND) for at in (now, now + lead))
    near_until = 1 if day.by_minute else 0
    near = np.where(first <= near_until, replicas[:, 0, origin], 0)
    far = np.where(last > near_until, replicas[:, -1, origin], 0)
    return np.maximum(near, far), is_made[origin]


def _learned(start_up: Nanoseconds) -> Nanoseconds:
    """The start-up time that is learned of pods that take so long."""
    return -(-(start_up + SECOND) // START_UP_GRAIN) * START_UP_GRAIN
