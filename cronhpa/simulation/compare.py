"""One load, run several times: what schedules and a forecast are worth, against metrics alone."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.forecast import Forecast, TrackRecord
from cronhpa.core.instant import DAY, MINUTE, Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.core.predictive.floor import forecast_metric, planned_load
from cronhpa.core.spec import Mode, Span, Spec
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import Forecasts, run
from cronhpa.simulation.score import Score
from cronhpa.simulation.world import Conditions

SPAN_CONFIRMED: Nanoseconds = 7 * DAY


class Variant(StrEnum):
    """How much of an object acts."""

    REACTIVE = "reactive"
    SCHEDULED = "scheduled"
    FORECAST = "forecast"


def variants(spec: Spec) -> dict[Variant, Spec]:
    """
    The object with its metrics alone, with its schedules, and with its forecast: those of them that it has.

    A preview acts here, as what it would do is the question. An override is left out: it was for an incident.
    """
    full = replace(spec, mode=Mode.ACTIVE, override=None)
    found: dict[Variant, Spec] = {}
    if spec.metrics:
        found[Variant.REACTIVE] = replace(full, schedules=(), forecast=None)
    if spec.schedules:
        found[Variant.SCHEDULED] = replace(full, forecast=None)
    if spec.metrics and spec.forecast is not None:
        found[Variant.FORECAST] = replace(full, forecast=replace(spec.forecast, mode=Mode.ACTIVE))
    return found


def asking_for(floors: Sequence[int], spec: Spec, conditions: Conditions, begin: Nanoseconds) -> Forecasts:
    """
    Forecasts that ask for these counts, as a shadow run in columns states them: one a minute, in force from `begin` on.

    Before and behind them there is none. Raises ValueError for a spec whose metrics tell no load of one pod.
    """
    name = forecast_metric(spec)
    percent = spec.forecast.pod_capacity_percent if spec.forecast is not None else None
    planned = next(
        (
            planned_load(metric, conditions.requests.get(name), percent)
            for metric in spec.metrics
            if name is not None and getattr(metric, "name", None) == name
        ),
        None,
    )
    if name is None or not planned:
        raise ValueError("a floor in pods needs a Utilization or AverageValue target, and for Utilization a request")

    def forecasts(now: Nanoseconds) -> Forecast | Absent:
        minute = (now - begin) // MINUTE
        if not 0 <= minute < len(floors):
            return Absent("Learning", "no floor is stated for this minute")
        # Half a pod below the count: rounded up it is the count, whatever the last digit says.
        load = max(floors[minute] - 0.5, 0.0) * planned
        return Forecast(name, now, now, DAY, (load, load), load, "floors", 50, now)

    return forecasts


class Confirmation(Struct, frozen=True):
    """What a forecast would have changed, by the decisions themselves. without: metrics and schedules alone."""

    without: Score
    with_forecast: Score

    @property
    def of_minutes(self) -> float:
        """Under-provisioned minutes without the forecast."""
        return self.without.under_provisioned_minutes

    @property
    def minutes_avoided(self) -> float:
        """How many of them it takes away; below zero where it adds some."""
        return self.of_minutes - self.with_forecast.under_provisioned_minutes

    @property
    def extra_pod_hours_percent(self) -> float:
        """What it adds to the pod-hours; 0 where there were none."""
        before = self.without.pod_hours
        return 100 * (self.with_forecast.pod_hours - before) / before if before else 0.0

    @property
    def track_record(self) -> TrackRecord:
        """The same, as the status tells it."""
        return TrackRecord(
            avoided=self.minutes_avoided,
            of=self.of_minutes,
            extra_percent=self.extra_pod_hours_percent,
            days=round(self.without.span / DAY),
        )

    def pays(self, budget_percent: float) -> bool:
        """Whether it takes minutes away, at pod-hours within the budget."""
        return self.minutes_avoided > 0 and self.extra_pod_hours_percent <= budget_percent


def confirm(
    spec: Spec,
    load: Load,
    conditions: Conditions,
    forecasts: Forecasts,
    now: Nanoseconds,
    *,
    span: Nanoseconds = SPAN_CONFIRMED,
    sync_period: Nanoseconds | None = None,
) -> Confirmation:
    """
    The forecasts against metrics and schedules alone, over the last seven days before `now`, each turn by `decide`.

    load: in the unit of the metric that is forecast; fewer days where it begins later. forecasts: what would have been
    the newest one at each instant. sync_period: between turns, None: the object's own; a longer one costs less and
    sees less (of 20 pods a week costs 6.7 s of CPU at 15 s and 1.4 s at 60 s, a day of the latter 0.2 s).
    Raises ValueError for a spec without a forecast, and for a load that begins at `now` or later.
    """
    if spec.forecast is None:
        raise ValueError("a spec without a forecast: there is nothing to confirm")
    begin = max(now - span, load.begin)
    if begin >= now:
        raise ValueError("a load that begins at the end of what is asked about: an earlier one is needed")
    period = spec.tuning.sync_period if sync_period is None else sync_period
    full = replace(variants(spec)[Variant.FORECAST], tuning=replace(spec.tuning, sync_period=period))
    asked = Span(begin, now)
    return Confirmation(
        without=run(replace(full, forecast=None), load, conditions, asked).score,
        with_forecast=run(full, load, conditions, asked, forecasts=forecasts).score,
    )
