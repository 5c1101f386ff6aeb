"""
A policy day by day over a recording: fitted at the begin of each day, what it provisions at every origin of that day.

`backtest` and the benchmarks share it. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import MINUTE, Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.forecasting import policy
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Floats
from cronhpa.forecasting.coverage import rolling_excess
from cronhpa.forecasting.evaluation import CandidateScores
from cronhpa.forecasting.forecast import forecast_of
from cronhpa.forecasting.messages import NOTHING_TO_GAIN, ForecastTarget
from cronhpa.forecasting.named_methods import methods_of, noted, unusable
from cronhpa.forecasting.policy import Attempts, FittedPolicy
from cronhpa.forecasting.provisioning import Provisioned
from cronhpa.forecasting.recording import Recording
from cronhpa.forecasting.workload import WorkloadModel, workload_of
from cronhpa.history.database.series import STEP
from cronhpa_models.catalog import ChosenMethod, FoundMethods

# Days before the first one on which the policy is fitted, too, as by an operator that has run for a while: minutes are
# kept for nine days, so a day can be evaluated by its single minutes only while it is recent.
WARM_UP_DAYS = 14

Evaluate = Callable[[Nanoseconds, Callable[[], CandidateScores]], CandidateScores]


@dataclass(frozen=True)
class WalkedDay:
    """What a policy provisions in one day."""

    metric: str
    begin: Nanoseconds
    """Begin of the day."""
    fitted: FittedPolicy | Absent
    """The policy, or why there is none."""
    provisioned: Provisioned | None
    """At every origin of the day, the first one at the day's begin; None without a choice."""
    excess: Floats
    """(origins,), see `rolling_excess`."""
    by_minute: bool
    """Whether origins are minutes."""
    unusable: str = ""
    """See Forecast."""

    def answers(self, delay: Nanoseconds, end: Nanoseconds) -> Iterator[tuple[Nanoseconds, Forecast | Absent]]:
        """The forecast of each origin before `end`, or why there is none, issued `delay` after the origin."""
        every = MINUTE if self.by_minute else STEP
        for place in range(len(self.excess)):
            origin = self.begin + place * every
            if origin >= end:
                return
            yield origin + delay, self._answer(place, origin + delay)

    def _answer(self, place: int, issued_at: Nanoseconds) -> Forecast | Absent:
        if isinstance(self.fitted, Absent):
            return self.fitted
        if self.provisioned is None:
            return noted(Absent(NOTHING_TO_GAIN, self.fitted.why_nothing()), self.unusable)
        excess = float(self.excess[place])
        forecast = forecast_of(
            self.metric,
            self.fitted,
            self.provisioned,
            place,
            issued_at=issued_at,
            trained_until=self.begin,
            by_minute=self.by_minute,
            excess=None if np.isnan(excess) else excess,
            unusable=self.unusable,
        )
        return forecast or Absent("Stale", f"{self.metric} was not measured")


def _evaluated(_begin: Nanoseconds, work: Callable[[], CandidateScores]) -> CandidateScores:
    return work()


class DailyWalk:
    """Call `day` for each day, in order: the policy of a day depends on the choice of the day before."""

    def __init__(
        self,
        recording: Recording,
        target: ForecastTarget,
        *,
        workload: WorkloadModel | None = None,
        catalog: Sequence[ChosenMethod] | None = None,
        evaluate: Evaluate | None = None,
    ) -> None:
        """
        workload: None: that of the target's spec. catalog: the methods to choose from; None: those that the spec names.
        evaluate: see `policy.fit`; None: every day is evaluated here.
        """
        self._recording = recording
        self._target = target
        self._workload = workload if workload is not None else workload_of(target)
        self._methods = methods_of(target.spec) if catalog is None else FoundMethods(tuple(catalog), {})
        self._evaluate = evaluate or _evaluated
        self._fitted: FittedPolicy | None = None
        self._is_warm = False
        # The issued quantile of each step, and its level.
        self._issued = np.full(len(recording.steps) + 1, np.nan)
        self._levels = np.full(len(recording.steps) + 1, np.nan)

    def day(self, row: int, spent_percent: float | None = None) -> WalkedDay:
        """The day from the step `row` on. spent_percent: extra pod-hours of the week before it; None: not counted."""
        begin = self._recording.calendar(row)
        if not self._is_warm:
            self._is_warm = True
            for back in range(WARM_UP_DAYS, 0, -1):
                self._fit(row - back * self._recording.steps_per_day, None)
        fitted = self._fit(row, spent_percent)
        metric, by_minute = self._target.series.metric, self._recording.minutes is not None
        until = min(row + self._recording.steps_per_day, len(self._recording.steps))
        origins = np.arange((until - row) * (MINUTES_PER_STEP if by_minute else 1))
        nothing = np.full(len(origins), np.nan)
        if isinstance(fitted, Absent):
            return WalkedDay(metric, begin, fitted, None, nothing, by_minute)
        recent = self._recording.since(row, until)
        attempt = Attempts()
        models = policy.models_of(fitted, self._methods.chosen, attempt)
        provisioned = policy.provision(fitted, models, recent, origins, attempt)
        excess = nothing if provisioned is None else self._excess(row, provisioned)
        lost = unusable(self._methods, self._methods.unavailable | fitted.failures | attempt.failures)
        return WalkedDay(metric, begin, fitted, provisioned, excess, by_minute, lost)

    def _fit(self, row: int, spent_percent: float | None) -> FittedPolicy | Absent:
        if row <= 0:
            return Absent("Learning", "nothing was recorded by then")
        if self._workload is None:
            raise ValueError("the spec does not tell the load of one pod: there is nothing to walk for")
        answer = policy.fit(
            self._recording.history(row),
            self._target,
            self._workload,
            self._methods.chosen,
            self._recording.calendar(row),
            previous=self._fitted,
            spent_percent=spent_percent,
            evaluate=self._evaluate,
        )
        self._fitted = answer if isinstance(answer, FittedPolicy) else self._fitted
        return answer

    def _excess(self, row: int, provisioned: Provisioned) -> Floats:
        """(origins,): the excess coverage of the forecasts of the day before each origin."""
        every = MINUTES_PER_STEP if self._recording.minutes is not None else 1
        # The last forecast that is made in a step is for the next step.
        load, level = provisioned.load[0, every - 1 :: every], provisioned.level[0, every - 1 :: every]
        if every == 1:
            load, level = provisioned.load[-1], provisioned.level[-1]
        rows = slice(row + 1, row + 1 + len(load))
        self._issued[rows], self._levels[rows] = load, level
        day = self._recording.steps_per_day
        first = max(row - day, 0)
        last = row + len(load)
        excess = rolling_excess(
            self._recording.steps[first:last], self._issued[first:last], self._levels[first:last], day
        )
        return np.repeat(excess[row - first : last - first], every)
