"""
What learning costs the loop that decides: how late a reconciliation begins while many objects are fitted, against none.

A stand-in for reconciliations, a decision of `decide` every 20 ms, runs on the loop that also drives the real service,
whose worker reads a real store of 28 days for each object. Lag is how much later than meant a reconciliation begins; on
a machine whose cores are all busy with something else it is large without any learning, so the two are measured one
after the other.

LAG_OBJECTS: how many are fitted (50); the first time seven days of each are tried.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import Any

import decision
from learning_cost import subjects
from report import calibration_line, machine, save
from rich.console import Console
from rich.table import Table

from cronhpa.core.decide import decide
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, SECOND, Nanoseconds
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.service import ForecastService
from cronhpa.history.database.series import STEP
from cronhpa.history.store import Store

OBJECTS = 50
_PERIOD_SECONDS = 0.02
_ALONE_SECONDS = 10.0


def fill(path: Path, wanted: list[ForecastTarget], now: Nanoseconds) -> None:
    """28 days of a load that is ten times as large from six to eighteen o'clock."""
    store = Store(path)
    end = now - now % STEP
    for number, subject in enumerate(wanted):
        load = [
            (at, (10.0 if 6 * HOUR <= at % DAY < 18 * HOUR else 1.0) + (at // STEP + number) % 7 / 10)
            for at in range(end - 28 * DAY, end, STEP)
        ]
        store.loads.backfill(subject.series, load)
    store.close()


class Reconciliations:
    """Begins a decision every 20 ms; how late each began, in seconds."""

    def __init__(self) -> None:
        self.lags: list[float] = []
        self._situation = decision.situation(decision.TIMED, decision.forecast(decision.NOW))

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        meant = loop.time()
        while True:
            meant = max(meant + _PERIOD_SECONDS, loop.time())
            await asyncio.sleep(meant - loop.time())
            self.lags.append(loop.time() - meant)
            situation = self._situation
            decide(situation.spec, situation.observation, situation.forecast, situation.memory, decision.NOW)


async def measured(work: Any) -> dict[str, Any]:
    """Lags while `work` runs, and the CPU that this process, the controller's stand-in, takes meanwhile."""
    reconciliations = Reconciliations()
    turning = asyncio.create_task(reconciliations.run())
    cpu, began = time.process_time(), time.monotonic()
    await work
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    turning.cancel()
    cuts = quantiles(reconciliations.lags, n=100)
    return {
        "seconds": round(seconds, 2),
        "reconciliations": len(reconciliations.lags),
        "median_ms": round(cuts[49] * 1000, 2),
        "p99_ms": round(cuts[98] * 1000, 2),
        "max_ms": round(max(reconciliations.lags) * 1000, 2),
        "controller_cpu_percent": round(100 * cpu / seconds, 1),
    }


async def run(count: int) -> dict[str, Any]:
    now = time.time_ns() // SECOND * SECOND
    wanted = subjects(count)
    with tempfile.TemporaryDirectory(prefix="cronhpa-bench-") as folder:
        path = Path(folder) / "history.db"
        fill(path, wanted, now)
        forecaster = ForecastService(path, time.monotonic, fit_deadline_seconds=3600)
        try:
            alone = await measured(asyncio.sleep(_ALONE_SECONDS))
            fitted = await measured(forecaster.fit(wanted, now))
            forecast = await measured(forecaster.refresh(wanted, now))
            made = sum(isinstance(forecaster.latest(target.series), Forecast) for target in wanted)
            if forecaster.problems or made < count:
                sys.exit(f"learning_lag: {made} of {count} are forecast: {forecaster.problems or 'no problem is told'}")
        finally:
            await forecaster.close()
    return {"objects": count, "without learning": alone, "while all are fitted": fitted, "all forecast": forecast}


def main() -> None:
    console = Console()
    count = int(os.environ.get("LAG_OBJECTS", OBJECTS))
    figures = asyncio.run(run(count))
    table = Table(
        "",
        "s",
        "reconciliations",
        "lag median",
        "p99",
        "max ms",
        "controller CPU",
        title=f"{count} objects, 28 days each",
    )
    for name, phase in figures.items():
        if isinstance(phase, dict):
            table.add_row(
                name, str(phase["seconds"]), str(phase["reconciliations"]),
                str(phase["median_ms"]), str(phase["p99_ms"]),
                str(phase["max_ms"]), f"{phase['controller_cpu_percent']} %",
            )  # fmt: skip
    console.print(table)
    speed = machine()
    console.print(calibration_line(speed))
    console.print(f"written to {save('learning_lag', {**figures, 'machine': speed})}")


if __name__ == "__main__":
    main()
