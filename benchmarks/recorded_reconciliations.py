"""
What a reconciliation costs over the recorded lives of upstream HPAs: observe + decide + Memory.after, and the whole
reconciliation.

The reconciliations measured are those with one metric and about 10 pods that were computed, each repeated on its own
inputs. The whole reconciliation is what remains of one without its I/O: decoding the pods' metrics and rendering the
status as well. Decoding the pods themselves is left out: a watch does that when a pod changes, not at every
reconciliation.

A figure is the CPU of this thread over some calls, divided by their number; the median is over reconciliations.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from time import thread_time_ns
from typing import Any

import msgspec
from report import calibration_line, machine, save
from rich.console import Console
from rich.table import Table

from conformance import trajectories
from cronhpa.api.parse import parse_spec
from cronhpa.api.render import render
from cronhpa.core.decide import decide
from cronhpa.core.metrics.observe import Measurement, observe
from cronhpa.core.model.decision import DecisionKind
from cronhpa.core.model.instant import parse_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Scale
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.spec import ResourceMetric, Spec
from cronhpa.kube import metric_values
from cronhpa.kube.label_selector import select
from cronhpa.kube.pod_indexer import PodIndexer
from cronhpa.kube.pods import RawPod, pod_from

VECTORS = Path(__file__).parents[1] / "tests" / "conformance" / "vectors" / "trajectories.jsonl.xz"
FEWEST, MOST = 8, 13
GOAL_US = 30
_ROUNDS = 5
_CALLS = 20


@dataclass
class Costs:
    """Microseconds of CPU of each part, one entry a reconciliation."""

    decode: list[float] = field(default_factory=list)
    observe: list[float] = field(default_factory=list)
    decide: list[float] = field(default_factory=list)
    remember: list[float] = field(default_factory=list)
    render: list[float] = field(default_factory=list)

    def parts(self) -> dict[str, list[float]]:
        return {
            "decode metrics": self.decode,
            "observe": self.observe,
            "decide": self.decide,
            "Memory.after": self.remember,
            "render": self.render,
        }

    def policy(self) -> list[float]:
        """observe + decide + memory, a reconciliation each."""
        return [
            sum(reconciliation_parts)
            for reconciliation_parts in zip(self.observe, self.decide, self.remember, strict=True)
        ]

    def whole(self) -> list[float]:
        return [sum(reconciliation_parts) for reconciliation_parts in zip(*self.parts().values(), strict=True)]


def main() -> int:
    calibration = machine()
    costs, pods = Costs(), []
    gc.collect()
    gc.freeze()
    for life in trajectories.read(VECTORS):
        pods += live(life, costs)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(calibration_line(calibration))
    console.print(table(costs, pods))
    parts = {name: median(times) for name, times in costs.parts().items()}
    together = sum(parts.values())
    told = ", ".join(f"{name} {us / together:.0%}" for name, us in sorted(parts.items(), key=lambda pair: -pair[1]))
    policy = median(costs.policy())
    console.print(f"where the time goes: {told}", highlight=False)
    console.print(
        f"observe + decide + memory: {policy:.1f} us median, goal {GOAL_US} us; "
        f"whole reconciliation {median(costs.whole()):.1f} us",
        highlight=False,
    )
    path = save(
        "recorded_reconciliations",
        {
            "machine": calibration,
            "reconciliations": len(pods),
            "pods_median": median(pods),
            "observe_decide_memory_us": round(policy, 2),
            "whole_reconciliation_us": round(median(costs.whole()), 2),
            "parts_us": {name: round(us, 2) for name, us in parts.items()},
        },
    )
    console.print(f"figures: {path}", highlight=False)
    return 0


def live(life: dict[str, Any], costs: Costs) -> list[int]:
    """One life from its first tick to its last; returns the pods of each reconciliation that was measured."""
    flags = trajectories.options(life["flags"])
    spec = parse_spec(life["spec"], trajectories.NAMESPACE, flags)
    memory, status, counts = Memory(), {"desiredReplicas": 0}, []
    for tick in life["ticks"]:
        if "spec" in tick:
            spec = parse_spec(tick["spec"], trajectories.NAMESPACE, flags)
        reconciliation = trajectories.reconcile_tick(spec, tick, memory)
        count = len(tick.get("pods") or ())
        is_usual = (
            len(spec.metrics) == 1 and FEWEST <= count <= MOST and reconciliation.decision.kind is DecisionKind.COMPUTED
        )
        if is_usual and isinstance(spec.metrics[0], ResourceMetric):
            measure(spec, tick, memory, status, reconciliation, costs)
            counts.append(count)
        memory, status = reconciliation.memory, render(status, reconciliation)
    return counts


def measure(
    spec: Spec,
    tick: dict[str, Any],
    memory: Memory,
    status: dict[str, Any],
    reconciliation: Reconciliation,
    costs: Costs,
) -> None:
    metric = spec.metrics[0]
    now = parse_instant(tick["now"])
    scale = Scale(tick["scale"]["specReplicas"], tick["scale"].get("statusReplicas", 0), tick["scale"]["selector"])
    selector = select(scale.selector)
    assert isinstance(metric, ResourceMetric)
    assert not isinstance(selector, Absent)
    index = PodIndexer()
    for pod_body in tick["pods"]:
        raw = msgspec.convert(pod_body, RawPod)
        index.put(trajectories.NAMESPACE, raw.metadata.labels or {}, pod_from(raw))
    pods = index.matching(trajectories.NAMESPACE, selector).pods
    text = msgspec.json.encode((tick.get("resource") or {}).get("items") or [])
    decoder = msgspec.json.Decoder(list[metric_values.PodMetrics])

    def decode() -> Measurement:
        return metric_values.samples_of(metric, decoder.decode(text))

    measured = decode()
    observation = observe(spec, scale, pods, [measured], now)
    assert decide(spec, observation, None, memory, now) == reconciliation.decision
    costs.decode.append(_cost(decode))
    costs.observe.append(_cost(lambda: observe(spec, scale, pods, [measured], now)))
    costs.decide.append(_cost(lambda: decide(spec, observation, None, memory, now)))
    costs.remember.append(
        _cost(lambda: memory.after(reconciliation.decision, reconciliation.outcome, spec, observation))
    )
    costs.render.append(_cost(lambda: render(status, reconciliation)))


def table(costs: Costs, pods: list[int]) -> Table:
    out = Table(title=f"{len(pods)} recorded reconciliations with one resource metric and {FEWEST} to {MOST} pods")
    out.add_column("part of a reconciliation")
    for heading in ("median us", "95th percentile us"):
        out.add_column(heading, justify="right")
    rows = costs.parts() | {
        "observe + decide + memory": costs.policy(),
        "whole reconciliation without I/O": costs.whole(),
    }
    for name, times in rows.items():
        out.add_row(name, f"{median(times):.1f}", f"{quantiles(times, n=20)[-1]:.1f}")
    return out


def _cost(call: Callable[[], object]) -> float:
    """Microseconds of CPU a call, the least of some rounds: what else the machine did is not its cost."""
    rounds = []
    for _ in range(_ROUNDS):
        begun = thread_time_ns()
        for _ in range(_CALLS):
            call()
        rounds.append((thread_time_ns() - begun) / _CALLS / 1e3)
    return min(rounds)


if __name__ == "__main__":
    sys.exit(main())
