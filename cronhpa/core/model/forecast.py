"""A forecast of load as a decision reads it: numbers and their issue time, whatever method made them."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.model.instant import Nanoseconds


class TrackRecord(Struct, frozen=True):
    """The result of a forecast on the object's last days, each replayed with only the data known before it."""

    avoided: float
    """Under-provisioned minutes that the forecast avoids."""
    of: float
    """Under-provisioned minutes with metrics and schedules alone."""
    extra_percent: float
    """Pod-hours that the forecast adds to those of metrics and schedules alone."""
    days: int


def in_days(count: int) -> str:
    """A number of days in words: 1 day, 7 days."""
    return f"{count} day" if count == 1 else f"{count} days"


class Forecast(Struct, frozen=True, tag=True):
    """An upper quantile of a metric's load, step by step, and the load for which pods are worth their cost."""

    metric: str
    """The name of the metric, as in Decision.proposals (`cpu`)."""
    issued_at: Nanoseconds
    start: Nanoseconds
    step: Nanoseconds
    """Step i covers [start + i * step, start + (i + 1) * step)."""
    load: tuple[float, ...]
    """The quantile of the largest load within each step, in the metric's own unit (cores, bytes, requests a second)."""
    ceiling: float
    """The largest load that may be believed: 1.1 times the largest of the last seven days."""
    model: str
    """The method."""
    quantile_percent: int
    """The quantile that `load` states."""
    trained_until: Nanoseconds
    """The end of the history that the method was fitted on."""
    coverage_percent: int | None = None
    """The share of recent outcomes below that quantile; None while too few are known."""
    track_record: TrackRecord | None = None
    """The evaluation on past days; None if there was none."""
    loads_by_budget_level: tuple[tuple[float, ...], ...] = ()
    """`provisioned_load` at the higher costs of a pod of budget levels 1, 2 and so on (`predictive/budget`)."""
    unusable: str = ""
    """A sentence that names the methods that could not be used, with the reasons; empty if there are none."""
    provisioned_load: tuple[float, ...] | None = None
    """The load to provision for in each step: `load`, or 0 where no extra pod is worth its cost. None: `load`."""
    quantiles: tuple[int, ...] = ()
    """The quantile of each step of `load`; steps beyond its end have `quantile_percent`."""
    budget_level: int = 0
    """The budget level of `provisioned_load`; 0 within the budget."""
