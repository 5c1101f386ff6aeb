"""A forecast of load as the decision sees it: numbers with their issue time, and nothing about how they were made."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds


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
