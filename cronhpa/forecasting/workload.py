"""
The numbers of an object's spec; the replicas that its metric recommends for a load, and the shortages of that load.

Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from cronhpa.core.forecasts.floor import GUARD_PERCENT, forecast_source, pod_capacity, target_load
from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.memory import lead_time
from cronhpa.core.model.quantity import MILLI
from cronhpa.core.model.spec import ResourceMetric
from cronhpa.forecasting.columns import MINUTES_PER_STEP, AutoscalerModel, AverageValue, Floats, Utilization
from cronhpa.forecasting.messages import ForecastTarget

# The upstream's default stabilization window.
HELD_MINUTES = 5

_STEP_SECONDS = 60 * MINUTES_PER_STEP
# Start-up times that differ by less than this count as equal for a backtest.
_START_UP_SLACK_SECONDS = 20


class WorkloadModel(Struct, frozen=True):
    """The numbers of an object's spec that a forecast depends on."""

    target: float
    """The load of one pod at the metric's target."""
    carried: float
    """The largest load that a forecast plans for one pod."""
    capacity: float
    """The load from which one pod counts as under-provisioned. All three are in units of the load."""
    start_up_seconds: int
    budget_percent: float
    percent: int | None = None
    """A Utilization target, which the upstream computes in whole percent; None for an AverageValue."""
    tolerance: float = 0.1
    delay_seconds: int = 30
    is_cpu: bool = True
    """Whether the metric is a pod's CPU: then samples of starting pods do not count."""

    def autoscaler(self) -> AutoscalerModel:
        """The vectorized autoscaler of this workload, in units of `capacity`."""
        share = self.target / self.capacity
        goal = AverageValue(share) if self.percent is None else Utilization(self.percent, share * 100 / self.percent)
        return AutoscalerModel(
            goal=goal,
            milli=self.capacity * MILLI,
            is_cpu=self.is_cpu,
            start_up_seconds=self.start_up_seconds,
            delay_seconds=self.delay_seconds,
            tolerance=self.tolerance,
        )

    @property
    def metric_lag_minutes(self) -> int:
        """Minutes from a load until the pods for it are Ready: half a minute + metric delay + start-up."""
        return round((self.delay_seconds + 30 + self.start_up_seconds) / 60)

    @property
    def lead_minutes(self) -> int:
        """Minutes from the newest known minute to the minute for which a pod that is requested now is Ready."""
        return -(-(self.delay_seconds + self.start_up_seconds) // 60)

    @property
    def far_steps(self) -> int:
        """Steps ahead that a floor must cover if it is renewed only every five minutes."""
        return max(2, -(-(self.delay_seconds + _STEP_SECONDS + self.start_up_seconds) // _STEP_SECONDS))

    @property
    def is_slow(self) -> bool:
        """Whether a pod that is requested a minute from now becomes Ready only after the next step has begun."""
        return self.delay_seconds + 60 + self.start_up_seconds > _STEP_SECONDS + 60

    def windows(self, *, by_minute: bool) -> tuple[int, ...]:
        """Steps ahead that a forecast covers: one step suffices by the minute unless pods are slow."""
        return (1,) if by_minute and not self.is_slow else (1, self.far_steps)

    def needs_far(self, minute: int) -> bool:
        """Whether a pod requested in this minute of a step, 0 to 4, becomes Ready only for the step after the next."""
        ready = self.delay_seconds + 60 * (minute + 1) + self.start_up_seconds
        return ready >= _STEP_SECONDS + self.delay_seconds


def workload_of(target: ForecastTarget) -> WorkloadModel | None:
    """The workload of an object; None if its spec does not tell the load of one pod."""
    spec = target.spec
    metric = forecast_source(spec)
    if metric is None or metric.name != target.series.metric or spec.forecast is None:
        return None
    per_pod = target_load(metric, target.request)
    capacity = pod_capacity(metric, target.request, spec.forecast.pod_capacity_percent)
    if per_pod is None or capacity is None or per_pod <= 0:
        return None
    return WorkloadModel(
        target=per_pod,
        carried=max(per_pod, capacity * GUARD_PERCENT / 100),
        capacity=max(per_pod, capacity),
        start_up_seconds=lead_time(target.start_up, spec.options) // SECOND,
        budget_percent=float(spec.forecast.budget_percent),
        percent=metric.target.average_utilization if metric.target.average_value is None else None,
        is_cpu=isinstance(metric, ResourceMetric) and metric.name == "cpu",
    )


def backtests_agree(one: WorkloadModel, other: WorkloadModel) -> bool:
    """Whether a day's backtest of one workload is valid for the other: budgets may differ, start-up times slightly."""
    if abs(one.start_up_seconds - other.start_up_seconds) > _START_UP_SLACK_SECONDS:
        return False
    return _without_budget(one) == _without_budget(other)


def _without_budget(workload: WorkloadModel) -> WorkloadModel:
    return replace(workload, budget_percent=0.0, start_up_seconds=0)


def reactive_replicas(load: Floats, workload: WorkloadModel) -> Floats:
    """Replicas that the metric asks for at each load; one where the load is unknown."""
    return _replicas(load, workload.target)


def reactive_replicas_of_several(loads: Sequence[Floats], workloads: Sequence[WorkloadModel]) -> list[Floats]:
    """`reactive_replicas` of each load."""
    if not loads:
        return []
    counts = [len(load) for load in loads]
    replicas = _replicas(np.concatenate(loads), np.repeat([workload.target for workload in workloads], counts))
    return [replicas[end - count : end] for end, count in zip(accumulate(counts), counts, strict=True)]


def held_replicas(replicas: Floats, late_minutes: int, held_minutes: int = HELD_MINUTES) -> Floats:
    """(..., minutes): the highest recommendation of the stabilization window that ended `late_minutes` before each."""
    before = np.repeat(replicas[..., :1], late_minutes + held_minutes, axis=-1)
    highest = np.concatenate([before, replicas], axis=-1)
    # Doubling the window in each pass needs log2(length) passes.
    reach = 1
    while reach <= held_minutes:
        more = min(reach, held_minutes + 1 - reach)
        highest = np.maximum(highest[..., more:], highest[..., :-more])
        reach += more
    return highest[..., : replicas.shape[-1]]


def shortages(load: Floats, workload: WorkloadModel) -> NDArray[np.bool_]:
    """(minutes,): whether reactive scaling is under-provisioned in each minute. load: (minutes,), without gaps."""
    late = workload.metric_lag_minutes
    short = _shortages(load, reactive_replicas(load, workload), late, workload.capacity, workload.tolerance)
    short[: late + HELD_MINUTES] = False
    return short


def shortages_of_several(
    loads: Sequence[Floats], workloads: Sequence[WorkloadModel]
) -> list[tuple[NDArray[np.bool_], Floats]]:
    """For each load, without gaps: `shortages`, and the replicas that stabilization holds at the end of each minute."""
    alike: dict[int, list[int]] = {}
    for place, workload in enumerate(workloads):
        alike.setdefault(workload.metric_lag_minutes, []).append(place)
    shortages_at: dict[int, tuple[NDArray[np.bool_], Floats]] = {}
    for late, places in alike.items():
        longest = max(len(loads[place]) for place in places)
        together = np.empty((len(places), longest))
        begins = [longest - len(loads[place]) for place in places]
        for row, (begin, place) in enumerate(zip(begins, places, strict=True)):
            # Before its first minute a load is assumed to be constant.
            together[row, :begin] = loads[place][0]
            together[row, begin:] = loads[place]
        target, capacity, tolerance = (
            np.array([[getattr(workloads[place], name)] for place in places])
            for name in ("target", "capacity", "tolerance")
        )
        replicas = _replicas(together, target)
        short, held = _shortages(together, replicas, late, capacity, tolerance), held_replicas(replicas, 0)
        for row, (begin, place) in enumerate(zip(begins, places, strict=True)):
            short[row, begin : begin + late + HELD_MINUTES] = False
            shortages_at[place] = short[row, begin:], held[row, begin:]
    return [shortages_at[place] for place in range(len(loads))]


def _replicas(load: Floats, target: float | Floats) -> Floats:
    return np.maximum(np.ceil(np.where(np.isnan(load), 0.0, load) / target - 1e-9), 1.0)


def _shortages(
    load: Floats, replicas: Floats, late: int, capacity: float | Floats, tolerance: float | Floats
) -> NDArray[np.bool_]:
    """(..., minutes): whether a load needs more replicas than those held `late` minutes before."""
    # Within the tolerance the metric does not scale up: on average the count lacks half of the tolerance.
    needed = np.ceil(load / capacity * (1 + tolerance / 2) - 1e-9)
    short: NDArray[np.bool_] = needed > held_replicas(replicas, late)
    return short
