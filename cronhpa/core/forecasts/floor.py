"""
A forecast of load becomes a floor of replicas, or abstains and says why.

The floor is the largest forecast load over the lead time, divided by what one pod may carry, rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from math import isfinite

from cronhpa.core.metrics.arithmetic import round_up
from cronhpa.core.model.decision import Abstention, ExpectedLoad, FloorLimit, Proposal, Role, Source
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import MINUTE, Nanoseconds
from cronhpa.core.model.memory import Memory, lead_time
from cronhpa.core.model.observation import Absent, Observation, PodCounts, Reading
from cronhpa.core.model.quantity import MILLI
from cronhpa.core.model.spec import (
    ExternalMetric,
    ForecastSettings,
    Metric,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    Spec,
    UnknownMetric,
)

# A forecast older than three steps of five minutes is not used.
AGE_MAX = 15 * MINUTE
# The share of its capacity that a pod is planned to carry. The target already leaves headroom: planning for the target
# would pay for headroom twice.
GUARD_PERCENT = 90
# Slack for chance: the outcomes of a day are correlated, so their coverage varies more than a binomial share.
COVERAGE_SLACK_PERCENT = 15

Load = ResourceMetric | PodsMetric | ObjectMetric | ExternalMetric


def predict(
    spec: Spec,
    observation: Observation,
    forecast: Forecast | Absent | None,
    memory: Memory,
    headroom_percent: int,
    now: Nanoseconds,
) -> Proposal | Abstention | None:
    """The forecast's floor at `now`, its reason to abstain, or None if the spec has no forecast."""
    if spec.forecast is None:
        return None
    name = forecast.metric if isinstance(forecast, Forecast) else forecast_metric(spec) or ""
    if forecast is None or isinstance(forecast, Absent):
        absent = forecast or _not_made(spec)
        return Abstention(Source.FORECAST, name, absent.reason, absent.message)

    def abstain(reason: str, message: str) -> Abstention:
        return Abstention(Source.FORECAST, name, reason, message)

    lead = lead_time(memory.lead_start_up_after(observation, spec, now), spec.options)
    distrusted = _distrusted(forecast, now)
    if distrusted is not None:
        return abstain(distrusted.reason, distrusted.message)
    covered_steps = _covered(forecast, now, now + lead)
    expected = forecast.load[covered_steps]
    loads = expected if forecast.provisioned_load is None else forecast.provisioned_load[covered_steps]
    if not loads:
        return abstain("Stale", "the forecast does not reach over the lead time")
    # max() of a number and NaN depends on their order, so each load is checked.
    absurd = next((load for load in (*loads, *expected, forecast.ceiling) if not isfinite(load) or load < 0), None)
    if absurd is not None:
        return abstain("Absurd", f"the forecast holds a load of {absurd}")
    carried = _load_per_pod(spec, spec.forecast, forecast.metric, observation, memory)
    if not carried:
        unknown = unknown_pod_load(forecast.metric)
        return abstain(unknown.reason, unknown.message)
    # An asked load of 0 at every step, below a positive expected load, asks for no pod: none is worth its cost.
    is_asked = any(loads) or not any(expected)
    of_steps = loads if is_asked else expected
    load = max(of_steps)
    believed = min(load, forecast.ceiling)
    needed = round_up(believed * (100 + headroom_percent) / 100 / carried) if is_asked else 0
    most = needed if spec.forecast.max_floor is None else spec.forecast.max_floor
    limit = (
        FloorLimit.MAX_FLOOR
        if needed > most
        else FloorLimit.CEILING
        if load > forecast.ceiling
        else FloorLimit.BUDGET
        if forecast.budget_level
        else FloorLimit.COST
    )
    step = covered_steps.start + of_steps.index(load)
    basis = ExpectedLoad(
        believed,
        forecast.start + step * forecast.step,
        carried,
        limit,
        percent=_likelihood(forecast, step),
        headroom_percent=headroom_percent,
    )
    return Proposal(Source.FORECAST, name, Role.FLOOR, min(needed, most), basis=basis)


def _distrusted(forecast: Forecast, now: Nanoseconds) -> Absent | None:
    """Why a forecast is not used, whatever its loads are; None if it is."""
    age = now - forecast.issued_at
    if age > AGE_MAX:
        text = f"the forecast was made {age // MINUTE} minutes ago, at most {AGE_MAX // MINUTE} count"
        return Absent("Stale", text)
    covered = forecast.coverage_percent
    if covered is not None and covered < forecast.quantile_percent - COVERAGE_SLACK_PERCENT:
        return Absent(
            "CoverageLost",
            f"{covered} % of the last day's loads were below what it stated for {forecast.quantile_percent} %: "
            f"{forecast.quantile_percent - COVERAGE_SLACK_PERCENT} % are needed",
        )
    if forecast.step <= 0:
        return Absent("Absurd", f"the forecast has steps of {forecast.step} ns")
    return None


def _likelihood(forecast: Forecast, step: int) -> int | None:
    """P(the load of a step is reached), percent; None if it is not known."""
    if forecast.budget_level:  # the quantiles belong to the loads that the budget replaced
        return None
    return 100 - (forecast.quantiles[step] if step < len(forecast.quantiles) else forecast.quantile_percent)


def _covered(forecast: Forecast, begin: Nanoseconds, end: Nanoseconds) -> slice:
    """The steps that touch [begin, end]; none if the forecast does not cover all of it."""
    first = (begin - forecast.start) // forecast.step
    last = (end - forecast.start) // forecast.step
    if first < 0 or last >= len(forecast.load):
        return slice(0)
    return slice(first, last + 1)


def _load_per_pod(
    spec: Spec, settings: ForecastSettings, name: str, observation: Observation, memory: Memory
) -> float | None:
    """`planned_load` of the metric with this name, in its own unit."""
    metric = forecast_source(spec)
    if metric is None or metric.name != name:
        return None
    request = observation.request_per_pod.get(name) or memory.request_per_pod.get(name)
    return planned_load(metric, request, settings.pod_capacity_percent)


def unknown_pod_load(name: str) -> Absent:
    """Why a forecast of this metric gives no floor: the load that one pod may carry is not known."""
    return Absent(
        "NoPodLoad",
        f"what one pod may carry of {name} is not known: it needs a "
        "Utilization or AverageValue target, and for Utilization a request",
    )


def planned_load(metric: Metric, request: int | None, percent: int | None) -> float | None:
    """
    The load that one pod is planned to carry: max(target, GUARD_PERCENT of its capacity).

    percent: see `pod_capacity`. None if the target does not say what one pod carries.
    """
    target = target_load(metric, request)
    capacity = pod_capacity(metric, request, percent)
    return None if target is None or capacity is None else max(target, capacity * GUARD_PERCENT / 100)


def target_load(metric: Metric, request: int | None) -> float | None:
    """
    The load at which one pod meets its target, in the load's own unit; None if the target is not per pod.

    request: milli-units; a Utilization target needs it.
    """
    if isinstance(metric, UnknownMetric):
        return None
    if metric.target.average_value is not None:
        return metric.target.average_value / MILLI
    if not request or not metric.target.average_utilization:
        return None
    return request * metric.target.average_utilization / 100 / MILLI


def replicas_for(spec: Spec, load: float, requests: Mapping[str, int]) -> int | None:
    """
    The replicas at which a load meets the target of the object's own metric; None where it has no load that pods share.

    requests: what a pod requests of each resource, milli-units.
    """
    source = forecast_source(spec)
    per_pod = None if source is None else target_load(source, requests.get(source.name))
    return round_up(load / per_pod) if per_pod else None


def pod_capacity(metric: Metric, request: int | None, percent: int | None) -> float | None:
    """
    The load that one pod can carry, at least its target; None if the target is not per pod.

    percent: of the target. None: the whole request for a Utilization target, else the target.
    """
    target = target_load(metric, request)
    if target is None:
        return None
    if percent is not None:
        return target * percent / 100
    is_utilization = not isinstance(metric, UnknownMetric) and metric.target.average_value is None
    return max(target, request / MILLI) if is_utilization and request else target


def forecast_metric(spec: Spec) -> str | None:
    """The name of the metric whose load is forecast; None if there is none."""
    source = forecast_source(spec)
    return None if source is None else source.name


def forecast_source(spec: Spec) -> Load | None:
    """
    The metric whose load is forecast; None if there is none.

    The first Resource or Pods metric, else the first Object or External metric with an average target per pod.
    """
    own = (metric for metric in spec.metrics if isinstance(metric, ResourceMetric | PodsMetric))
    others = (metric for metric in spec.metrics if isinstance(metric, ObjectMetric | ExternalMetric))
    # The target of an Object metric is read by its type, of an External one by the field that is set. A Value target
    # does not say what one pod carries.
    shared = (
        metric
        for metric in others
        if metric.target.average_value is not None
        and (isinstance(metric, ExternalMetric) or metric.target.type == "AverageValue")
    )
    return next(chain(own, shared), None)


def _not_made(spec: Spec) -> Absent:
    if forecast_metric(spec) is None:
        return Absent(
            "NoPodLoad",
            "no metric of this object is a load that pods share: "
            "a forecast needs one with a Utilization or AverageValue target",
        )
    return Absent("Learning", "no forecast has been made yet")


def load_of(reading: Reading) -> float | None:
    """The load of a reading in the metric's own unit, as it is recorded and forecast; None while absent."""
    if isinstance(reading, Absent):
        return None
    return (reading.load if isinstance(reading, PodCounts) else reading.value) / MILLI
