"""The work of the workers, for the operator's metrics."""

from __future__ import annotations

from msgspec import Struct


class WorkCounts(Struct):
    """Fits and forecasts made, objects of tasks that failed, seconds that workers spent."""

    fits: int = 0
    fit_failures: int = 0
    fit_seconds: float = 0.0
    waiting: int = 0
    """Objects that wait for their fit, or are being fitted."""
    forecasts: int = 0
    forecast_failures: int = 0
    forecast_seconds: float = 0.0
