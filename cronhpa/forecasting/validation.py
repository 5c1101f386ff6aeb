"""
Validation of a choice: its effect on a past day, decided by `decide` with the object's own spec.

The vectorized autoscaler that made the choice has the upstream's default behavior only. It does not know the object's
own bounds, policies, windows and schedules. If none of these matter on that day, both decide alike and the vectorized
autoscaler's result is used. Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from cronhpa.core.forecasts.floor import forecast_source
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.memory import START_UP_UNKNOWN
from cronhpa.core.model.spec import ControllerOptions, PodsMetric, ResourceMetric, Span, Spec
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Counts
from cronhpa.forecasting.evaluation import RUN_UP_STEPS, CandidateScores, PastDay
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.workload import WorkloadModel
from cronhpa.history.database.series import STEP
from cronhpa.simulation.forecast_effect import ForecastEffect, asking_for, measure_effect
from cronhpa.simulation.load import Load, Shape
from cronhpa.simulation.target import Environment


def validate(
    target: ForecastTarget, workload: WorkloadModel, day: PastDay, begin: Nanoseconds, floors: Counts
) -> ForecastEffect | None:
    """
    The effect of floors on the day from `begin` on, with a reconciliation every minute; None if nothing of the load is
    known.

    floors: (minutes,), of run-up and day.
    """
    metric = forecast_source(target.spec)
    points = _points(day, begin)
    if metric is None or not points:
        return None
    environment = Environment(
        capacity=workload.capacity,
        requests={} if target.request is None else {target.series.metric: target.request},
        start_up=START_UP_UNKNOWN if target.start_up is None else target.start_up,
        metric_delay=workload.delay_seconds * SECOND,
    )
    # The loads of other metrics are not known here.
    spec = replace(target.spec, metrics=(metric,))
    # A floor is known at the end of its minute, or step, and in force from the next reconciliation on.
    known_after = 1 if day.minutes is not None else MINUTES_PER_STEP + 1
    provisioned = floors[RUN_UP_STEPS * MINUTES_PER_STEP - known_after :]
    forecasts = asking_for(provisioned.tolist(), spec, environment, begin)
    length = (len(day.load.steps) - RUN_UP_STEPS) * MINUTES_PER_STEP * MINUTE
    load = Load(points, shape=Shape.LINEAR if day.are_points else Shape.STEPS)
    return measure_effect(spec, load, environment, forecasts, Span(begin, begin + length), sync_period=MINUTE)


def effect_by_columns(target: ForecastTarget, day: PastDay, scores: CandidateScores, row: int) -> ForecastEffect | None:
    """
    The effect of a candidate by the vectorized autoscaler; None if `decide` with the object's spec may differ.

    scores: of this day, one row for each candidate, plain reactive scaling first.
    """
    both = [0, row]
    if not _decides_alike(target.spec, scores.lowest[both].min(), scores.highest[both].max()):
        return None
    (minutes, left), (pods, more) = (values[both, 0].tolist() for values in (scores.minutes, scores.pods))
    hours = STEP / HOUR
    span = (len(day.load.steps) - RUN_UP_STEPS) * STEP
    return ForecastEffect(span, minutes, minutes - left, pods * hours, (more - pods) * hours)


def _decides_alike(spec: Spec, lowest: float, highest: float) -> bool:
    """Whether a spec decides as the vectorized autoscaler while replicas are between `lowest` and `highest`."""
    metric, settings = forecast_source(spec), spec.forecast
    if spec.schedules or spec.behavior is not None or settings is None:
        return False
    most = spec.max_replicas if settings.max_floor is None else min(spec.max_replicas, settings.max_floor)
    return (
        isinstance(metric, ResourceMetric | PodsMetric)
        and replace(spec.options, sync_period=ControllerOptions().sync_period) == ControllerOptions()
        and spec.min_replicas <= lowest
        and highest <= most
    )


def _points(day: PastDay, begin: Nanoseconds) -> list[tuple[Nanoseconds, float]]:
    """The load of run-up and day: constant until the next value, or linear between points."""
    first = begin - RUN_UP_STEPS * MINUTES_PER_STEP * MINUTE
    if day.minutes is not None:
        values, apart = day.minutes, MINUTE
    elif day.are_points:
        first, values, apart = first + MINUTES_PER_STEP * MINUTE, day.load.steps, MINUTES_PER_STEP * MINUTE
    else:
        # A rise within a step is assumed in its first minute, as in the vectorized autoscaler.
        first, values, apart = first + MINUTE, day.load.steps, MINUTES_PER_STEP * MINUTE
    return [(first + i * apart, value) for i, value in enumerate(values.tolist()) if not math.isnan(value)]
