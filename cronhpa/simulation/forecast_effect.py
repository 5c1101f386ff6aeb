"""
The effect of a forecast, by the decisions themselves.

The vectorized autoscaler (forecasting/columns) knows only the upstream's default behavior. Here each reconciliation
calls `decide`, with the object's own bounds, policies, stabilization windows and schedules. One trajectory runs without
the forecast. A second one is forked whenever the forecast asks for more, and dropped when both are equal again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.decide import decide
from cronhpa.core.forecasts.floor import forecast_source, planned_load, predict
from cronhpa.core.model.decision import Decision, Proposal
from cronhpa.core.model.forecast import Forecast, TrackRecord
from cronhpa.core.model.instant import DAY, MINUTE, Nanoseconds
from cronhpa.core.model.observation import Absent, Observation
from cronhpa.core.model.spec import Span, Spec
from cronhpa.core.schedules.bounds import resolve
from cronhpa.simulation.compare import Variant, variants
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import Forecasts, Trajectory, next_reconciliation
from cronhpa.simulation.target import Environment


def asking_for(floors: Sequence[int], spec: Spec, environment: Environment, begin: Nanoseconds) -> Forecasts:
    """
    Forecasts that ask for these counts: one a minute, the first from `begin` on; none before and after.

    Raises ValueError if no metric of the spec states the load of one pod.
    """
    source = forecast_source(spec)
    percent = spec.forecast.pod_capacity_percent if spec.forecast is not None else None
    planned = None if source is None else planned_load(source, environment.requests.get(source.name), percent)
    if source is None or not planned:
        raise ValueError("a floor in pods needs a Utilization or AverageValue target, and for Utilization a request")
    name = source.name

    def forecasts(now: Nanoseconds) -> Forecast | Absent:
        minute = (now - begin) // MINUTE
        if not 0 <= minute < len(floors):
            return Absent("Learning", "no floor is stated for this minute")
        # Half a pod below the count rounds up to the count, whatever the last digit is.
        load = max(floors[minute] - 0.5, 0.0) * planned
        return Forecast(name, now, now, DAY, (load, load), load, "floors", 50, now)

    return forecasts


class ForecastEffect(Struct, frozen=True):
    """The effect of a forecast over a span, against metrics and schedules alone; effects of several spans add up."""

    span: Nanoseconds
    minutes: float
    """Under-provisioned minutes without the forecast."""
    avoided: float
    """`minutes` minus those with the forecast; may be negative."""
    pod_hours: float
    """Pod-hours without the forecast."""
    extra: float
    """Pod-hours that the forecast adds."""

    def __add__(self, other: ForecastEffect) -> ForecastEffect:
        return ForecastEffect(
            self.span + other.span,
            self.minutes + other.minutes,
            self.avoided + other.avoided,
            self.pod_hours + other.pod_hours,
            self.extra + other.extra,
        )

    @property
    def extra_percent(self) -> float:
        """extra / pod_hours, percent; 0 without pod-hours."""
        return 100 * self.extra / self.pod_hours if self.pod_hours else 0.0

    @property
    def track_record(self) -> TrackRecord:
        """The effect as the status states it."""
        return TrackRecord(self.avoided, self.minutes, self.extra_percent, round(self.span / DAY))

    def pays(self, budget_percent: float) -> bool:
        """Whether it avoids minutes, at pod-hours within the budget."""
        return self.avoided > 0 and self.extra_percent <= budget_percent


def measure_effect(
    spec: Spec,
    load: Load,
    environment: Environment,
    forecasts: Forecasts,
    span: Span,
    *,
    sync_period: Nanoseconds | None = None,
) -> ForecastEffect:
    """
    The effect of forecasts over a span, against metrics and schedules alone.

    load: in the unit of the metric that is forecast. forecasts: the newest forecast at an instant; called once a
    reconciliation, in order. sync_period: between reconciliations; None: the object's own. A longer one costs less and
    is less exact. Raises ValueError for a spec without metrics or a forecast.
    """
    full = variants(spec).get(Variant.FORECAST)
    if full is None:
        raise ValueError("the spec has no metrics or no forecast: there is no effect to measure")
    period = spec.options.sync_period if sync_period is None else sync_period
    full = replace(full, options=replace(spec.options, sync_period=period))
    bare = replace(full, forecast=None)
    without = Trajectory.of(full, load, environment, span.begin, None)
    apart: Trajectory | None = None
    avoided = extra = 0.0
    now = span.begin
    while now < span.end:
        observation = without.observe(full)
        alone = decide(bare, observation, None, without.memory, now)
        forecast = forecasts(now)
        if apart is None and _asks_for_more(full, observation, forecast, without, alone):
            apart = without.fork()
        without.act(bare, observation, alone)
        if apart is not None:
            observed = apart.observe(full)
            apart.act(full, observed, decide(full, observed, forecast, apart.memory, now))
        now = min(next_reconciliation(full, alone, span.begin, now), span.end)
        without.target.advance(now, without.accumulator)
        if apart is not None:
            apart.target.advance(now, apart.accumulator)
            if now == span.end or _are_alike(apart, without, full):
                avoided += without.accumulator.under_provisioned_minutes - apart.accumulator.under_provisioned_minutes
                extra += apart.accumulator.pod_hours - without.accumulator.pod_hours
                apart = None
    accumulator = without.accumulator
    return ForecastEffect(
        span.end - span.begin, accumulator.under_provisioned_minutes, avoided, accumulator.pod_hours, extra
    )


def _asks_for_more(
    spec: Spec, observation: Observation, forecast: Forecast | Absent | None, without: Trajectory, alone: Decision
) -> bool:
    """Whether a forecast asks for more than the recommendation without it."""
    if not isinstance(forecast, Forecast) or not any(forecast.load):
        return False
    memory = without.memory
    start_up, crowd = memory.lead_start_up_after(observation, spec, alone.at), memory.crowd_after(observation)
    headroom = resolve(spec, alone.at, start_up, memory.leads, crowd).headroom_percent
    predicted = predict(spec, observation, forecast, memory, headroom, alone.at)
    return isinstance(predicted, Proposal) and predicted.replicas > (
        0 if alone.recommended is None else alone.recommended.replicas
    )


def _are_alike(one: Trajectory, other: Trajectory, spec: Spec) -> bool:
    """Whether both will go on equally: as many pods, all long Ready, and equal memories as far as they can matter."""
    if one.target.replicas != other.target.replicas or not one.target.is_settled or not other.target.is_settled:
        return False
    now, behavior, options = one.target.now, spec.behavior, spec.options
    return one.memory.pruned(behavior, options, now) == other.memory.pruned(behavior, options, now)
