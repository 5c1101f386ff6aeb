"""
A few days of the shipped path, by which a test knows whether published figures are still what the code gives.

The code itself is no measure of that: most changes of it change no figure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from closed_loop import run_decided
from recorded import TICKS_PER_STEP, read

from cronhpa.forecasting.columns import MINUTES_PER_STEP, AutoscalerModel

if TYPE_CHECKING:
    from pathlib import Path

    from recorded import Recorded

SERIES = ("k8s_app11_cpu_1m",)
_DAYS = 3
_BUDGET = 5


def probe(traces: Path) -> dict[str, dict[str, dict[str, float]]]:
    """By series and policy: minutes and pod-hours a day, of the first days of the test."""
    figures = {}
    for name in SERIES:
        series = first_days(read(traces / f"{name}.csv.gz"), _DAYS)
        scores = run_decided(series, AutoscalerModel(), (_BUDGET,))
        assert scores is not None, "a series of the probe is replayed on its own calendar"
        figures[name] = {
            policy: {"minutes": round(score.minutes, 3), "pod_hours": round(score.pod_hours, 2)}
            for policy, score in scores.items()
        }
    return figures


def first_days(series: Recorded, days: int) -> Recorded:
    """The series as if it had ended after so many days of its test."""
    steps = series.first_step + days * series.steps_per_day
    minutes = None if series.minutes is None else series.minutes[: steps * MINUTES_PER_STEP]
    return replace(series, load=series.load[: steps * TICKS_PER_STEP], steps=series.steps[:steps], minutes=minutes)
