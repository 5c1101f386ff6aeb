"""
A quick estimate of a week by the minute: reactive replicas that are late by the metric's age and the pods' start.

It tells which settings are worth a replay, by the load before the judged week and by that of the week; only replays are
reported. Imports numpy: for commands' workers only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from cronhpa.core.forecasts.floor import target_load
from cronhpa.core.model.instant import MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.memory import stabilization_windows
from cronhpa.core.model.spec import ResourceMetric, Span
from cronhpa.forecasting.columns import Floats
from cronhpa.forecasting.workload import WorkloadModel, held_replicas, reactive_replicas
from cronhpa.reporting.reported_target import ReportedTarget


class Estimate(Struct, frozen=True):
    """What an autoscaler would do under a load, roughly."""

    minutes: int
    """Under-provisioned."""
    pod_hours: float
    """Of all pods."""


def workload_model(target: ReportedTarget) -> WorkloadModel:
    """The numbers of a target that the estimate depends on."""
    metric, environment = target.metric, target.environment
    name = getattr(metric, "name", "")
    per_pod = target_load(metric, environment.requests.get(name))
    assert per_pod, "a reported target has a load of one pod"
    return WorkloadModel(
        target=per_pod,
        carried=environment.capacity,
        capacity=environment.capacity,
        start_up_seconds=round(environment.start_up / SECOND),
        budget_percent=0.0,
        tolerance=target.spec.options.tolerance,
        delay_seconds=round(environment.metric_delay / SECOND),
        is_cpu=isinstance(metric, ResourceMetric) and name == "cpu",
    )


def minutes_of(points: Sequence[tuple[Nanoseconds, float]], span: Span) -> Floats:
    """The largest load of each minute of a span; a gap keeps the load before it."""
    count = (span.end - span.begin) // MINUTE
    loads = np.full(count, np.nan)
    within = [(at, value) for at, value in points if span.begin <= at < span.end]
    if within:
        rows = np.array([(at - span.begin) // MINUTE for at, _ in within], np.int64)
        np.fmax.at(loads, rows, np.array([value for _, value in within]))
    known = np.maximum.accumulate(np.where(np.isnan(loads), 0, np.arange(count)))
    filled: Floats = np.nan_to_num(loads[known])
    return filled


class Setting(Struct, frozen=True):
    """What the estimate knows of an autoscaler."""

    model: WorkloadModel
    minimum: int
    maximum: int
    held_minutes: int
    """The scale-down window."""

    @classmethod
    def of(cls, target: ReportedTarget) -> Setting:
        """As it is."""
        spec = target.spec
        _, window = stabilization_windows(spec.behavior, spec.options)
        return cls(workload_model(target), spec.min_replicas, spec.max_replicas, window // MINUTE)

    def with_target(self, share: float) -> Setting:
        """share: of the present load of a pod at its target."""
        return replace(self, model=replace(self.model, target=self.model.target * share))


def estimate(loads: Floats, setting: Setting, floor: NDArray[np.int64] | None = None) -> Estimate:
    """
    The estimate of a load by the minute.

    floor: replicas that are Ready in each minute whatever the metric asks.
    """
    requested = np.clip(reactive_replicas(loads, setting.model), setting.minimum, setting.maximum)
    ready = held_replicas(requested, setting.model.metric_lag_minutes, setting.held_minutes)
    if floor is not None:
        ready = np.minimum(np.maximum(ready, floor), setting.maximum)
    short = loads > ready * setting.model.capacity
    return Estimate(int(short.sum()), float(ready.sum()) / 60)
