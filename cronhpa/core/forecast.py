"""A forecast of load as the decision sees it: numbers with their issue time, and nothing about how they were made."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds


class TrackRecord(Struct, frozen=True):
    """
    What the chosen forecast did in the shadow run that chose it: a replay of an object's last days, each from what was
    known before it.

    avoided, of: under-provisioned minutes taken away, of those that metrics and schedules alone left.
    extra_percent: pod-hours that it added to theirs.
    """

    avoided: float
    of: float
    extra_percent: float
    days: int


def in_days(count: int) -> str:
    """As sentences say it: 1 day, 7 days."""
    return f"{count} day" if count == 1 else f"{count} days"


class Forecast(Struct, frozen=True, tag=True):
    """
    An upper quantile of a metric's load, step by step.

    metric: the name of the metric it forecasts, as in Decision.proposals (`cpu`).
    start, step: step i covers [start + i * step, start + (i + 1) * step).
    load: the quantile of the largest load within each step, in the metric's own unit (cores, bytes, requests a second).
    ceiling: the largest load that may be believed, 1.1 times the largest of the last seven days, same unit.
    model, quantile_percent, coverage_percent: what made it, which quantile it states, and how many percent of the
        recent outcomes were really below that quantile (None while too few are known).
    trained_until: the end of the history that the fit has seen.
    track_record: why it is believed to pay; None where nobody tried.
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
