"""
cronhpa.operator.fast_path, cronhpa.operator.repeatable, cronhpa.operator.grid: repeated turns change nothing, whether
they are taken one by one or together.
"""

from __future__ import annotations

from typing import Any

import pytest
from happenings import EDGE, QUEUE, happenings, highest, lived, specs
from hypothesis import given, settings
from hypothesis import strategies as st
from lives import CPU, NEIGHBOURS, Life, condition, cronhpa, deployment, one_pod_each, rules, until
from model_api import START, Fault, ModelApi
from virtual_time import live

from cronhpa.core import steady
from cronhpa.core.decide import decide
from cronhpa.core.instant import DAY, MINUTE
from cronhpa.core.reactive.replicas import measure


@given(happenings, specs, st.sampled_from([None, 20.0]))
@settings(max_examples=40)
def test_a_life_with_repeated_turns_writes_stores_and_remembers_the_same(happenings, spec, start_up):
    """In the life that decides every turn, each one that could be repeated is compared as well."""
    repeating, repeated, _ = lived(happenings, spec, checks=False, neighbours=NEIGHBOURS, start_up=start_up)
    deciding, _, compared = lived(happenings, spec, checks=True, neighbours=NEIGHBOURS, start_up=start_up)

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


def test_the_load_of_the_minute_under_way_is_stored_of_an_object_that_another_replica_decides_from_now_on():
    """The shard is given up in the sixth minute of an object at rest."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        cronhpa(api)
        async with Life(api, checks_fast_path=False) as life:
            await until(5 * 60 + 40)
            life.inventory.drop_all(lambda _: True)
            return life.controller.reconciler.fast_path.repeated, highest(life.controller.reconciler.loads)

    repeated, stored = live(scenario)

    assert repeated > 10
    assert (("shop", START // MINUTE + 5), 2.5) == stored[-1]


def test_a_quiet_life_repeats_all_turns_but_the_first():
    """The first turn at one load is decided and written, and the others repeat it."""
    outcome, repeated, _ = lived([("load", 2500)] * 20, {}, checks=False)

    assert outcome["turns"] - 1 == repeated >= 20


@pytest.mark.parametrize(("start_up", "decided"), [(None, 5), (20.0, 8)])
def test_after_a_scaling_turns_are_repeated_but_for_those_at_which_its_past_ends(start_up, decided):
    """
    Five pods at 80 % become eight at 50 % in the third of 40 turns. Five were asked for until then, and leave the
    window five minutes later: at one turn for decisions, at the next for the status. New pods count from the fourth
    turn on, whose samples of 30 s lie behind their readiness.
    """
    happens = [("load", 2500)] * 2 + [("load", 4000)] * 38

    outcome, repeated, _ = lived(happens, {}, checks=False, start_up=start_up)

    assert 8 == outcome["memories"]["shop"]["replicas"]
    assert decided == outcome["turns"] - repeated


def test_a_turn_whose_own_metric_asks_for_the_same_count_is_repeated_and_asks_once():
    """Five pods of 10 each. 54 is within the tolerance of 10 %; the numbers are due in the status once or twice."""
    queues = [("queue", turn % 9) for turn in range(40)]

    outcome, repeated, _ = lived(queues, {"metrics": [QUEUE]}, checks=False)

    assert repeated >= 36
    assert 3 == len(outcome["points"])
    assert 2 <= len(outcome["writes"]) <= 4


def test_a_turn_of_an_own_metric_whose_number_is_due_in_the_status_is_remembered_once():
    """Found: it was taken, and decided nevertheless, so that its recommendation was remembered twice."""
    queues = [("queue", turn % 9) for turn in range(40)]

    repeating, *_ = lived(queues, {"metrics": [QUEUE]}, checks=False)
    deciding, *_ = lived(queues, {"metrics": [QUEUE]}, checks=True)

    assert deciding == repeating


def test_at_rest_no_metric_is_measured_anew_even_where_its_numbers_may_be_written(monkeypatch):
    """They may be from some time within the first five of these fifteen minutes on: that is looked at once."""
    measured = []

    def noting(*given: Any) -> Any:
        measured.append(given)
        return measure(*given)

    monkeypatch.setattr(steady, "measure", noting)
    _, repeated, _ = lived([("load", 2500)] * 60, {}, checks=False)

    assert repeated >= 60
    assert 1 <= len(measured) <= 5  # three for the points of 07:00, 07:05 and 07:10


def test_a_load_that_wanders_within_the_tolerance_is_repeated_until_its_numbers_are_due_in_the_status():
    """Of 40 turns a handful writes the drifted numbers, or follows such a write."""
    outcome, repeated, _ = lived([("load", 2500 + 10 * (turn % 7)) for turn in range(40)], {}, checks=False)

    assert repeated >= 34
    assert 3 == len(outcome["points"])  # of 07:00, 07:05 and 07:10
    assert 2 <= len(outcome["writes"]) <= 4


def test_a_canary_under_the_labels_of_the_target_is_asked_about_once_and_its_turns_are_repeated():
    """Five pods of the target and one of a canary, at 50 % each, which is what is asked for: nothing changes."""

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        (pod, *_) = api.objects["pods"].values()
        canary = {key: pod[key] for key in ("spec", "status")}
        api.create("pods", "prod", "canary", metadata={"labels": {"app": "shop"}}, **canary)
        cronhpa(api)
        async with Life(api, checks_fast_path=False) as life:
            await until(120)
            asked, repeated = api.count("GET", "/shop/scale"), life.controller.reconciler.fast_path.repeated
            await until(600)
            return (
                asked,
                api.count("GET", "/shop/scale") - asked,
                life.controller.reconciler.fast_path.repeated - repeated,
                api.scalings,
            )

    asked, more, repeated, scalings = live(scenario)

    # 480 s are 32 turns.
    assert (1, 0, []) == (asked, more, scalings)
    assert repeated >= 28


@pytest.mark.parametrize("metrics", [[CPU], [QUEUE]], ids=["listed", "asked for"])
def test_numbers_that_are_due_in_the_status_are_written_without_a_decision(metrics):
    """
    Fifteen minutes within the tolerance, in which numbers are due three times or so.

    Found: of a metric that is asked for, such a turn was repeated and decided, and its recommendation remembered twice.
    """
    decisions = []

    def counting(*given: Any) -> Any:
        decisions.append(None)
        return decide(*given)

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=5)
        cronhpa(api, metrics=metrics)

        def move(turn: int) -> None:
            api.load["prod", "shop"] = 2500 + 10 * (turn % 7)
            api.external["queue"] = 50 + turn % 4

        move(0)
        async with Life(api, decide=counting, checks_fast_path=False) as life:
            await until(40)
            decided, written = len(decisions), len(api.writes)
            for turn in range(60):
                move(turn)
                await until(40 + turn * 15)
            remembered = [entry.at for entry in life.memory().recommendations]
            (shown,) = api.objects["cronhpas"]["prod", "shop"]["status"]["currentMetrics"]
            return len(decisions) - decided, len(api.writes) - written, shown, remembered

    more, written, shown, remembered = live(scenario)

    assert 0 == more
    assert 2 <= written <= 4
    assert shown[shown["type"].lower()]["current"]["averageValue"] not in {"500m", "10"}
    assert sorted({*remembered}) == sorted(remembered)


def test_numbers_of_a_turn_are_not_written_over_an_edit_that_came_right_after_it(monkeypatch):
    """The load of the twelfth minute drifts; before its numbers are written, the maximum is 6 instead of 10."""

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        cronhpa(api)
        async with Life(api, checks_fast_path=False) as life:
            await until(11 * 60)
            api.load["prod", "shop"] = 2550
            fast_path = life.controller.reconciler.fast_path
            take, left_at = fast_path.take, []

            def taking(states: Any, listed: Any) -> Any:
                taken, left = take(states, listed)
                if left and not left_at:
                    left_at.append(len(api.writes))
                    api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 6})
                    life.inventory.put(api.objects["cronhpas"]["prod", "shop"])
                return taken, left

            monkeypatch.setattr(fast_path, "take", taking)
            await until(12 * 60)
            return [body["status"] for _, _, body in api.writes[left_at[0] :]]

    first, *_ = live(scenario)

    assert (2, 6) == (first["observedGeneration"], first["effectiveMaxReplicas"])
