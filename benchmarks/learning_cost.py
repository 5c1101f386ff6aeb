"""
What learning and forecasting cost a worker: CPU a workload and day, and memory, by the worker that the operator runs.

Loads of four kinds, a value a minute: steps at opening hours, bursts at full hours, a curve with noise, and one that
never is short of pods. A real store, a real worker process, tasks as large as the operator's.

COST_OBJECTS: how many (40).
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from report import calibration_line, machine, save
from rich.console import Console
from rich.table import Table

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, MINUTE, SECOND, Nanoseconds, parse_instant
from cronhpa.core.spec import ForecastSettings, MetricTarget, ResourceMetric, Spec, TargetRef
from cronhpa.forecasting import service as forecaster
from cronhpa.forecasting.messages import FitResponse, ForecastResponse, ForecastTarget, WorkerRequest
from cronhpa.forecasting.pool import ProcessPool
from cronhpa.history.load_history import MINUTE_ROWS_KEPT
from cronhpa.history.series import STEPS_KEPT, LoadSample, Series
from cronhpa.history.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

OBJECTS = 40
_NOW = parse_instant("2026-03-11T09:00:00Z")
_ROUNDS = 10
_FLEET = 10_000
_CORES = 2
_DAY_MINUTES = DAY // MINUTE
_DEADLINE_SECONDS = 3600.0
# Minutes since the epoch.
_FIRST = (_NOW - STEPS_KEPT) // MINUTE


def subjects(count: int) -> list[ForecastTarget]:
    metrics = (ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=60)),)
    return [
        ForecastTarget(
            Series("bench", f"app-{i}", "cpu"),
            Spec(TargetRef("apps/v1", "Deployment", f"app-{i}"), 1, 500, metrics=metrics, forecast=ForecastSettings()),
            start_up=120 * SECOND,
            request=1000,
        )
        for i in range(count)
    ]


@cache
def loads(number: int) -> list[float]:
    """Cores, twelve on average or so, of each minute since _FIRST; the number says which kind."""
    # A worker imports this module before it is told to use one thread, and must find numpy untouched.
    import numpy as np  # noqa: PLC0415 - see above

    minutes = np.arange(_FIRST, _FIRST + (STEPS_KEPT + 2 * DAY) // MINUTE)
    random = np.random.default_rng(number)
    clock = minutes % _DAY_MINUTES
    curve = 12 + 5 * np.sin(2 * np.pi * (clock / _DAY_MINUTES - 0.3))
    noise = np.convolve(random.normal(size=len(minutes) + 9), np.full(10, 0.1), "valid")
    kind = number % 4
    if kind == 0:
        opening = 360 + number % 7 * 30
        is_open = (clock >= opening) & (clock < opening + 600)
        load = np.where(is_open, 18.0, 5.0) * (1 + 0.1 * noise)
    elif kind == 1:
        into_hour = (minutes - number % 5) % 60
        load = curve * np.where((into_hour < 8) & (random.random(len(minutes)) < 0.95), 1.8, 1.0) * (1 + 0.1 * noise)
    elif kind == 2:
        load = np.maximum(curve * (1 + 0.6 * noise), 0.1)
    else:
        load = curve * (1 + 0.01 * noise)
    found: list[float] = load.tolist()
    return found


def record(store: Store, wanted: list[ForecastTarget], begin: Nanoseconds, end: Nanoseconds) -> None:
    """The loads of [begin, end); those of the last hours as the recorder writes them."""
    first, last = begin // MINUTE, end // MINUTE
    for number, subject in enumerate(wanted):
        points = [
            (minute * MINUTE, value)
            for minute, value in enumerate(loads(number)[first - _FIRST : last - _FIRST], first)
        ]
        store.loads.backfill(subject.series, points)
        store.loads.record(
            [LoadSample(subject.series, at, value) for at, value in points if at >= end - MINUTE_ROWS_KEPT]
        )


def usage(_payload: bytes) -> bytes:
    """Runs in the worker: CPU seconds so far, and the most memory so far, MB."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]).encode()


class Worker:
    """One worker, and what it has used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._processes = ProcessPool(1)

    async def used(self) -> tuple[float, float]:
        cpu, memory = json.loads(await self._processes.run(usage, b"", _DEADLINE_SECONDS))
        return cpu, memory

    async def ask(
        self, task: Callable[[bytes], bytes], wanted: list[ForecastTarget], now: Nanoseconds, size: int
    ) -> tuple[list[bytes], float]:
        """The answers to tasks of so many, and the CPU seconds that they took."""
        before, _ = await self.used()
        parts = [wanted[i : i + size] for i in range(0, len(wanted), size)]
        asks = [msgspec.json.encode(WorkerRequest(str(self._path), part, now)) for part in parts]
        answers = [await self._processes.run(task, each, _DEADLINE_SECONDS) for each in asks]
        after, _ = await self.used()
        return answers, after - before

    async def close(self) -> None:
        await self._processes.close()


async def studied(worker: Worker, wanted: list[ForecastTarget], now: Nanoseconds) -> float:
    """CPU seconds of a daily round."""
    answers, cpu = await worker.ask(forecaster.fit, wanted, now, forecaster.FITS_PER_TASK)
    found = [msgspec.msgpack.decode(each, type=FitResponse) for each in answers]
    if (learnt := sum(len(each.fits) for each in found)) < len(wanted) or any(each.fault for each in found):
        sys.exit(f"learning_cost: {learnt} of {len(wanted)} were learnt: {found}")
    return cpu


async def forecast(worker: Worker, store: Store, wanted: list[ForecastTarget], now: Nanoseconds) -> dict[str, float]:
    """CPU seconds of a forecast, over ten minutes; nobody asks again for an object that has nothing to gain."""
    answers, _ = await worker.ask(forecaster.forecast, wanted, now, forecaster.FORECASTS_PER_TASK)
    found = [pair for each in answers for pair in msgspec.msgpack.decode(each, type=ForecastResponse).answers]
    has = {series for series, value in found if isinstance(value, Forecast)}
    active = [each for each in wanted if each.series in has]
    if not active:
        sys.exit(f"learning_cost: nobody has a forecast: {found}")
    cpu = 0.0
    for minute in range(1, _ROUNDS + 1):
        record(store, wanted, now + (minute - 1) * MINUTE, now + minute * MINUTE)
        _, used = await worker.ask(forecaster.forecast, active, now + minute * MINUTE, forecaster.FORECASTS_PER_TASK)
        cpu += used
    return {"with_forecast": len(active), "forecast_ms": 1000 * cpu / _ROUNDS / len(active)}


async def run(count: int) -> dict[str, Any]:
    wanted = subjects(count)
    with tempfile.TemporaryDirectory(prefix="cronhpa-bench-") as folder:
        # Open all the time, as the operator has it: a last connection that closes writes back what all have written.
        store = Store(Path(folder) / "history.db")
        record(store, wanted, _NOW - STEPS_KEPT, _NOW)
        worker = Worker(store.address)
        try:
            # What starting a process and importing numpy takes is nobody's.
            await worker.ask(forecaster.fit, [], _NOW, 1)
            await worker.ask(forecaster.fit, wanted[:1], _NOW - DAY, 1)
            first = await studied(worker, wanted, _NOW)
            record(store, wanted, _NOW, _NOW + DAY)
            ordinary = await studied(worker, wanted, _NOW + DAY)
            forecasts = await forecast(worker, store, wanted, _NOW + DAY)
            _, memory = await worker.used()
        finally:
            await worker.close()
            store.close()
    return {
        "objects": count,
        "first_day_seconds": first / count,
        "ordinary_day_seconds": ordinary / count,
        **forecasts,
        "worker_mb": memory,
    }


def main() -> None:
    console = Console()
    found = asyncio.run(run(int(os.environ.get("COST_OBJECTS", OBJECTS))))
    table = Table("CPU of a worker", "a workload", f"{_FLEET:,} workloads", title="Learning and forecasting")
    for name, seconds in (
        ("first day: all days evaluated, and a fit", found["first_day_seconds"]),
        ("ordinary day: one day evaluated, and a fit", found["ordinary_day_seconds"]),
    ):
        table.add_row(name, f"{seconds:.3f} s", f"{seconds * _FLEET / 60 / _CORES:.1f} min on {_CORES} cores")
    milliseconds = found["forecast_ms"]
    table.add_row(
        "a forecast", f"{milliseconds:.2f} ms", f"{milliseconds * _FLEET / 1000 / _CORES:.1f} s on {_CORES} cores"
    )
    table.add_row("forecasts in a second of CPU", f"{1000 / milliseconds:.0f}", f"{milliseconds * _FLEET / 1000:.1f} s")
    day = found["ordinary_day_seconds"] + found["forecast_ms"] / 1000 * _DAY_MINUTES
    table.add_row("a day with a forecast a minute", f"{day:.2f} s", f"{day * _FLEET / DAY * SECOND:.2f} cores")
    console.print(table)
    console.print(f"most memory of the worker: {found['worker_mb']:.0f} MB")
    speed = machine()
    console.print(calibration_line(speed))
    console.print(f"written to {save('learning_cost', {**found, 'machine': speed})}")


if __name__ == "__main__":
    main()
