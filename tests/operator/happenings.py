"""
What happens in lives of the operator on the model API, reconciliation by reconciliation, and what such a life leaves.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from hypothesis import strategies as st
from lives import CPU, NEIGHBOURS, Life, at_rest, cronhpa, deployment, external, one_pod_each, rules, until
from model_api import ModelApi
from virtual_time import live

from cronhpa.core.model.instant import DAY, MINUTE, SECOND

# Of an instant as text, behind its tenths of a second.
FRACTION = re.compile(r"(T\d\d:\d\d:\d\d\.\d)\d+")
EDGE = {"name": "rush", "start": "2 7 * * *", "end": "5 7 * * *", "timeZone": "UTC", "minReplicas": 7}
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": 10}},
}
MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
}


def lived(
    happenings: Any, spec: Any, *, checks: bool, neighbours: tuple[str, ...] = (), start_up: float | None = None
) -> tuple[Any, int]:
    """
    What a life of so many periods leaves: writes, stored loads and points, memories and newest decisions. And for how
    many periods a decision stood. checks: each of them is decided as well.

    neighbours: other objects of the namespace, at rest all the time but for what happens to all. start_up: of pods, in
    seconds; None where they are an hour old at once.
    """

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        api.external["queue"] = 50
        cronhpa(api, **spec)
        for name in neighbours:
            at_rest(api, name)
        api.start_up = start_up
        async with Life(api, check_standing=checks) as life:
            for reconciliation, (what, number) in enumerate(happenings):
                await until(reconciliation * 15 + 8)
                happens = HAPPENS[what]
                if happens is None:
                    assert all(state.local.memory and state.local.latest_decision for state in life.inventory)
                else:
                    happens(api, number)
            await until(len(happenings) * 15 + 16)
            controller = life.controller
            outcome = {
                # Of one object in their order: that of several objects at one instant is anybody's.
                "writes": sorted(api.writes, key=lambda write: write[1]),
                "loads": highest(life.loads()),
                "points": sorted(controller.writer.decisions.take_points(10_000), key=lambda point: point[1]),
                "memories": {state.name: state.local.memory for state in life.inventory},
                "newest": {state.name: state.local.latest_decision for state in life.inventory},
                "reconciliations": controller.control_loop.metrics.reconciles,
            }
            return in_tenths(msgspec.to_builtins(outcome)), controller.reconciler.standing.stood

    return live(scenario)


def highest(loads: Any) -> Any:
    """The maxima of the minutes of each series, which are what is stored."""
    maxima: dict[Any, float] = {}
    for sample in loads:
        minute = (sample.series.name, sample.at // MINUTE)
        maxima[minute] = max(sample.value, maxima.get(minute, 0.0))
    return sorted(maxima.items())


def in_tenths(value: Any) -> Any:
    """Instants in tenths of a second: the model's clock counts the passes of the loop, which differ."""
    if isinstance(value, dict):
        return {key: in_tenths(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [in_tenths(entry) for entry in value]
    if isinstance(value, str):
        return FRACTION.sub(r"\1", value)
    return value * 10 // SECOND if isinstance(value, int) and value > DAY else value


def _any(number: int) -> str:
    """One of the objects, as a number says."""
    return ("shop", *NEIGHBOURS)[number % 5]


def _known(api: ModelApi, plural: str, number: int) -> bool:
    return ("prod", _any(number)) in api.objects[plural]


def _forged(api: ModelApi, number: int) -> None:
    if _known(api, "cronhpas", number):
        api.edit("cronhpas", "prod", _any(number), status={"desiredReplicas": number})


def _edited(api: ModelApi, number: int) -> None:
    if _known(api, "cronhpas", number):
        api.edit("cronhpas", "prod", _any(number), spec={"maxReplicas": 5 + number % 6})


def _scaled_by_hand(api: ModelApi, number: int) -> None:
    if _known(api, "deployments", number):
        api.edit("deployments", "prod", _any(number), spec={"replicas": number % 8})


def _rival(api: ModelApi, number: int) -> None:
    """Another autoscaler of a target comes, or goes."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": _any(number)}
    if api.objects["horizontalpodautoscalers"]:
        api.delete("horizontalpodautoscalers", "prod", "rival")
    else:
        api.create("horizontalpodautoscalers", "prod", "rival", spec={"scaleTargetRef": target})


def _clock(api: ModelApi, seconds: int) -> None:
    """By up to 35 s: a step of more than five makes every object due."""
    api.clock_offset += (seconds - 5) * 7 * SECOND


def _selector(api: ModelApi, number: int) -> None:
    name = _any(number)
    if _known(api, "deployments", number):
        labels = {"app": name if number % 2 else "other"}
        api.edit("deployments", "prod", name, spec={"selector": {"matchLabels": labels}})


def _pod(api: ModelApi, number: int) -> None:
    """A pod fails, or runs again."""
    name = f"{_any(number)}-000"
    if ("prod", name) in api.objects["pods"]:
        api.edit("pods", "prod", name, status={"phase": "Running" if number % 2 else "Failed"})


def _gone(api: ModelApi, number: int) -> None:
    """A neighbour is deleted, or made anew."""
    name = NEIGHBOURS[number % len(NEIGHBOURS)]
    if ("prod", name) in api.objects["cronhpas"]:
        api.delete("cronhpas", "prod", name)
        api.delete("deployments", "prod", name)
    else:
        at_rest(api, name)


HAPPENS = {
    "asked": None,
    "gone": _gone,
    "all loads": lambda api, number: api.load.update({("prod", name): 1000 + number for name in NEIGHBOURS}),
    "load": lambda api, number: api.load.update({("prod", "shop"): number}),
    "no metrics": lambda api, _: api.load.pop(("prod", "shop"), None),
    "queue": lambda api, number: api.external.update({"queue": 46 + number}),
    "no queue": lambda api, _: api.external.pop("queue", None),
    "forged": _forged,
    "edited": _edited,
    "scaled by hand": _scaled_by_hand,
    "rival": _rival,
    "selector": _selector,
    "pod": _pod,
    "blind": lambda api, _: api.cut_watches("pods"),
    "clock": _clock,
}
loads = st.sampled_from([2300, 2400, 2500, 2500, 2500, 2500, 2700, 4000])
happenings = st.lists(
    st.one_of(
        *([st.tuples(st.just("load"), loads)] * 5),
        st.tuples(st.sampled_from([what for what in HAPPENS if what != "load"]), st.integers(0, 10)),
    ),
    min_size=1,
    max_size=40,
)
specs = st.sampled_from(
    [
        {},
        {"behavior": rules(one_pod_each(15), one_pod_each(30))},
        {"schedules": [EDGE]},
        {"metrics": None, "schedules": [EDGE]},
        {"metrics": [CPU, MEMORY]},
        {"metrics": [QUEUE]},
        {"metrics": [external("queue", 50), CPU], "behavior": rules(one_pod_each(15), one_pod_each(30))},
        {"mode": "Preview"},
        {"minReplicas": 5, "behavior": rules(one_pod_each(60, window=60), one_pod_each(60, window=120))},
    ]
)
