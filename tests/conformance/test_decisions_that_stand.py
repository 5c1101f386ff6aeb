"""cronhpa.core.standing: over the recorded runs of the upstream what stands is what would be decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.trajectories import NAMESPACE, observe_tick, options, pods_of, read, reconcile_tick
from cronhpa.api.parse import parse_spec
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Withheld
from cronhpa.core.model.instant import SECOND, format_instant, parse_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation, Pod
from cronhpa.core.model.record import Record
from cronhpa.core.model.spec import ResourceMetric, Spec
from cronhpa.core.standing import Standing, standing_of
from cronhpa.kube.label_selector import select
from cronhpa.kube.metric_values import PodMetrics
from cronhpa.kube.metrics import PodMetricsByName

LIVES = Path(__file__).parent / "vectors" / "trajectories.jsonl.xz"
# Each recorded reconciliation is held: the same pods so many seconds later, with loads that move by so many
# thousandths.
HELD = (
    *((15, 0), (15, 10), (60, -5), (100, 0), (95, 10), (15, 0)),
    *((400, 20), (15, -30), (700, 10), (15, -80), (15, 20), (15, 10), (15, 150), (15, 0), (3600, 5)),
)


@pytest.mark.slow
def test_a_decision_that_stands_is_the_one_that_would_be_made():
    """Readings, decision and memory, over every tenth life."""
    stood, differences = compared(islice(read(LIVES), 0, None, 10))

    assert [] == differences
    assert stood > 2_000


@pytest.mark.long
def test_every_decision_that_stands_is_the_one_that_would_be_made():
    stood, differences = compared(read(LIVES))

    assert [] == differences
    assert stood > 20_000


def compared(lives: Iterable[dict[str, Any]]) -> tuple[int, list[str]]:
    """In how many periods a decision stood; which of them differ from those that were decided."""
    stood, differences = 0, []
    for life in lives:
        for index, spec, tick, memory in ticks(life):
            for stands, decided in held(spec, tick, memory):
                stood += stands is not None
                if stands is not None and stands != decided:
                    differences.append(f"{life['name']} tick {index}")
    return stood, differences


def ticks(life: dict[str, Any]) -> Iterator[tuple[int, Spec, dict[str, Any], Memory]]:
    """The ticks, with the memory before them."""
    flags = options(life["flags"])
    spec = parse_spec(life["spec"], NAMESPACE, flags)
    memory = Memory()
    for index, tick in enumerate(life["ticks"]):
        if "spec" in tick:
            spec = parse_spec(tick["spec"], NAMESPACE, flags)
        yield index, spec, tick, memory
        memory = reconcile_tick(spec, tick, memory).memory


def held(spec: Spec, tick: dict[str, Any], memory: Memory) -> Iterator[tuple[Any, Any]]:
    """A tick and then the same pods again and again: (what stands or None, what is decided) of each."""
    selector = select(tick["scale"].get("selector", ""))
    if isinstance(selector, Absent):
        return
    pods = pods_of(tick, selector)
    stands: Any = None
    for seconds, thousandths in ((0, 0), *HELD):
        now = parse_instant(tick["now"]) + seconds * SECOND
        tick = {**tick, "now": format_instant(now), "resource": moved(tick.get("resource"), thousandths)}
        for kind in ("custom", "external"):
            tick[kind] = {
                name: with_moved_value(sample, thousandths) for name, sample in (tick.get(kind) or {}).items()
            }
        observation = observe_tick(spec, tick, now)
        decision = decide(spec, observation, None, memory, now)
        after = memory.after(decision, Withheld(), spec, observation)
        usages = None if stands is None else usages_read(stands, tick, pods, observation, now)
        is_covered = stands is not None and usages is not None and stands.covers(usages, now)
        if stands is not None and usages is not None and is_covered:
            stands.note_period(usages, now, now)
            stood = stands.newest_readings, stands.newest_decision, stands.newest_memory
            yield stood, (observation.readings, decision, after)
        else:
            stands = standing_of(Record(spec, observation, None, memory, now), pods, decision, after)
        memory = after


def moved(answer: dict[str, Any] | None, thousandths: int) -> dict[str, Any] | None:
    """An answer of the metrics API with the usage of the first pod moved by so much, where that can be read."""
    items = (answer or {}).get("items")
    if not items or not thousandths:
        return answer
    first = msgspec.json.decode(msgspec.json.encode(items[0]))
    for container in first.get("containers") or ():
        usage = container.get("usage") or {}
        for name, text in usage.items():
            usage[name] = moved_quantity(text, thousandths)
    return {**(answer or {}), "items": [first, *items[1:]]}


def with_moved_value(answer: dict[str, Any], thousandths: int) -> dict[str, Any]:
    """The same of the first value of another metrics API."""
    items = answer.get("items")
    if not items or not isinstance(items[0].get("value"), str):
        return answer
    return {**answer, "items": [{**items[0], "value": moved_quantity(items[0]["value"], thousandths)}, *items[1:]]}


def moved_quantity(text: str, thousandths: int) -> str:
    if text.isdecimal():
        return str(int(text) * (1000 + thousandths) // 1000)
    if text[:-1].isdecimal():
        return f"{int(text[:-1]) * (1000 + thousandths) // 1000}{text[-1]}"
    return text


def usages_read(
    stands: Standing, tick: dict[str, Any], pods: tuple[Pod, ...], observation: Observation, now: int
) -> tuple[int, ...] | None:
    """The usages of a reconciliation as the operator reads them: off one list of all pods, or off the readings."""
    if not all(isinstance(metric, ResourceMetric) for metric in stands.spec.metrics):
        return stands.usages_of(observation.readings)
    return listed_usages(stands.spec, tick, pods) if now >= stands.started or trusts(stands, tick) else None


def trusts(stands: Standing, tick: dict[str, Any]) -> bool:
    """Whether the pods that are starting count with their samples."""
    items = msgspec.convert((tick.get("resource") or {}).get("items") or [], list[PodMetrics])
    cpu = next(metric for metric in stands.spec.metrics if isinstance(metric, ResourceMetric) and metric.name == "cpu")
    return stands.trusts(PodMetricsByName(items).samples(cpu, [pod.name for pod in stands.starting]))


def listed_usages(spec: Spec, tick: dict[str, Any], pods: tuple[Pod, ...]) -> tuple[int, ...] | None:
    """
    The usage of all pods by each metric, where each pod has a sample.

    None also where there are metrics of a pod that is not known: the operator asks for metrics by the pods' names.
    """
    selector = select(tick["scale"]["selector"])
    items = msgspec.convert((tick.get("resource") or {}).get("items") or [], list[PodMetrics])
    assert not isinstance(selector, Absent)
    raw = (tick.get("resource") or {}).get("items") or []
    selected = {body["metadata"]["name"] for body in raw if selector.matches(body["metadata"].get("labels") or {})}
    listed = PodMetricsByName(items)
    if spec.metrics and selected != {pod.name for pod in pods}:
        return None
    usages = [listed.usage(metric, [pod.name for pod in pods]) for metric in spec.metrics]
    return tuple(usage for usage in usages if usage is not None) if None not in usages else None
