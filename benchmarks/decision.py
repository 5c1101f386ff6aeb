"""
What one decision costs: CPU and memory of `decide` for a target of 10 pods, with the rest of its reconciliation beside
it.

Two specs: one metric alone, as any HPA has it, and the same with two schedules (one open, one closed) and a forecast.
Each has lived for an hour before, so its memory is as full as it gets. The collector is set as the operator sets it.

A figure is the CPU of this thread over a batch of calls, divided by their number: median and 95th percentile of many
batches. Bytes are tracemalloc's of a single call: the most that was held at once, and what its result keeps.
"""

from __future__ import annotations

import cProfile
import gc
import pstats
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

import msgspec
from report import calibration_line, machine, save
from rich.console import Console
from rich.table import Table

from cronhpa.api.parse import parse_spec
from cronhpa.api.render import render
from cronhpa.api.status_text import Status
from cronhpa.core.decide import decide
from cronhpa.core.metrics.observe import observe
from cronhpa.core.model.decision import Decision, Withheld
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, Nanoseconds, format_instant, parse_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Observation, Pod, Scale
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import Record
from cronhpa.core.model.spec import ControllerOptions, ResourceMetric, Spec
from cronhpa.kube.metric_values import PodMetrics, samples_of
from cronhpa.kube.pods import RawPod, pod_from
from cronhpa.operator.writes.written_status import needed_between

PODS = 10
BATCHES = 200
BATCH_SECONDS = 0.004
NOW = parse_instant("2026-11-02T10:15:00Z")  # a Monday
COUNT = 10
# The reconciliations of an hour at 15 s.
_LIVED = 240
_PROFILED = 2_000
_DAYS = 300

PLAIN: dict[str, Any] = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
    "minReplicas": 2,
    "maxReplicas": 40,
    "metrics": [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
    ],
    "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}},
}
TIMED: dict[str, Any] = PLAIN | {
    "timeZone": "Europe/Berlin",
    "schedules": [
        {"name": "office-hours", "start": "0 8 * * mon-fri", "end": "0 18 * * mon-fri", "minReplicas": 6},
        {"name": "night", "start": "0 22 * * *", "end": "0 6 * * *", "maxReplicas": 8},
    ],
    "forecast": {"mode": "Active"},
}


@dataclass(frozen=True)
class CallFigures:
    """us: microseconds of CPU a call. peak_bytes: held at most during a call, kept_bytes: by its result."""

    us: float
    us_p95: float
    peak_bytes: int
    kept_bytes: int
    kept_blocks: int


@dataclass(frozen=True)
class Situation:
    """Everything that the parts of one reconciliation take."""

    spec: Spec
    scale: Scale
    pods: tuple[Pod, ...]
    listed: tuple[PodMetrics, ...]
    forecast: Forecast | None
    observation: Observation
    memory: Memory
    decision: Decision
    status: Status

    def parts(self) -> dict[str, Callable[[], object]]:
        """The parts of a reconciliation in their order, each a call of what the operator calls, with what it passes."""
        metric = self.spec.metrics[0]
        assert isinstance(metric, ResourceMetric)
        samples = samples_of(metric, self.listed)
        after = self.memory.after(self.decision, Withheld(), self.spec, self.observation)
        record = Record(self.spec, self.observation, self.forecast, self.memory, NOW)
        reconciliation = Reconciliation(record, self.decision, after, 1, forecast=self.forecast)
        rendered = render(self.status, reconciliation)
        return {
            "read 10 samples": lambda: samples_of(metric, self.listed),
            "observe": lambda: observe(self.spec, self.scale, self.pods, [samples], NOW),
            "decide": lambda: decide(self.spec, self.observation, self.forecast, self.memory, NOW),
            "Memory.after": lambda: self.memory.after(self.decision, Withheld(), self.spec, self.observation),
            "render": lambda: render(self.status, reconciliation),
            "compare statuses": lambda: needed_between(self.status, rendered),
        }


def main() -> int:
    calibration = machine()
    situations = {
        "metric only": situation(PLAIN, None),
        "metric, 2 schedules, forecast": situation(TIMED, forecast(NOW)),
    }
    # As cronhpa/operator/app.py does once the first lists are there.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    figures = {
        label: {name: measure(call) for name, call in case.parts().items()} for label, case in situations.items()
    }
    new_day_us = first_of_a_day(situations["metric, 2 schedules, forecast"])

    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(calibration_line(calibration))
    for label, parts in figures.items():
        console.print(table(label, parts))
        console.print(where(label, parts), highlight=False)
    console.print(
        f"The first reconciliation of a UTC day computes the edges of its schedules: {new_day_us:.0f} us of "
        "decide, once a day for all objects with the same windows.",
        highlight=False,
    )
    functions = profile(situations["metric, 2 schedules, forecast"])
    console.print(
        "Most own time in the full reconciliation (cProfile, which flatters long functions): "
        + ", ".join(f"{name} {share:.0f} %" for name, share in functions),
        highlight=False,
    )
    path = save(
        "decision",
        {
            "pods": PODS,
            "machine": calibration,
            "figures": {
                label: {name: asdict(cost) for name, cost in parts.items()} for label, parts in figures.items()
            },
            "reconciliation_us": {label: round(total(parts), 2) for label, parts in figures.items()},
            "decide_first_of_a_day_us": round(new_day_us, 1),
            "own_time_percent": {name: round(share, 1) for name, share in functions},
        },
    )
    console.print(f"figures: {path}", highlight=False)
    return 0


def situation(text: dict[str, Any], predicted: Forecast | None) -> Situation:
    """A target in the middle of its life: 10 ready pods at their target, reconciliations behind it for an hour."""
    spec = parse_spec(text, "default", ControllerOptions())
    scale = Scale(COUNT, COUNT, "app=shop", "1")
    pods, listed = tuple(map(pod, range(PODS))), tuple(map(pod_metrics, range(PODS)))
    metric = spec.metrics[0]
    assert isinstance(metric, ResourceMetric)
    observation = observe(spec, scale, pods, [samples_of(metric, listed)], NOW)
    memory, status = Memory(), Status()
    for reconciliation in range(_LIVED, -1, -1):
        now = NOW - reconciliation * 15 * SECOND
        latest_forecast = predicted and msgspec.structs.replace(predicted, issued_at=now - 30 * SECOND)
        decision = decide(spec, observation, latest_forecast, memory, now)
        record = Record(spec, observation, latest_forecast, memory, now)
        memory = memory.after(decision, Withheld(), spec, observation)
        status = render(status, Reconciliation(record, decision, memory, 1, forecast=latest_forecast))
    assert decision.desired == COUNT, decision
    assert not decision.abstentions, decision.abstentions
    return Situation(spec, scale, pods, listed, predicted, observation, memory, decision, status)


def pod(number: int) -> Pod:
    created = format_instant(NOW - DAY)
    return pod_from(
        msgspec.convert(
            {
                "metadata": {"name": f"shop-6d4cf56db6-{number}", "creationTimestamp": created},
                "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1", "memory": "128Mi"}}}]},
                "status": {
                    "phase": "Running",
                    "startTime": created,
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": created}],
                },
            },
            RawPod,
        )
    )


def pod_metrics(number: int) -> PodMetrics:
    """Around the target of 60 %: nanocores, as metrics-server writes them."""
    usage = 590_000_000 + number * 2_222_223
    return msgspec.convert(
        {
            "metadata": {"name": f"shop-6d4cf56db6-{number}", "namespace": "default"},
            "timestamp": format_instant(NOW - 10 * SECOND),
            "window": "15s",
            "containers": [{"name": "app", "usage": {"cpu": f"{usage}n", "memory": "101376Ki"}}],
        },
        PodMetrics,
    )


def forecast(now: Nanoseconds) -> Forecast:
    """A day ahead in steps of five minutes; its largest load over the lead time asks for 8 of the 10 pods."""
    step = 5 * MINUTE
    return Forecast(
        metric="cpu",
        issued_at=now - 30 * SECOND,
        start=now - now % step - HOUR,
        step=step,
        load=(6.5,) * 288,
        ceiling=20.0,
        model="periodic-autoregression",
        quantile_percent=95,
        trained_until=now - HOUR,
        coverage_percent=94,
    )


def measure(call: Callable[[], object]) -> CallFigures:
    count = 1
    while (taken := batch(call, count)) < BATCH_SECONDS * 1e9:
        count = max(count + 1, int(count * min(100.0, BATCH_SECONDS * 1.1e9 / max(taken, 1))))
    times = [batch(call, count) / count / 1e3 for _ in range(BATCHES)]
    peak, kept, blocks = allocated(call)
    return CallFigures(round(median(times), 2), round(quantiles(times, n=20)[-1], 2), peak, kept, blocks)


def batch(call: Callable[[], object], count: int) -> int:
    """Nanoseconds of CPU that so many calls take; the loop itself is 20 ns of each."""
    begun = time.thread_time_ns()
    for _ in range(count):
        call()
    return time.thread_time_ns() - begun


def allocated(call: Callable[[], object]) -> tuple[int, int, int]:
    """(bytes held at most, bytes kept by the result, blocks kept by it) of one call."""
    results = [None, *(call() for _ in range(3))]  # caches are warm, and the list has room
    results.clear()
    tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    result = call()
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    blocks = sys.getallocatedblocks()
    again = call()
    blocks = sys.getallocatedblocks() - blocks - 1  # the first number is a block itself
    del result, again
    return peak - before, after - before, blocks


def first_of_a_day(case: Situation) -> float:
    """Microseconds of a `decide` that meets its day for the first time: median over days that no cache knows."""
    taken = []
    for day in range(1, _DAYS + 1):
        now = NOW + day * DAY
        begun = time.thread_time_ns()
        decide(case.spec, case.observation, case.forecast, case.memory, now)
        taken.append((time.thread_time_ns() - begun) / 1e3)
    return median(taken)


def total(parts: dict[str, CallFigures]) -> float:
    return sum(cost.us for cost in parts.values())


def where(label: str, parts: dict[str, CallFigures]) -> str:
    reconciliation = total(parts)
    shares = sorted(((cost.us / reconciliation, name) for name, cost in parts.items()), reverse=True)
    told = ", ".join(f"{name} {share:.0%}" for share, name in shares)
    return f"{label}: a reconciliation takes {reconciliation:.0f} us without its I/O: {told}."


def table(label: str, parts: dict[str, CallFigures]) -> Table:
    out = Table(title=f"One reconciliation of a target with {PODS} pods: {label}")
    out.add_column("part of a reconciliation")
    for heading in ("CPU us", "95th percentile", "peak bytes", "kept bytes", "kept blocks"):
        out.add_column(heading, justify="right")
    for name, cost in parts.items():
        cells = (
            f"{cost.us:.1f}",
            f"{cost.us_p95:.1f}",
            *map(str, (cost.peak_bytes, cost.kept_bytes, cost.kept_blocks)),
        )
        out.add_row(name, *cells, style="bold" if name == "decide" else None)
    out.add_row("together", f"{total(parts):.1f}")
    return out


def profile(case: Situation) -> list[tuple[str, float]]:
    """The six functions with the largest share of their own in the time of a whole reconciliation, in percent."""
    parts = list(case.parts().values())
    profiler = cProfile.Profile(time.thread_time)
    profiler.enable()
    for _ in range(_PROFILED):
        for call in parts:
            call()
    profiler.disable()
    rows = sorted(_own_times(pstats.Stats(profiler)), reverse=True)
    whole = sum(seconds for seconds, _ in rows)
    return [(name, 100 * seconds / whole) for seconds, name in rows[:6]]


def _own_times(stats: pstats.Stats) -> Iterator[tuple[float, str]]:
    for (file, _, name), row in stats.stats.items():  # type: ignore[attr-defined]  # pstats has it and does not declare it
        module = file.rpartition("/")[2].removesuffix(".py")
        yield row[2], f"{module}.{name}" if module not in {"~", ""} else name


if __name__ == "__main__":
    sys.exit(main())
