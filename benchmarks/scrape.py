"""
What a scrape of /metrics costs: the families of SCRAPE_OBJECTS (10,000) objects, as the operator renders them.

Each object has a metric, two schedules and a forecast that acts, the most of what an object tells; then the same with a
metric alone. The figures are CPU seconds of one rendering, the longest time for which it held the event loop, and the
ratio to prometheus_client's `generate_latest` of as many samples, which holds the loop all the time.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from decision import NOW, PLAIN, TIMED, forecast, situation
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from report import calibration_line, machine, save

from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import Record
from cronhpa.operator.monitoring.object_metrics import ObjectMetrics
from cronhpa.operator.objects.object_state import ObjectState

OBJECTS = int(os.environ.get("SCRAPE_OBJECTS", "10000"))
_ROUNDS = 3
_CONDITIONS = ("AbleToScale", "ScalingActive", "ScalingLimited", "SpecAccepted", "TargetOwned", "Ready")


def objects(spec: dict[str, Any], count: int) -> list[ObjectState]:
    """As they are after their first reconciliation, each with texts of its own."""
    forecasts = forecast(NOW) if "forecast" in spec else None
    made = situation(spec, forecasts)
    states = []
    for number in range(count):
        state = ObjectState(f"team-{number // 100}", f"shop-{number}", f"uid-{number}", NOW)
        state.served.parsed.expanded = made.spec
        state.served.status = {"conditions": [{"type": kind, "status": "True"} for kind in _CONDITIONS]}
        record = Record(made.spec, made.observation, forecasts, made.memory, NOW)
        state.local.latest = Reconciliation(record, made.decision, made.memory, 1, forecast=forecasts, budget_used=12)
        states.append(state)
    return states


async def measured(metrics: ObjectMetrics) -> tuple[str, float, float]:
    """The text, the CPU seconds of its rendering and the longest wait of another task meanwhile."""
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            after = time.thread_time()
            longest, before = max(longest, after - before), after

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)
    begun = time.thread_time()
    parts = await metrics.parts(NOW)
    spent = time.thread_time() - begun
    beating.cancel()
    text = b"".join(parts).decode()
    return text, spent, longest


def by_library(samples: int) -> float:
    """CPU seconds of `generate_latest` for so many samples of one gauge with the labels of an object and two more."""
    registry = CollectorRegistry()
    gauge = Gauge("library", "As many samples.", ["namespace", "name", "source", "role"], registry=registry)
    for number in range(samples):
        gauge.labels(f"team-{number // 3000}", f"shop-{number // 30}", "Metric", f"role-{number % 30}").set(number)
    begun = time.thread_time()
    generate_latest(registry)
    return time.thread_time() - begun


def rendered(states: list[ObjectState]) -> dict[str, float]:
    metrics = ObjectMetrics(states, lambda *_: 10)
    best = min((asyncio.run(measured(metrics)) for _ in range(_ROUNDS)), key=lambda run: run[1])
    text, seconds, held = best
    samples = text.count("\n") - text.count("\n# ") - 1
    library = min(by_library(samples) for _ in range(_ROUNDS))
    return {
        "objects": len(states),
        "samples": samples,
        "megabytes": round(len(text) / 1e6, 1),
        "seconds": round(seconds, 3),
        "held_ms": round(held * 1000, 1),
        "library_seconds": round(library, 3),
        "ratio": round(seconds / library, 2),
    }


def main() -> None:
    document: dict[str, Any] = {}
    for name, spec in (("timed", TIMED), ("plain", PLAIN)):
        document[name] = figures = rendered(objects(spec, OBJECTS))
        print(
            f"{name}: {figures['objects']:,} objects, {figures['samples']:,} samples, {figures['megabytes']} MB: "
            f"{figures['seconds']:.3f} s, loop held {figures['held_ms']} ms at most; "
            f"generate_latest {figures['library_seconds']:.3f} s, ratio {figures['ratio']}"
        )
    document["machine"] = machine()
    print(calibration_line(document["machine"]))
    save("scrape", document)


if __name__ == "__main__":
    main()
