"""
What learning and forecasting cost a worker: CPU a workload and day, and memory, by the worker that the operator runs.

Loads of four kinds, a value a minute: steps at opening hours, bursts at full hours, a curve with noise, and one that
never is short of pods. A real store, a real worker process, tasks as large as those of an operator of 10,000 objects:
to fill a task of forecasts, further objects have the fits of those that were fitted, and higher loads.

COST_OBJECTS: how many are fitted (40).
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
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from report import calibration_line, machine, save
from rich.console import Console
from rich.table import Table

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, MINUTE, SECOND, Nanoseconds, parse_instant
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, ResourceMetric, Spec, TargetRef
from cronhpa.forecasting import service as forecaster
from cronhpa.forecasting.messages import FitResponse, ForecastResponse, ForecastTarget, WorkerRequest
from cronhpa.forecasting.pool import ProcessPool
from cronhpa.history.database.series import STEPS_KEPT, LoadSample, Series
from cronhpa.history.load.fits import FitInfo
from cronhpa.history.load.load_history import MINUTE_ROWS_KEPT
from cronhpa.history.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

OBJECTS = 40
# The number of the first object that is not fitted.
_FURTHER = 100_000
_NOW = parse_instant("2026-03-11T09:00:00Z")
_ROUNDS = 10
_FLEET = 10_000
_CORES = 2
_DAY_MINUTES = DAY // MINUTE
_DEADLINE_SECONDS = 3600.0
# Minutes since the epoch.
_FIRST = (_NOW - STEPS_KEPT) // MINUTE


class Loaded(NamedTuple):
    """An object, and the load that it has: of `loads`, so many times as high."""

    target: ForecastTarget
    number: int
    height: float = 1.0


def subjects(count: int, first: int = 0) -> list[ForecastTarget]:
    metrics = (ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=60)),)
    return [
        ForecastTarget(
            Series("bench", f"app-{i}", "cpu"),
            Spec(TargetRef("apps/v1", "Deployment", f"app-{i}"), 1, 500, metrics=metrics, forecast=ForecastSettings()),
            start_up=120 * SECOND,
            request=1000,
        )
        for i in range(first, first + count)
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
    values: list[float] = load.tolist()
    return values


def record(store: Store, several: list[Loaded], begin: Nanoseconds, end: Nanoseconds) -> None:
    """The loads of [begin, end); those of the last hours as the recorder writes them."""
    first, last = begin // MINUTE, end // MINUTE
    newest = []
    for target, number, height in several:
        values = loads(number)[first - _FIRST : last - _FIRST]
        points = [(minute * MINUTE, height * value) for minute, value in enumerate(values, first)]
        if end - begin > MINUTE_ROWS_KEPT:
            store.loads.backfill(target.series, points)
        newest += [LoadSample(target.series, at, value) for at, value in points if at >= end - MINUTE_ROWS_KEPT]
    store.loads.record(newest)


def more_objects(store: Store, fitted: list[Loaded], count: int, until: Nanoseconds) -> list[Loaded]:
    """So many further objects: each has the fit of one of these, and a load of its own, recorded up to an instant."""
    states, several = {}, []
    for fit, members in store.fits.newest([loaded.target.series for loaded in fitted]):
        by_name = msgspec.msgpack.decode(fit.state)
        states |= {series: (fit, by_name[str(series)]) for series in members}
    for place, target in enumerate(subjects(count, first=_FURTHER)):
        several.append(Loaded(target, fitted[place % len(fitted)].number, 1 + (place + 1) / 1000))
    record(store, several, until - STEPS_KEPT, until)
    for begin in range(0, count, forecaster.FITS_PER_TASK):
        alike = {
            several[place].target.series: states[fitted[place % len(fitted)].target.series]
            for place in range(begin, min(begin + forecaster.FITS_PER_TASK, count))
        }
        # All were fitted at one instant.
        fit, _ = next(iter(alike.values()))
        packed = msgspec.msgpack.encode({str(series): state for series, (_, state) in alike.items()})
        store.fits.save(msgspec.structs.replace(fit, state=packed), {series: FitInfo(until) for series in alike})
    return several


def usage(_payload: bytes) -> bytes:
    """Runs in the worker: CPU seconds so far, and the most memory so far, MB."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Not ru_maxrss: in a process that was started by another one, it is at least what that one had.
    status = Path("/proc/self/status").read_text()
    (most,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return json.dumps([used.ru_utime + used.ru_stime, most / 1024]).encode()


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
        answers = [await self._processes.run(task, request, _DEADLINE_SECONDS) for request in asks]
        after, _ = await self.used()
        return answers, after - before

    async def close(self) -> None:
        await self._processes.close()


async def studied(worker: Worker, wanted: list[ForecastTarget], now: Nanoseconds) -> float:
    """CPU seconds of a daily round."""
    answers, cpu = await worker.ask(forecaster.fit, wanted, now, forecaster.FITS_PER_TASK)
    responses = [msgspec.msgpack.decode(answer, type=FitResponse) for answer in answers]
    if (learnt := sum(len(response.fits) for response in responses)) < len(wanted) or any(
        response.fault for response in responses
    ):
        sys.exit(f"learning_cost: {learnt} of {len(wanted)} were learnt: {responses}")
    return cpu


async def forecast(worker: Worker, store: Store, wanted: list[Loaded], now: Nanoseconds) -> dict[str, float]:
    """
    CPU seconds of a forecast in a full task, over ten minutes half a day after the fit.

    now: of the fit. Nobody asks again for who has nothing to gain.
    """
    size, begin = forecaster.FORECASTS_PER_TASK, now + DAY // 2
    answers, _ = await worker.ask(forecaster.forecast, [loaded.target for loaded in wanted], now, size)
    pairs = [pair for answer in answers for pair in msgspec.msgpack.decode(answer, type=ForecastResponse).answers]
    has = {series for series, value in pairs if isinstance(value, Forecast)}
    active = [loaded for loaded in wanted if loaded.target.series in has]
    if not active:
        sys.exit(f"learning_cost: nobody has a forecast: {pairs}")
    task = (active + more_objects(store, active, size - len(active), now))[:size]
    targets = [loaded.target for loaded in task]
    record(store, task, now, begin)
    store.compact(begin)
    await worker.ask(forecaster.forecast, targets, begin, size)
    cpu = 0.0
    for at in range(begin + MINUTE, begin + _ROUNDS * MINUTE + 1, MINUTE):
        record(store, task, at - MINUTE, at)
        answers, used = await worker.ask(forecaster.forecast, targets, at, size)
        cpu += used
    (last,) = answers
    made = [value for _, value in msgspec.msgpack.decode(last, type=ForecastResponse).answers]
    if not all(isinstance(value, Forecast) and value.issued_at == at for value in made):
        sys.exit(f"learning_cost: some have no forecast: {made}")
    return {"objects_a_task": size, "forecast_ms": 1000 * cpu / _ROUNDS / size}


async def run(count: int) -> dict[str, Any]:
    wanted = [Loaded(target, number) for number, target in enumerate(subjects(count))]
    targets = [loaded.target for loaded in wanted]
    with tempfile.TemporaryDirectory(prefix="cronhpa-bench-") as folder:
        # Open all the time, as the operator has it: a last connection that closes writes back what all have written.
        store = Store(Path(folder) / "history.db")
        record(store, wanted, _NOW - STEPS_KEPT, _NOW)
        worker = Worker(store.address)
        try:
            # What starting a process and importing numpy takes is nobody's.
            await worker.ask(forecaster.fit, [], _NOW, 1)
            await worker.ask(forecaster.fit, targets[:1], _NOW - DAY, 1)
            first = await studied(worker, targets, _NOW)
            record(store, wanted, _NOW, _NOW + DAY)
            ordinary = await studied(worker, targets, _NOW + DAY)
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
    figures = asyncio.run(run(int(os.environ.get("COST_OBJECTS", OBJECTS))))
    table = Table("CPU of a worker", "a workload", f"{_FLEET:,} workloads", title="Learning and forecasting")
    for name, seconds in (
        ("first day: all days evaluated, and a fit", figures["first_day_seconds"]),
        ("ordinary day: one day evaluated, and a fit", figures["ordinary_day_seconds"]),
    ):
        table.add_row(name, f"{seconds:.3f} s", f"{seconds * _FLEET / 60 / _CORES:.1f} min on {_CORES} cores")
    milliseconds = figures["forecast_ms"]
    fleet = milliseconds * _FLEET / 1000
    name = f"a forecast, {figures['objects_a_task']} in a task"
    table.add_row(name, f"{milliseconds:.2f} ms", f"{fleet:.1f} s, {fleet / _CORES:.1f} s on {_CORES} cores")
    day = figures["ordinary_day_seconds"] + figures["forecast_ms"] / 1000 * _DAY_MINUTES
    table.add_row("a day with a forecast a minute", f"{day:.2f} s", f"{day * _FLEET / DAY * SECOND:.2f} cores")
    console.print(table)
    console.print(f"most memory of the worker: {figures['worker_mb']:.0f} MB")
    speed = machine()
    console.print(calibration_line(speed))
    console.print(f"written to {save('learning_cost', {**figures, 'machine': speed})}")


if __name__ == "__main__":
    main()
