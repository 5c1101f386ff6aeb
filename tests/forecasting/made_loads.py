"""Made loads, and the pods and methods that tests of the policy share."""

import numpy as np

from cronhpa.core.model.instant import SECOND, parse_instant
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, ResourceMetric, Spec, TargetRef
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.workload import WorkloadModel
from cronhpa.history.database.series import Series

STEPS_PER_DAY = 288
DAY_MINUTES = 1440
MIDNIGHT = parse_instant("2026-03-10T00:00:00Z")
# Pods are scaled for 0.6, planned to carry 0.9, and short above 1: of WEB too.
PODS = WorkloadModel(target=0.6, carried=0.9, capacity=1.0, start_up_seconds=120, budget_percent=5)
SPEC = Spec(
    TargetRef("apps/v1", "Deployment", "web"),
    1,
    200,
    namespace="shop",
    metrics=(ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=60)),),
    forecast=ForecastSettings(),
)
WEB = ForecastTarget(Series("shop", "web", "cpu"), SPEC, start_up=120 * SECOND, request=1000)


def daily_jump(days=6):
    """By the step: 6 until 06:00, 30 after it: 10 pods, then 50 at a target of 0.6."""
    return np.where(np.arange(days * STEPS_PER_DAY) % STEPS_PER_DAY < 72, 6.0, 30.0)


def half_past_nine(days):
    """By the minute: 6, and for seven minutes from 9:30 on of every day 30."""
    clock = np.arange(days * DAY_MINUTES) % DAY_MINUTES
    return np.where((clock >= 570) & (clock < 577), 30.0, 6.0)


def every_four_hours(days, seed=7):
    """By the minute: 12 in every fourth hour, else 6, with noise of a few percent."""
    minute = np.arange(days * DAY_MINUTES)
    noise = np.random.default_rng(seed).gamma(400.0, 1 / 400, len(minute))
    return np.where(minute // 60 % 4 == 1, 12.0, 6.0) * noise


def step_maxima(minutes):
    """By the step, NaN where no minute is known."""
    return np.fmax.reduce(minutes.reshape(-1, 5), axis=1)
