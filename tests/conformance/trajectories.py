"""
Replays recorded runs of an upstream HorizontalPodAutoscaler through observe, decide, Memory.after and render.

vectors/ holds answers of `k8s.io/kubernetes` v1.36.3 (Apache-2.0), gates HPAScaleToZero and HPAConfigurableTolerance
on; nothing in it was written by hand, and nothing is to be edited. A line of trajectories.jsonl is one run of one
object: what the whole controller of pkg/controller/podautoscaler saw at each reconciliation and what it did, in fake
time. Masked are two accidents of the upstream: which pod a message names is map order, and an average over no pods
overflows.
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from cronhpa.api.events import events
from cronhpa.api.parse import parse_spec
from cronhpa.api.render import render
from cronhpa.core.decide import decide
from cronhpa.core.metrics.observe import Measurement, observe
from cronhpa.core.model.decision import Failed, Scaled, Withheld
from cronhpa.core.model.instant import parse_duration, parse_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation, Pod, Scale
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import Record
from cronhpa.core.model.spec import (
    ControllerOptions,
    ExternalMetric,
    Metric,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    Spec,
    UnknownMetric,
)
from cronhpa.kube import metric_values
from cronhpa.kube.label_selector import Selector, select
from cronhpa.kube.pod_indexer import PodIndexer
from cronhpa.kube.pods import RawPod, pod_from

NAMESPACE = "prod"
NOT_FOUND = 'deployments.apps "shop" not found'
FORBIDDEN = 'deployments/scale.apps "shop" is forbidden: not allowed'
UPSTREAM_CONDITIONS = ("AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero")
# Two accidents of the upstream: which pod a message names is map order, and an average over no pods overflows.
_NAMED_POD = re.compile(r"of Pod \S+")
_OVERFLOW = "-9223372036854775808m"


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a .jsonl.xz or .jsonl.gz file: a line of JSON takes an eighth of the memory of its objects."""
    with lzma.open(path, "rb") if path.suffix == ".xz" else gzip.open(path, "rb") as file:
        yield from file


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a .jsonl.xz or .jsonl.gz file."""
    yield from map(msgspec.json.decode, lines(path))


def options(flags: dict[str, Any]) -> ControllerOptions:
    return ControllerOptions(
        sync_period=parse_duration(flags["syncPeriod"]),
        tolerance=flags["tolerance"],
        downscale_stabilization=parse_duration(flags["downscaleStabilization"]),
        cpu_initialization_period=parse_duration(flags["cpuInitializationPeriod"]),
        initial_readiness_delay=parse_duration(flags["initialReadinessDelay"]),
    )


def replay(life: dict[str, Any]) -> Iterator[tuple[int, dict[str, tuple[Any, Any]]]]:
    """Tick by tick: the differences as {what: (upstream's, ours)}, empty where there is none."""
    flags = options(life["flags"])
    spec = parse_spec(life["spec"], NAMESPACE, flags)
    memory, status = Memory(), {"desiredReplicas": 0}
    for index, tick in enumerate(life["ticks"]):
        if "spec" in tick:
            spec = parse_spec(tick["spec"], NAMESPACE, flags)
        reconciliation = reconcile_tick(spec, tick, memory)
        memory = reconciliation.memory
        status = render(status, reconciliation)
        yield index, compare(tick["expect"], reconciliation, status)


def reconcile_tick(spec: Spec, tick: dict[str, Any], memory: Memory) -> Reconciliation:
    now = parse_instant(tick["now"])
    observation = observe_tick(spec, tick, now)
    decision = decide(spec, observation, None, memory, now)
    if not decision.rescales:
        outcome: Any = Withheld()
    elif "updateError" in tick["scale"]:
        outcome = Failed(FORBIDDEN)
    else:
        outcome = Scaled(now)
    after = memory.after(decision, outcome, spec, observation)
    return Reconciliation(Record(spec, observation, None, memory, now), decision, after, 1, outcome)


def observe_tick(spec: Spec, tick: dict[str, Any], now: int) -> Observation:
    text = tick["scale"]
    if "getError" in text:
        return observe(spec, Absent("FailedGetScale", NOT_FOUND), (), (), now)
    scale = Scale(text.get("specReplicas", 0), text.get("statusReplicas", 0), text.get("selector", ""))
    selector = select(scale.selector)
    if isinstance(selector, Absent):
        return observe(spec, scale, (), [metric_values.EMPTY] * len(spec.metrics), now, selector_problem=selector)
    measured = [_measured(metric, tick, selector) for metric in spec.metrics]
    return observe(spec, scale, pods_of(tick, selector), measured, now)


def pods_of(tick: dict[str, Any], selector: Selector) -> tuple[Pod, ...]:
    index = PodIndexer()
    for pod in tick.get("pods") or ():
        raw = msgspec.convert(pod, RawPod)
        index.put(NAMESPACE, raw.metadata.labels or {}, pod_from(raw))
    return index.matching(NAMESPACE, selector).pods


def _measured(metric: Metric, tick: dict[str, Any], selector: Selector) -> Measurement:
    if isinstance(metric, UnknownMetric):
        return 0
    kind = (
        "resource"
        if isinstance(metric, ResourceMetric)
        else "external"
        if isinstance(metric, ExternalMetric)
        else "custom"
    )
    answer = tick.get(kind) or {}
    if kind != "resource":
        answer = answer.get(metric.name) or {}
    if "error" in answer:
        return Absent("Unavailable", f"unable to fetch metrics from {kind} metrics API: {answer['error']}")
    items = answer.get("items") or []
    if isinstance(metric, ResourceMetric):
        listed = [body for body in items if selector.matches(body["metadata"].get("labels") or {})]
        return metric_values.samples_of(metric, msgspec.convert(listed, list[metric_values.PodMetrics]))
    if isinstance(metric, PodsMetric):
        return metric_values.pod_samples(msgspec.convert(items, list[metric_values.CustomMetric]))
    if isinstance(metric, ObjectMetric):
        return metric_values.object_value(msgspec.convert(items[0], metric_values.CustomMetric))
    return metric_values.external_value(msgspec.convert(items, list[metric_values.ExternalMetricValue]))


def compare(
    expect: dict[str, Any], reconciliation: Reconciliation, status: dict[str, Any]
) -> dict[str, tuple[Any, Any]]:
    ours = {
        "scaledTo": reconciliation.decision.desired if isinstance(reconciliation.outcome, Scaled) else None,
        "currentReplicas": status.get("currentReplicas", 0),
        "desiredReplicas": status.get("desiredReplicas", 0),
        "currentMetrics": status.get("currentMetrics"),
        "lastScaleTime": status.get("lastScaleTime"),
        "conditions": [
            {key: value for key, value in condition.items() if key != "observedGeneration"}
            for condition in status["conditions"]
            if condition["type"] in UPSTREAM_CONDITIONS
        ],
        "events": [
            {"type": event.type, "reason": event.reason, "message": event.message} for event in events(reconciliation)
        ],
    }
    theirs = {
        "scaledTo": expect["scaledTo"],
        "currentReplicas": expect["status"].get("currentReplicas", 0),
        "desiredReplicas": expect["status"].get("desiredReplicas", 0),
        "currentMetrics": expect["status"].get("currentMetrics"),
        "lastScaleTime": expect["status"].get("lastScaleTime"),
        "conditions": expect["status"].get("conditions", []),
        "events": expect["events"],
    }
    return {key: (theirs[key], ours[key]) for key in theirs if masked(theirs[key]) != masked(ours[key], theirs[key])}


def masked(value: Any, recorded: Any = None) -> str:
    """The text to compare, without the upstream's two accidents; `recorded` says where ours must be masked as well."""
    text = json.dumps(_without_overflow(value, value if recorded is None else recorded), sort_keys=True)
    return _NAMED_POD.sub("of Pod ?", text)


def _without_overflow(value: Any, recorded: Any) -> Any:
    if recorded == _OVERFLOW:
        return "?"
    if isinstance(value, dict) and isinstance(recorded, dict):
        return {key: _without_overflow(field, recorded.get(key)) for key, field in value.items()}
    if isinstance(value, list) and isinstance(recorded, list) and len(value) == len(recorded):
        return [_without_overflow(element, other) for element, other in zip(value, recorded, strict=True)]
    return value


class Score(Struct):
    trajectories: int = 0
    trajectories_matched: int = 0
    ticks: int = 0
    ticks_matched: int = 0
    first_difference: str = ""


def score(path: Path) -> Score:
    """How many lives and ticks of a file match, and where the first difference is."""
    total = Score()
    for life in read(path):
        differing = [(index, difference) for index, difference in replay(life) if difference]
        total.trajectories += 1
        total.trajectories_matched += not differing
        total.ticks += len(life["ticks"])
        total.ticks_matched += len(life["ticks"]) - len(differing)
        if differing and not total.first_difference:
            index, difference = differing[0]
            total.first_difference = f"{life['name']}, tick {index}: {json.dumps(difference, indent=1)}"
    return total
