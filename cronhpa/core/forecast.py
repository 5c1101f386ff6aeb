"""A forecast of load as a decision reads it: numbers and their issue time, whatever method made them."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds


class TrackRecord(Struct, frozen=True):
    """
    The result of a forecast on the object's last days, each replayed with only the data that were known before it.

    avoided, of: under-provisioned minutes that the forecast avoids, of those with metrics and schedules alone.
    extra_percent: pod-hours that the forecast adds to those of metrics and schedules alone.
    """

    avoided: float
    of: float
    extra_percent: float
    days: int


def in_days(count: int) -> str:
    """A number of days in words: 1 day, 7 days."""
    return f"{count} day" if count == 1 else f"{count} days"


class Forecast(Struct, frozen=True, tag=True):
    """
    An upper quantile of a metric's load, step by step.

    metric: the name of the metric it forecasts, as in Decision.proposals (`cpu`).
    start, step: step i covers [start + i * step, start + (i + 1) * step).
    load: the quantile of the largest load within each step, in the metric's own unit (cores, bytes, requests a second).
    ceiling: the largest load that may be believed, 1.1 times the largest of the last seven days, same unit.
    model: the method. quantile_percent: the quantile that `load` states. coverage_percent: the share of recent outcomes
        below that quantile, None while too few are known.
    quantiles: the quantile of each step of `load`; `quantile_percent` for steps beyond its end.
    trained_until: the end of the history that the method was fitted on.
    track_record: the evaluation on past days, None if there was none.
    asked: the load of each step for which the forecast asks for pods: that of `load`, or zero if no additional pod is
        worth its cost; None: all of `load`. thrifty: the same at higher costs of a pod, by level of
        `predictive.budget.thrift`; thrift: the level of `asked`, 0 within the budget.
    unusable: a sentence that names the methods that could not be used, with the reasons; empty if there are none.
    """

    metric: str
    issued_at: Nanoseconds
    start: Nanoseconds
    step: Nanoseconds
    load: tuple[float, ...]
    ceiling: float
    model: str
    quantile_percent: int
    trained_until: Nanoseconds
    coverage_percent: int | None = None
    track_record: TrackRecord | None = None
    thrifty: tuple[tuple[float, ...], ...] = ()
    unusable: str = ""
    asked: tuple[float, ...] | None = None
    quantiles: tuple[int, ...] = ()
    thrift: int = 0
