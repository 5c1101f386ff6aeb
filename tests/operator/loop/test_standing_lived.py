"""cronhpa.operator.loop.standing_decisions, cronhpa.core.sync_grid: while a decision stands nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from happenings import EDGE, QUEUE, happenings, highest, lived, specs
from hypothesis import given, settings
from hypothesis import strategies as st
from lives import CPU, NEIGHBOURS, Life, condition, cronhpa, deployment, one_pod_each, rules, until
from model_api import START, Fault, ModelApi
from virtual_time import live

from cronhpa.core.decide import decide
from cronhpa.core.model.instant import DAY, MINUTE


@pytest.mark.slow
@given(happenings, specs, st.sampled_from([None, 20.0]))
@settings(max_examples=40)
def test_a_life_whose_decisions_stand_writes_stores_and_remembers_what_one_does_that_compares_them(
    happenings, spec, start_up
):
    """In the life that compares, each decision that stands is made anew, and must be the same."""
    standing, stood = lived(happenings, spec, checks=False, neighbours=NEIGHBOURS, start_up=start_up)
    compared, stood_too = lived(happenings, spec, checks=True, neighbours=NEIGHBOURS, start_up=start_up)

    assert compared == standing
    assert stood_too == stood


def test_a_life_that_compares_lets_stand_what_stands_while_the_hpas_are_unknown():
    """From 30 s after the end of their watch on. Found: of twelve periods only five stood, the others were decided."""

    async def scenario(*, checks: bool) -> Any:
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        cronhpa(api)
        async with Life(api, check_standing=checks) as life:
            await until(60)
            api.faults = [Fault("GET", "/horizontalpodautoscalers", status=403, times=None)]
            api.cut_watches("horizontalpodautoscalers")
            api.load["prod", "shop"] = 2600
            await until(200)
            (state,) = life.inventory
            return state.local.memory, life.controller.reconciler.standing.stood

    assert live(lambda: scenario(checks=False)) == live(lambda: scenario(checks=True))


def test_contradictions_are_looked_for_after_an_edge_of_a_life_at_rest():
    """The window asks for a pod fewer than there are, so its begin at 07:02 and its end at 07:05 change nothing."""

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        cronhpa(api, schedules=[{**EDGE, "minReplicas": 4}], behavior=rules(one_pod_each(15), one_pod_each(15)))
        async with Life(api, check_standing=False) as life:
            await until(360)
            (state,) = life.inventory
            return state.local.conflicts_until - api.now(), life.controller.reconciler.standing.stood

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
        async with Life(api, check_standing=False):
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
        async with Life(api, check_standing=False) as life:
            await until(5 * 60 + 40)
            life.inventory.drop_all(lambda _: True)
            return life.controller.reconciler.standing.stood, highest(life.controller.reconciler.loads.unstored)

    repeated, stored = live(scenario)

    assert repeated > 10
    assert (("shop", START // MINUTE + 5), 2.5) == stored[-1]


def test_a_quiet_decision_stands_but_for_a_full_reconciliation_in_five_minutes():
    """Of 21 periods of 15 s, 5 min 15 s, the first is decided, and one or two more."""
    outcome, stood = lived([("load", 2500)] * 20, {}, checks=False)

    assert 1 <= outcome["reconciliations"] - 1 - stood <= 2


@pytest.mark.parametrize(("start_up", "decided"), [(None, 5), (20.0, 8)])
def test_after_a_scaling_a_decision_stands_until_its_past_ends(start_up, decided):
    """
    Five pods at 80 % become eight at 50 % in the third of 40 periods. Five were asked for until then, and leave the
    window five minutes later: in one period for decisions, in the next for the status. New pods count from the fourth
    period on, whose samples of 30 s lie behind their readiness. Up to three more are the
    full reconciliations of ten minutes.
    """
    happens = [("load", 2500)] * 2 + [("load", 4000)] * 38

    outcome, stood = lived(happens, {}, checks=False, start_up=start_up)

    assert 8 == outcome["memories"]["shop"]["replicas"]
    assert decided < outcome["reconciliations"] - stood <= decided + 3


def test_a_decision_on_a_requested_metric_stands_at_values_that_ask_for_its_count():
    """Five pods of 10 each. 54 is within the tolerance of 10 %; the numbers are due in the status once or twice."""
    queues = [("queue", reconciliation % 9) for reconciliation in range(40)]

    outcome, stood = lived(queues, {"metrics": [QUEUE]}, checks=False)

    assert stood >= 30
    assert 2 <= len(outcome["points"]) <= 3
    assert 2 <= len(outcome["writes"]) <= 4


def test_a_reconciliation_of_an_own_metric_whose_number_is_due_in_the_status_is_remembered_once():
    """Found: it was taken, and decided nevertheless, so that its recommendation was remembered twice."""
    queues = [("queue", reconciliation % 9) for reconciliation in range(40)]

    standing, _ = lived(queues, {"metrics": [QUEUE]}, checks=False)
    compared, _ = lived(queues, {"metrics": [QUEUE]}, checks=True)

    assert compared == standing


def test_a_decision_stands_while_a_load_wanders_within_the_tolerance():
    """A full reconciliation in five minutes writes what has drifted."""
    outcome, stood = lived(
        [("load", 2500 + 10 * (reconciliation % 7)) for reconciliation in range(40)], {}, checks=False
    )

    assert stood >= 30
    assert 2 <= len(outcome["points"]) <= 3  # one in five minutes
    assert 2 <= len(outcome["writes"]) <= 4


def test_a_decision_stands_beside_a_canary_under_the_labels_of_the_target():
    """Five pods of the target and one of a canary, at 50 % each, which is what is asked for: nothing changes."""

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        (pod, *_) = api.objects["pods"].values()
        canary = {key: pod[key] for key in ("spec", "status")}
        api.create("pods", "prod", "canary", metadata={"labels": {"app": "shop"}}, **canary)
        cronhpa(api)
        async with Life(api, check_standing=False) as life:
            await until(120)
            stood = life.controller.reconciler.standing.stood
            await until(600)
            return api.count("GET", "/shop/scale"), life.controller.reconciler.standing.stood - stood, api.scalings

    requests, stood, scalings = live(scenario)

    # 480 s are 32 periods.
    assert (0, []) == (requests, scalings)
    assert stood >= 28


@pytest.mark.parametrize("metrics", [[CPU], [QUEUE]], ids=["listed", "asked for"])
def test_numbers_that_are_due_in_the_status_are_written_by_full_reconciliations(metrics):
    """
    Fifteen minutes within the tolerance, in which numbers are due three times or so. A period is remembered once.
    """
    decisions = []

    def counting(*given: Any) -> Any:
        decisions.append(None)
        return decide(*given)

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=5)
        cronhpa(api, metrics=metrics)

        def move(reconciliation: int) -> None:
            api.load["prod", "shop"] = 2500 + 10 * (reconciliation % 7)
            api.external["queue"] = 50 + reconciliation % 4

        move(0)
        async with Life(api, decide=counting, check_standing=False) as life:
            await until(40)
            decided, written = len(decisions), len(api.writes)
            for reconciliation in range(60):
                move(reconciliation)
                await until(40 + reconciliation * 15)
            remembered = [entry.at for entry in life.memory().recommendations]
            (shown,) = api.objects["cronhpas"]["prod", "shop"]["status"]["currentMetrics"]
            return len(decisions) - decided, len(api.writes) - written, shown, remembered

    more, written, shown, remembered = live(scenario)

    assert 3 <= more <= 4  # one in five minutes
    assert 1 <= written <= 4
    assert shown[shown["type"].lower()]["current"]["averageValue"] not in {"500m", "10"}
    assert sorted({*remembered}) == sorted(remembered)


def at_fifty_percent() -> ModelApi:
    """An object whose decision stands from its first period on."""
    api = ModelApi()
    deployment(api, replicas=2)
    api.load["prod", "shop"] = 1000
    cronhpa(api)
    return api


def test_a_status_whose_write_the_end_of_a_term_cancelled_is_written_in_the_next_one():
    """Found: the decision of the edit stood, and its status was written five minutes later."""

    async def scenario() -> Any:
        api, goes_on = at_fifty_percent(), asyncio.Event()
        async with Life(api, check_standing=False) as life:
            await until(100)
            api.faults = [Fault("PATCH", "/status", waits=goes_on, times=None)]
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 9})
            await until(103)
            await life.control_loop.close(0)
            api.faults = []
            goes_on.set()
            life.inventory.take_over(knows_all=True)
            await until(120)
            return api.objects["cronhpas"]["prod", "shop"]["status"]["observedGeneration"]

    assert 2 == live(scenario)


def test_a_status_in_doubt_is_read_again_in_each_period_until_that_succeeds():
    """Found: after one refused read a decision stood over a status that the API may not hold."""

    async def scenario() -> Any:
        api = at_fifty_percent()
        async with Life(api, check_standing=False) as life:
            await until(100)
            (state,) = life.inventory
            state.writes.status_unknown = state.local.changed = True
            api.faults = [Fault("GET", "/cronhpas/shop", status=500, times=1)]
            await until(135)
            return state.writes.status_unknown

    assert not live(scenario)


def test_an_object_that_is_made_anew_while_the_old_one_waits_for_its_list_is_decided_at_once():
    """Found: it was due by the period of the old one, here two minutes later. The LIST takes 4 s."""

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=2)
        api.load["prod", "shop"] = 1000
        cronhpa(api, syncPeriodSeconds=120)
        async with Life(api, check_standing=False):
            await until(10)
            is_sent = asyncio.Event()

            def latency(_method: str, path: str) -> float:
                if "/metrics.k8s.io" not in path:
                    return 0.0
                is_sent.set()
                return 4.0

            api.latency = latency
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 9})
            await is_sent.wait()
            sent_at = asyncio.get_running_loop().time()
            api.delete("cronhpas", "prod", "shop")
            cronhpa(api, minReplicas=5)
            await until(sent_at + 12)
            return api.replicas("prod", "shop")

    assert 5 == live(scenario)
