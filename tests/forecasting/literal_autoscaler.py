"""The object that the columns stand in for: each tick decided by `decide`, on simulated pods."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from core.situations import spec
from cronhpa.core.model.instant import DAY, MINUTE, SECOND
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, PodsMetric, ResourceMetric, Span
from cronhpa.forecasting.columns import Utilization
from cronhpa.simulation.forecast_effect import asking_for
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import run
from cronhpa.simulation.score import Score
from cronhpa.simulation.target import Environment

TICK = 15 * SECOND
BEGIN = 1_790_000_040 * SECOND // DAY * DAY
_MILLI = 1000


class Decided(NamedTuple):
    """counts: (ticks,), after each tick's decision."""

    counts: np.ndarray
    score: Score


def spec_of(model):
    """An object whose pods carry a load of 1."""
    if isinstance(model.goal, Utilization):
        target = MetricTarget("Utilization", average_utilization=model.goal.percent)
    else:
        target = MetricTarget("AverageValue", average_value=round(_MILLI * model.goal.load))
    metric = ResourceMetric("cpu", target) if model.is_cpu else PodsMetric("requests", target)
    # What a pod can carry is a percentage of its target.
    settings = ForecastSettings(pod_capacity_percent=round(100 / model.goal.load))
    return spec(minimum=1, maximum=10_000, metrics=(metric,), forecast=settings)


def decided(demand, floors, model):
    """
    demand: (ticks,), a straight line from one to the next. floors: (minutes,), in force from the metric's delay after
    the begin of each; the first one before that, too.
    """
    of = spec_of(model)
    request = model.goal.request if isinstance(model.goal, Utilization) else 1.0
    environment = Environment(
        capacity=1.0,
        requests={"cpu": round(_MILLI * request)},
        start_up=model.start_up_seconds * SECOND,
        metric_delay=model.delay_seconds * SECOND,
        metric_window=model.window_seconds * SECOND,
    )
    forecasts = asking_for([floors[0], *floors], of, environment, BEGIN + model.delay_seconds * SECOND - MINUTE)
    counts = []
    score = run(
        of,
        Load((BEGIN + tick * TICK, float(value)) for tick, value in enumerate(demand)),
        environment,
        Span(BEGIN, BEGIN + len(demand) * TICK),
        forecasts=forecasts,
        watch=lambda _, decision: counts.append(decision.desired),
    ).score
    return Decided(np.array(counts), score)
