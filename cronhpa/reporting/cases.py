"""
A target whose week is replayed: its replays, what a change of its manifest is worth, and when it is worth telling.

A suggestion is a change of the manifest. A replay parses the changed manifest and decides the week, as
`cronhpa backtest` of that manifest does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.api.parse import parse_spec
from cronhpa.core.model.decision import Rule
from cronhpa.core.model.instant import DAY, MINUTE, Nanoseconds
from cronhpa.core.model.spec import ControllerOptions, Mode, Span, Spec
from cronhpa.core.schedules.calendar_days import without_calendars
from cronhpa.forecasting.backtest import Rerun, load_of_points, name_of, with_one
from cronhpa.forecasting.columns import Floats
from cronhpa.forecasting.daily import Evaluate
from cronhpa.forecasting.evaluation import CandidateScores
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.workload import workload_of
from cronhpa.reporting.budgets import BudgetEstimate, budget_estimates
from cronhpa.reporting.reported_target import ReportedTarget
from cronhpa.reporting.screening import Setting, estimate, minutes_of
from cronhpa.simulation.compare import variants
from cronhpa.simulation.run import Run
from cronhpa.simulation.score import Score

Json = dict[str, Any]

JUDGED: Nanoseconds = 7 * DAY
BUDGETS = (2, 5, 10)
# Less than that in a week is nothing to gain: the noise of a minute here and there.
MINUTES_MIN = 10.0
MINUTE_WORTH = 20
EXTRA_PERCENT_MAX = 10.0
_AVOIDED_SHARE_MIN = 0.2
_SAVED_PERCENT_MIN = 3.0
# A minute here and there is no loss.
_LOST_MINUTES = 1


class SuggestionKind(StrEnum):
    FORECAST = "Forecast"
    SCHEDULE = "Schedule"
    TARGET = "Target"
    BEHAVIOR = "Behavior"
    BOUNDS = "Bounds"


class Suggestion(Struct, frozen=True):
    """A change of a manifest, and the replay of the judged week with it."""

    kind: SuggestionKind
    change: str
    """What is changed, such as `forecast with budgetPercent 5`."""
    why: str
    """What was found in the load before the judged week."""
    spec: Json
    """The spec of the changed manifest."""
    run: Run
    doubts: tuple[str, ...] = ()

    @property
    def score(self) -> Score:
        return self.run.score


class Case(Struct, frozen=True, dict=True):
    """A target whose week was replayed as it is."""

    target: ReportedTarget
    span: Span
    replays: Replays
    today: Score
    rates: Mapping[Rule, float]
    """The share of reconciliations that each rule changed."""
    zones: Sequence[str]
    seed: int

    @cached_property
    def setting(self) -> Setting:
        """As it is."""
        return Setting.of(self.target)

    @cached_property
    def learnt(self) -> Floats:
        """The load of each minute before the span."""
        return learnt_minutes(self.target, self.span)

    @cached_property
    def loads(self) -> Floats:
        """The load of each minute of the span."""
        return minutes_of(self.target.points, self.span)

    def may_save(self, changed: Setting) -> bool:
        """Whether an estimate of the span loses no minutes: a replay of the span would be refused for them."""
        return estimate(self.loads, changed).minutes <= estimate(self.loads, self.setting).minutes + _LOST_MINUTES

    def may_avoid(self, changed: Setting) -> bool:
        """Whether an estimate of the span avoids minutes."""
        return estimate(self.loads, changed).minutes < estimate(self.loads, self.setting).minutes


class Finding(Struct, frozen=True):
    """What a setting of the autoscaler did in the week, where nothing is to be changed."""

    text: str


Found = Iterator[Suggestion | Finding]


class Replays:
    """Replays of one target, which share what days of forecasts were evaluated at."""

    def __init__(self, target: ReportedTarget, span: Span) -> None:
        self._target = target
        load = load_of_points(target.points)
        self._rerun = Rerun(target.series, load, target.points, target.environment, span)
        self._evaluated: dict[tuple[Hashable, Nanoseconds], CandidateScores] = {}

    def run(self, spec: Mapping[str, Any]) -> Run:
        parsed = self.parsed(spec)
        return self._rerun.run(parsed, evaluate=self._evaluate(self._rerun.forecast_target(parsed)))

    def estimates(self, spec: Mapping[str, Any], budgets: Sequence[int]) -> list[BudgetEstimate]:
        """Of a spec with a forecast, before any of these budgets is replayed."""
        asked = self._rerun.forecast_target(self.parsed(spec))
        return budget_estimates(asked, self._rerun.points, self._rerun.span, budgets, self._evaluate(asked))

    def _evaluate(self, asked: ForecastTarget) -> Evaluate:
        """
        Evaluates each day once for all specs that evaluate it alike, whatever bounds, schedules and budgets they have.
        """
        workload, forecast = workload_of(asked), asked.spec.forecast
        same = None if workload is None else replace(workload, budget_percent=0.0)
        basis = (same, None if forecast is None else (forecast.methods, forecast.ignored), asked.left_out)

        def evaluate(begin: Nanoseconds, work: Callable[[], CandidateScores]) -> CandidateScores:
            if (basis, begin) not in self._evaluated:
                self._evaluated[basis, begin] = work()
            return self._evaluated[basis, begin]

        return evaluate

    def parsed(self, spec: Mapping[str, Any]) -> Spec:
        parsed = without_calendars(parse_spec(spec, self._target.spec.namespace, ControllerOptions()))
        chosen = next((one for one in parsed.metrics if name_of(one) == name_of(self._target.metric)), None)
        whole = with_one(parsed, chosen)
        if whole.forecast is not None and whole.forecast.mode is Mode.PREVIEW:
            # It asks for no pod: the week as it is has none of it.
            whole = replace(whole, forecast=None)
        # The last variant is the whole spec, without an override.
        return list(variants(whole).values())[-1]


def worth(before: Score, after: Score) -> float:
    """What a change is worth, in pod-hours: a minute with too few pods costs as much as twenty minutes of all pods."""
    avoided = before.under_provisioned_minutes - after.under_provisioned_minutes
    return value_of(before, avoided, after.pod_hours - before.pod_hours)


def value_of(before: Score, avoided: float, extra_hours: float) -> float:
    """The worth of avoided minutes at added pod-hours."""
    return MINUTE_WORTH * avoided / 60 * before.pod_time / before.span - extra_hours


def least_minutes(today: Score) -> float:
    return MINUTES_MIN * today.span / JUDGED


def avoids(today: Score, score: Score) -> bool:
    """Whether it avoids enough minutes for its pod-hours."""
    avoided = today.under_provisioned_minutes - score.under_provisioned_minutes
    return pays(today, avoided, score.pod_hours - today.pod_hours)


def pays(today: Score, avoided: float, extra_hours: float) -> bool:
    """Whether avoided minutes are enough, and enough for the added pod-hours."""
    return avoided >= max(least_minutes(today) / 2, _AVOIDED_SHARE_MIN * today.under_provisioned_minutes) and (
        extra_hours <= EXTRA_PERCENT_MAX / 100 * today.pod_hours or value_of(today, avoided, extra_hours) > 0
    )


def saves(today: Score, score: Score) -> bool:
    """Whether it saves pod-hours and loses no minutes."""
    return (
        score.pod_hours <= today.pod_hours * (1 - _SAVED_PERCENT_MIN / 100)
        and score.under_provisioned_minutes <= today.under_provisioned_minutes + _LOST_MINUTES
    )


def learnt_minutes(target: ReportedTarget, span: Span) -> Floats:
    begin = target.points[0][0] // MINUTE * MINUTE
    return minutes_of(target.points, Span(begin, span.begin))
