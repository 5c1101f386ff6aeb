"""A store with the load of an object, and what a worker answers about it."""

from __future__ import annotations

import math

from cronhpa.core.model.instant import DAY, HOUR, parse_instant
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, ResourceMetric, Spec, TargetRef
from cronhpa.forecasting import worker
from cronhpa.forecasting.messages import ForecastTarget, WorkerRequest
from cronhpa.history.database.series import STEP, Series

MIDNIGHT = parse_instant("2026-03-10T00:00:00Z")
WEB = Series("shop", "web", "cpu")
API = Series("shop", "api", "cpu")


def jump(at):
    """One core until 06:00, ten after; up to 10 % more from day to day and step to step, repeatable."""
    clock = at % DAY
    return (1.0 if clock < 6 * HOUR else 10.0) * (1 + 0.05 * (1 + math.sin(at // STEP * 1.7)))


def remember(store, since, until, series=WEB, load=jump):
    store.loads.backfill(series, [(at, load(at)) for at in range(since, until, STEP)])


def subject(series, *ignored, budget_percent=5):
    """A pod is scaled for one core and carries 1.66: it is planned to carry 1.494."""
    target = TargetRef("apps/v1", "Deployment", series.name)
    metrics = (ResourceMetric("cpu", MetricTarget("AverageValue", average_value=1000)),)
    settings = ForecastSettings(pod_capacity_percent=166, ignored=ignored, budget_percent=budget_percent)
    return ForecastTarget(series, Spec(target, 1, 99, metrics=metrics, forecast=settings))


def fit(store, now, *subjects):
    """What is fitted, or why nothing is."""
    fitted = worker.fit(WorkerRequest(str(store.address), list(subjects or (subject(WEB),)), now))
    assert fitted.fault is None
    return dict((*fitted.fits, *fitted.absent))


def forecast(store, now, *subjects):
    made = worker.forecast(WorkerRequest(str(store.address), list(subjects or (subject(WEB),)), now))
    assert made.fault is None
    return dict(made.answers)


def ask(store, now, *subjects):
    """Fitted and forecast at one instant."""
    fitted = fit(store, now, *subjects)
    return forecast(store, now, *subjects) | {
        series: value for series, value in fitted.items() if isinstance(value, Absent)
    }


def in_words(record):
    return f"{record.avoided:.0f} of {record.of:.0f} in {record.days} d"
