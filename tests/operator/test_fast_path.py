"""cronhpa.operator.fast_path, cronhpa.operator.repeatable, cronhpa.operator.grid: repeated turns change nothing."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from lives import CPU, Life, condition, cronhpa, deployment, one_pod_each, rules, until
from model_api import Fault, ModelApi
from virtual_time import live

from cronhpa.core.instant import DAY, SECOND

# Of an instant as text, behind its tenths of a second.
FRACTION = re.compile(r"(T\d\d:\d\d:\d\d\.\d)\d+")
EDGE = {"name": "rush", "start": "2 7 * * *", "end": "5 7 * * *", "timeZone": "UTC", "minReplicas": 7}
MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
}


def lived(happenings: Any, spec: Any, *, checks: bool) -> tuple[Any, int, int]:
    """
    What a life of so many turns leaves: writes, stored loads and points, the memory. And how many turns were repeated,
    or compared. checks: every turn is decided.
    """

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        cronhpa(api, **spec)
        async with Life(api, checks_fast_path=checks) as life:
            for turn, (what, number) in enumerate(happenings):
                await until(turn * 15 + 8)
                HAPPENS[what](api, number)
            await until(len(happenings) * 15 + 16)
            controller = life.controller
            found = {
                "writes": api.writes,
                "loads": [*controller.reconciler.loads],
                "points": controller.writer.decisions.take_points(10_000),
                "memory": life.memory(),
                "turns": controller.control_loop.metrics.reconciles,
            }
            fast_path = controller.reconciler.fast_path
            return in_tenths(msgspec.to_builtins(found)), fast_path.repeated, fast_path.compared

    return live(scenario)


def in_tenths(value: Any) -> Any:
    """Instants in tenths of a second: the model's clock counts the passes of the loop, which differ."""
    if isinstance(value, dict):
        return {key: in_tenths(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [in_tenths(entry) for entry in value]
    if isinstance(value, str):
        return FRACTION.sub(r"\1", value)
    return value * 10 // SECOND if isinstance(value, int) and value > DAY else value


def _rival(api: ModelApi, _: int) -> None:
    """Another autoscaler of the target comes, or goes."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    if api.objects["horizontalpodautoscalers"]:
        api.delete("horizontalpodautoscalers", "prod", "rival")
    else:
        api.create("horizontalpodautoscalers", "prod", "rival", spec={"scaleTargetRef": target})


def _clock(api: ModelApi, seconds: int) -> None:
    """By up to 35 s: a step of more than five makes every object due."""
    api.clock_offset += (seconds - 5) * 7 * SECOND


def _selector(api: ModelApi, number: int) -> None:
    labels = {"app": "shop" if number % 2 else "other"}
    api.edit("deployments", "prod", "shop", spec={"selector": {"matchLabels": labels}})


def _pod(api: ModelApi, number: int) -> None:
    """A pod fails, or runs again."""
    if ("prod", "shop-000") in api.objects["pods"]:
        api.edit("pods", "prod", "shop-000", status={"phase": "Running" if number % 2 else "Failed"})


HAPPENS = {
    "load": lambda api, number: api.load.update({("prod", "shop"): number}),
    "no metrics": lambda api, _: api.load.pop(("prod", "shop"), None),
    "forged": lambda api, number: api.edit("cronhpas", "prod", "shop", status={"desiredReplicas": number}),
    "edited": lambda api, number: api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 5 + number % 6}),
    "scaled by hand": lambda api, number: api.edit("deployments", "prod", "shop", spec={"replicas": number % 8}),
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
        {"mode": "Preview"},
        {"minReplicas": 5, "behavior": rules(one_pod_each(60, window=60), one_pod_each(60, window=120))},
    ]
)


@given(happenings, specs)
@settings(max_examples=40)
def test_a_life_with_repeated_turns_writes_stores_and_remembers_the_same(happenings, spec):
    """In the life that decides every turn, each one that could be repeated is compared as well."""
    repeating, repeated, _ = lived(happenings, spec, checks=False)
    deciding, _, compared = lived(happenings, spec, checks=True)

    assert deciding == repeating
    assert compared >= repeated


def test_contradictions_are_looked_for_after_an_edge_of_a_life_at_rest():
    """The window asks for a pod fewer than there are, so its begin at 07:02 and its end at 07:05 change nothing."""

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        cronhpa(api, schedules=[{**EDGE, "minReplicas": 4}], behavior=rules(one_pod_each(15), one_pod_each(15)))
        async with Life(api, checks_fast_path=False) as life:
            await until(360)
            (state,) = life.inventory
            return state.checked[1] - api.now(), life.controller.reconciler.fast_path.repeated

    ahead, repeated = live(scenario)

    assert ahead > DAY // 2
    assert repeated > 10


def test_pods_that_are_not_watched_any_more_are_not_believed_because_they_were_before():
    """From 30 s after the end of the watch on, a load over them is none."""

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        cronhpa(api)
        async with Life(api, checks_fast_path=False):
            await until(60)
            api.faults = [Fault("GET", "^/api/v1/pods$", status=403, times=None)]
            api.cut_watches("pods")
            await until(120)
        return condition(api, "ScalingActive")["status"]

    assert "False" == live(scenario)


def test_a_quiet_life_repeats_all_turns_but_the_first():
    """The first turn at one load is decided and written, and the others repeat it."""
    found, repeated, _ = lived([("load", 2500)] * 20, {}, checks=False)

    assert found["turns"] - 1 == repeated >= 20


def test_a_load_that_wanders_within_the_tolerance_is_repeated_until_its_numbers_are_due_in_the_status():
    """Of 40 turns a handful writes the drifted numbers, or follows such a write."""
    found, repeated, _ = lived([("load", 2500 + 10 * (turn % 7)) for turn in range(40)], {}, checks=False)

    assert repeated >= 34
    assert 3 == len(found["points"])  # of 07:00, 07:05 and 07:10
    assert 2 <= len(found["writes"]) <= 4
