"""A backtest of an object: the metric of a recorded load, and a run under that load with the object's forecasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cronhpa.core.forecasts.budget_tracker import BudgetTracker
from cronhpa.core.forecasts.floor import forecast_metric, forecast_source, pod_capacity, target_load
from cronhpa.core.forecasts.left_out import left_out
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.spec import Metric, Span, Spec
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.walk_forward import WalkForward
from cronhpa.history.database.series import Series
from cronhpa.simulation.load import GAP_MAX, Load
from cronhpa.simulation.run import Run, no_forecasts, run

if TYPE_CHECKING:
    from cronhpa.forecasting.daily import Evaluate
    from cronhpa.simulation.target import Environment


POINTS_MIN = 2
_STEPS_PER_GAP = 3


class NotRunnableError(Exception):
    """Why an object cannot be run under a recorded load, and what to do."""


class RequestUnknownError(NotRunnableError):
    """A Utilization target is a share of what a pod requests, and the request is not known. metric: its name."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        super().__init__(f"{metric}: its Utilization target needs what a pod requests")


def loaded_metric(spec: Spec, requests: Mapping[str, int]) -> Metric | None:
    """
    The metric of the load: the one that is forecast, else the first with a target per pod; None without metrics.

    requests: of a pod, milli-units by resource. Raises NotRunnableError if no target tells the load of one pod,
    RequestUnknownError if only the request is missing.
    """
    wanted = forecast_metric(spec)
    ranked = sorted(spec.metrics, key=lambda metric: getattr(metric, "name", None) != wanted)
    # A Value target of an Object metric tells nothing of one pod, also where an averageValue stands beside it.
    shared = (metric for metric in ranked if forecast_source(with_one(spec, metric)) is not None)
    chosen = next((metric for metric in shared if target_load(metric, requests.get(name_of(metric)))), None)
    if chosen is None and spec.metrics:
        metric = ranked[0]
        name = name_of(metric)
        if getattr(getattr(metric, "target", None), "average_utilization", None):
            raise RequestUnknownError(name)
        raise NotRunnableError(
            f"{name}: a Value target says nothing of one pod: a Utilization or AverageValue target is needed"
        )
    return chosen


def load_of_points(points: Sequence[tuple[Nanoseconds, float]], instants: Sequence[Nanoseconds] | None = None) -> Load:
    """
    The load as lines between recorded points, at least two of them.

    instants: at which the values hold; None: those of the points. Raises ValueError for points that are not a load.
    """
    steps = sorted(later - earlier for (earlier, _), (later, _) in pairwise(points))
    # Gaps are measured against the usual step: hourly records have no gap each hour.
    gap = max(GAP_MAX, _STEPS_PER_GAP * steps[len(steps) // 2])
    at = instants or [at for at, _ in points]
    return Load(zip(at, (value for _, value in points), strict=True), gap_max=gap)


def name_of(metric: Metric) -> str:
    """The name of a metric; "" for a metric of an unknown type."""
    return getattr(metric, "name", "")


def stated_capacity(spec: Spec, metric: Metric, requests: Mapping[str, int]) -> float | None:
    """The load that one pod can carry, as the object states it."""
    percent = spec.forecast.pod_capacity_percent if spec.forecast is not None else None
    return pod_capacity(metric, requests.get(name_of(metric)), percent)


def with_one(spec: Spec, metric: Metric | None) -> Spec:
    """The spec with only this metric."""
    return spec if metric is None else replace(spec, metrics=(metric,))


class Rerun:
    """
    The inputs of a run. points: the load as it was recorded, also from before the span.

    summary: a sentence about the forecasts of the last run.
    """

    def __init__(
        self,
        series: Series,
        load: Load,
        points: Sequence[tuple[Nanoseconds, float]],
        environment: Environment,
        span: Span,
    ) -> None:
        self.series, self.load, self.points = series, load, points
        self.environment, self.span = environment, span
        self.summary = ""

    def run(
        self,
        spec: Spec,
        passed: Callable[[Nanoseconds], None] = lambda _now: None,
        *,
        replicas: int | None = None,
        evaluate: Evaluate | None = None,
    ) -> Run:
        """
        Decides the span, with forecasts if the spec asks for them.

        passed: called with the instant of every reconciliation.
        evaluate: see `policy.fit`; None: every day is evaluated here.
        Raises NotInstalledError if a forecast needs a package that is not installed.
        """
        if spec.forecast is None or not spec.metrics:
            return run(
                spec, self.load, self.environment, self.span, forecasts=no_forecasts, replicas=replicas, passed=passed
            )
        environment = self.environment
        tracker = BudgetTracker()
        forecasts = WalkForward(
            self.points,
            self.forecast_target(spec),
            self.span,
            delay=environment.metric_delay,
            tracker=tracker,
            evaluate=evaluate,
        )
        outcome = run(
            spec,
            self.load,
            environment,
            self.span,
            forecasts=forecasts,
            budget=tracker,
            replicas=replicas,
            passed=passed,
        )
        self.summary = forecasts.summary
        return outcome

    def forecast_target(self, spec: Spec) -> ForecastTarget:
        """What forecasts of a spec are asked for."""
        return ForecastTarget(
            self.series,
            spec,
            self.environment.start_up,
            self.environment.requests.get(self.series.metric),
            left_out(spec, Span(self.points[0][0] if self.points else self.span.begin, self.span.end)),
        )
