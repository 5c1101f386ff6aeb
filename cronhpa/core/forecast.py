"""A forecast of load as a decision reads it: numbers and their issue time, whatever method made them."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds


class TrackRecord(Struct, frozen=True):
    """
    The result of a forecast on the object's last days, each replayed with only the data known before it.

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
    quantiles: the same step by step; those of the steps that it does not reach are `quantile_percent`.
    trained_until: the end of the history that the method was fitted on.
    track_record: the evaluation on past days, None if there was none.
    asked: the load of each step that pods are asked for: that of `load`, or zero where no pod more is worth its cost;
        None: all of `load`. thrifty: the same if pods cost more, by level of `predictive.budget.thrift`; thrift: the
        level that is in `asked`, 0 within the budget.
    unusable: a sentence on the methods that could not be used, and why; empty where all could.
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
