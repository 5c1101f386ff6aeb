"""cronhpa.operator.rest: objects whose turns are repeated together, and what each of them has when it is looked at."""

from __future__ import annotations

import gc
from itertools import pairwise
from typing import Any

import pytest
from lives import NEIGHBOURS, Life, at_rest, cronhpa, deployment, until
from model_api import START, ModelApi
from virtual_time import live

from cronhpa.core.instant import MINUTE, SECOND
from cronhpa.core.memory import Memory
from cronhpa.kube.metrics import list_pod_metrics
from cronhpa.operator.delaying_queue import following
from cronhpa.operator.rest import Rest

PERIOD = 15 * SECOND
OPEN = {"name": "all-day", "start": "0 0 * * *", "durationMinutes": 1440, "timeZone": "UTC", "minReplicas": 2}


def resting(seconds: float, then: Any) -> Any:
    """What `then` makes of the life of four objects, from so many seconds after the start on."""

    async def scenario() -> Any:
        api = ModelApi()
        for name in NEIGHBOURS:
            at_rest(api, name)
        async with Life(api, checks_fast_path=False) as life:
            await until(seconds)
            return await then(api, life)

    return live(scenario)


def test_objects_at_rest_take_their_turns_together_and_remember_each_of_them_once_somebody_asks():
    """In ten minutes each has 40 turns. The recommendations of a window of 300 s are 15 s from each other."""

    async def asked(api: ModelApi, life: Life) -> Any:
        memories = [state.memory for state in life.inventory if state.name != "rest-3"]
        newest = {state.newest.decision.at for state in life.inventory}
        return memories, newest, api.now(), life.controller.reconciler.fast_path

    memories, newest, now, fast_path = resting(595, asked)

    assert fast_path.together > 0.8 * fast_path.repeated > 100
    assert 1 == len(newest)
    assert now - max(newest) <= PERIOD
    for memory in memories:
        instants = sorted(entry.at for entry in memory.recommendations)
        assert max(newest) == instants[-1]
        assert {PERIOD} == {later - earlier for earlier, later in pairwise(instants[-20:])}


def test_an_object_at_rest_is_decided_at_once_when_its_edit_comes_and_leaves_the_others_at_rest():
    async def edited(api: ModelApi, life: Life) -> Any:
        api.edit("cronhpas", "prod", "rest-1", spec={"minReplicas": 4})
        await until(101)
        return api.replicas("prod", "rest-1"), [state.rest is None for state in life.inventory]

    replicas, is_awake = resting(100, edited)

    assert 4 == replicas
    assert [False, True, False, False] == is_awake


@pytest.mark.parametrize(("load", "replicas", "is_awake"), [(1080, 2, False), (1600, 4, True)])
def test_a_load_within_the_tolerance_leaves_an_object_at_rest_and_one_beyond_it_is_followed(load, replicas, is_awake):
    """Two pods of one core at 50 %. 54 % is within the tolerance of 10 %; 80 % ask for 2 * 80 / 50 = 3.2 pods."""

    async def followed(api: ModelApi, life: Life) -> Any:
        api.load["prod", "rest-1"] = load
        await until(116)
        return api.replicas("prod", "rest-1"), [state.rest is None for state in life.inventory]

    assert (replicas, [False, is_awake, False, False]) == resting(100, followed)


def test_an_object_at_rest_is_decided_at_the_edge_of_its_schedule_and_not_at_the_turn_after_it():
    """
    The window begins at 07:04, and its lead 20 s before: a start-up of 5 s and a period of 15 s. The turns of this
    namespace are at 10.6 s, 25.6 s and so on. One of them is its own: the bounds behind the edge are worked out then,
    at a time that differs from process to process.
    """
    window = {"name": "rush", "start": "4 7 * * *", "end": "8 7 * * *", "timeZone": "UTC", "minReplicas": 4}

    async def scenario() -> Any:
        api = ModelApi()
        at_rest(api, "rest-0")
        api.edit("cronhpas", "prod", "rest-0", spec={"schedules": [window]})
        async with Life(api, checks_fast_path=False) as life:
            await until(230)
            return life.controller.reconciler.fast_path.together, api.scalings

    together, scalings = live(scenario)

    assert together >= 5
    ((at, _, before, after),) = scalings
    assert (2, 4) == (before, after)
    assert 220.0 <= (at - START) / SECOND < 220.3


def test_when_all_objects_at_rest_are_gone_nothing_is_listed_for_them():
    async def gone(api: ModelApi, life: Life) -> Any:
        for name in NEIGHBOURS:
            api.delete("cronhpas", "prod", name)
        await until(101)
        lists = life.control_loop.lists.sent
        await until(200)
        return life.control_loop.lists.sent - lists

    assert 0 == resting(100, gone)


def test_of_a_namespace_whose_objects_need_no_pod_metrics_nothing_is_kept_once_they_are_gone():
    """Their turns are repeated one by one. A cluster makes and removes namespaces as long as it lives."""

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, "idle", namespace="passing")
        cronhpa(api, "idle", "passing", metrics=None, schedules=[OPEN])
        async with Life(api, checks_fast_path=False) as life:
            await until(400)
            repeated = life.controller.reconciler.fast_path.repeated
            api.delete("cronhpas", "passing", "idle")
            await until(500)
            gc.collect()
            kept = [rest for rest in gc.get_objects() if isinstance(rest, Rest)]
            return repeated, [rest.namespace for rest in kept if rest.namespace == "passing"]

    repeated, kept = live(scenario)

    assert repeated > 3
    assert [] == kept


@pytest.mark.parametrize(
    "happens",
    [
        lambda life, state: life.inventory.resume(state),
        lambda _, state: setattr(state, "memory", Memory()),
        lambda _, state: setattr(state, "in_doubt", True),
        lambda _, state: setattr(state, "generation", 2),
        lambda _, state: setattr(state, "status", {}),
        lambda _, state: setattr(state.rest.members[state.key], "until", START),
    ],
    ids=["resumed", "another memory", "in doubt", "edited", "another status", "something is due"],
)
def test_an_object_at_rest_to_which_something_happens_right_before_the_turn_of_all_has_a_turn_of_its_own(happens):
    woken, state, others = resting(100, lambda api, life: turn_after(api, life, happens))

    assert [state] == woken
    assert state.rest is None
    assert 3 == others


@pytest.mark.parametrize(
    "happens",
    [
        lambda life, _: life.controller.owners.note_hpa("prod", "another", None),
        lambda life, state: setattr(state.rest, "last", (state.rest.last[0], life.api.now())),
        lambda _, state: setattr(state.rest, "last", (START - MINUTE, state.rest.last[1])),
        lambda _, state: state.rest.operators.add("prod/somebody-else"),
        lambda _, state: state.rest.informers.add(None),
    ],
    ids=["owners", "a turn of this instant", "a point is due", "another installation", "a target is not seen"],
)
def test_no_turn_is_taken_together_where_something_is_due_or_unknown_of_all(happens):
    woken, _, others = resting(100, lambda api, life: turn_after(api, life, happens))

    assert (4, 0) == (len(woken), others)


async def turn_after(api: ModelApi, life: Life, happens: Any) -> Any:
    """
    Those whose turn is their own, the first object, and how many others repeat their turn together, where something
    happens to the first right before.

    The control loop has not been told yet: it waits for its list, which takes a millisecond in this model.
    """
    at = (following("prod", PERIOD, api.now()) - START) / SECOND
    await until(at - 0.01)
    listed = await list_pod_metrics(life.client, "prod")
    await until(at + 0.0005)
    state = next(iter(life.inventory))
    rest, fast_path = state.rest, life.controller.reconciler.fast_path
    happens(life, state)
    repeated, woken = fast_path.take_together(rest, listed)
    return woken, state, repeated


def test_what_changed_between_two_objects_that_came_to_rest_has_not_been_looked_at_for_the_first():
    async def joined(_: ModelApi, life: Life) -> Any:
        first, second, *_ = life.inventory
        for state in (first, second):
            state.rest.leave((state,))
        rest = Rest("prod", PERIOD, 99)
        rest.join(first, 5)
        second.said.at = first.said.at + SECOND
        rest.join(second, 6)
        return rest.changes, [at - first.said.at for at in rest.last]

    assert (5, [0, SECOND]) == resting(100, joined)


def test_something_of_an_object_is_due_when_its_bounds_may_change_its_past_ends_or_contradictions_are_looked_for():
    """These are looked for a period late."""

    async def joined(_: ModelApi, life: Life) -> Any:
        states = [*life.inventory][:3]
        rest = Rest("prod", PERIOD, 99)
        for state, bounds, ends, checked in zip(states, (7, 7, 7), (9, 9, 3), (9, 5, 9), strict=True):
            state.rest.leave((state,))
            steady = state.said.repeatable.steady
            steady.until, steady.ends, state.checked = bounds * PERIOD, ends * PERIOD, (1, checked * PERIOD)
            rest.join(state, 5)
        return [member.until // PERIOD for member in rest.members.values()]

    assert [7, 6, 3] == resting(100, joined)
