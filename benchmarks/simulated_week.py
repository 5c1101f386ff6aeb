"""
How fast virtual time goes: reconciliations a second of the simulator, on a recorded load of 20 and of 100 pods on
average.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import report
from rich.console import Console
from rich.table import Table

from cronhpa.core.forecasts.budget_tracker import BudgetTracker
from cronhpa.core.model.instant import DAY, SECOND
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, ResourceMetric, Span, Spec, TargetRef
from cronhpa.history.imports.files import read_points
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import run
from cronhpa.simulation.target import Environment

RECORDED = Path(__file__).parents[1] / "benchmarks/traces/k8s_app11_cpu_1m.csv.gz"
_TARGET = 60
_WEEK = 7 * DAY
_SPEC = Spec(
    TargetRef("apps/v1", "Deployment", "shop"),
    1,
    10_000,
    metrics=(ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=_TARGET)),),
    forecast=ForecastSettings(),
)


def measured(pods: int, span: int = DAY) -> dict[str, float]:
    """CPU seconds of a day, and what a week of reconciliations every 15 s takes at that speed."""
    points = read_points(RECORDED)
    one_pod = sum(value for _, value in points) / len(points) / (pods * _TARGET / 100)
    load = Load([(at, value / one_pod) for at, value in points])
    environment = Environment(capacity=1.0, requests={"cpu": 1000}, start_up=120 * SECOND)
    begin = points[0][0] + 8 * DAY
    begun = time.process_time()
    score = run(_SPEC, load, environment, Span(begin, begin + span), budget=BudgetTracker()).score
    seconds = time.process_time() - begun
    reconciliations = sum(score.reconciliations_by.values())
    return {
        "pods": pods,
        "reconciliations": reconciliations,
        "cpu_seconds": round(seconds, 3),
        "reconciliations_per_second": round(reconciliations / seconds),
        "week_cpu_seconds": round(seconds * _WEEK / span, 2),
        "pod_hours": round(score.pod_hours, 1),
    }


def main() -> int:
    runs = [measured(pods) for pods in (20, 100)]
    table = Table(
        "pods on average", "reconciliations a second", "a week of reconciliations every 15 s", title="The simulator"
    )
    for figures in runs:
        table.add_row(
            str(figures["pods"]),
            f"{figures['reconciliations_per_second']:,.0f}",
            f"{figures['week_cpu_seconds']:.1f} s of CPU",
        )
    Console().print(table)
    report.save("simulated_week", {"runs": runs, "machine": report.machine()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
