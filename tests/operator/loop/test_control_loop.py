"""cronhpa.operator.loop.control_loop, cronhpa.operator.loop.reconciler: who is due, and when."""

import asyncio

import pytest
from lives import CPU, Life, condition, cronhpa, deployment, one_pod_each, rules, shop, status, timeline, until
from model_api import START, Fault, ModelApi
from msgspec.structs import replace
from virtual_time import live

from cronhpa.core.decide import decide
from cronhpa.core.model.instant import DAY, HOUR, SECOND
from cronhpa.core.model.memory import Memory, ScaleEvent
from cronhpa.core.sync_grid import following, remembered_at


async def reconciliations_until(life, seconds):
    """The number of reconciliations that end from now until `seconds` after the start."""
    before = life.control_loop.metrics.reconciles
    await until(seconds)
    return life.control_loop.metrics.reconciles - before


def next_reconciliation(seconds, period=15, namespace="prod"):
    """The second of the first reconciliation after this one on the namespace's grid."""
    return (following(namespace, period * SECOND, START + int(seconds * SECOND)) - START) / SECOND


def test_reconciliations_come_once_a_period_however_much_is_scaled():
    """Without a behavior each reconciliation may double: 2, 4, 8 at the start, 15 and 30 s, and not all at once."""

    async def scenario():
        api = shop(2, 30_000, maxReplicas=60)
        async with Life(api) as life:
            assert 1 == await reconciliations_until(life, 1)
            first = next_reconciliation(0)
            assert 4 == await reconciliations_until(life, first + 3 * 15 + 1)
        assert [(2, 4), (4, 8), (8, 16), (16, 32), (32, 60)] == [change[1:] for change in timeline(api)]
        assert [0, *(int(first + reconciliation * 15) for reconciliation in range(4))] == [
            change[0] for change in timeline(api)
        ]

    live(scenario)


def test_a_policy_of_a_period_allows_a_step_a_reconciliation_though_metrics_come_faster_each_time():
    """
    One pod in 15 s and a reconciliation in 15 s; each answer comes 50 ms sooner after its reconciliation than the one
    before.
    """

    async def scenario():
        api = shop(2, 30_000, behavior=rules(one_pod_each(15), one_pod_each(15)))
        waits = iter(range(450, 0, -50))
        api.latency = lambda _, path: next(waits) / 1000 if "/metrics.k8s.io" in path else 0.001
        async with Life(api):
            first = next_reconciliation(15)
            await until(first + 3 * 15 + 1)
        assert [
            (0, 2, 3),
            *(
                (int(first + 15 * reconciliation), 3 + reconciliation, 4 + reconciliation)
                for reconciliation in range(4)
            ),
        ] == timeline(api)

    live(scenario)


def test_what_comes_between_two_reconciliations_is_remembered_by_its_own_time():
    """
    An edit right after a reconciliation is no second step of that reconciliation, and one in the middle none at all.
    """
    memory = Memory(scale_ups=(ScaleEvent(1, START),))
    grid = following("prod", 15 * SECOND, START)

    assert grid == remembered_at(memory, "prod", 15 * SECOND, grid)
    assert grid == remembered_at(memory, "prod", 15 * SECOND, grid + SECOND)
    assert grid + 2 * SECOND == remembered_at(memory, "prod", 15 * SECOND, grid + 2 * SECOND)
    scaled = replace(memory, scale_downs=(ScaleEvent(1, grid),))
    assert grid + SECOND == remembered_at(scaled, "prod", 15 * SECOND, grid + SECOND)


def test_of_a_long_period_no_edit_is_backdated_by_more_than_an_answer_takes():
    """A tenth of an hour would be six minutes: a window of five would be over at once."""
    grid = following("prod", HOUR, START)

    assert grid == remembered_at(Memory(), "prod", HOUR, grid + SECOND)
    assert grid + 2 * SECOND == remembered_at(Memory(), "prod", HOUR, grid + 2 * SECOND)


def test_a_count_that_somebody_changes_waits_for_the_next_reconciliation():
    async def scenario():
        api = shop()
        async with Life(api) as life:
            await until(next_reconciliation(0) + 1)
            api.edit("deployments", "prod", "shop", spec={"replicas": 7})
            assert 0 == await reconciliations_until(life, next_reconciliation(0) + 14)

    live(scenario)


def test_an_edit_is_acted_upon_at_once():
    async def scenario():
        api = shop()
        async with Life(api):
            at = next_reconciliation(0) + 3
            await until(at)
            api.edit("cronhpas", "prod", "shop", spec={"minReplicas": 5})
            await until(at + 1)
        assert [(int(at), 2, 5)] == timeline(api)

    live(scenario)


def test_an_edit_during_a_reconciliation_is_acted_upon_when_the_reconciliation_is_over():
    async def scenario():
        api = shop(minReplicas=3)
        goes_on = asyncio.Event()
        api.faults = [Fault("PATCH", "/scale", waits=goes_on)]
        async with Life(api):
            await until(1)
            api.edit("cronhpas", "prod", "shop", spec={"minReplicas": 5})
            await until(2)
            goes_on.set()
            await until(3)
        assert [(2, 2, 3), (2, 3, 5)] == timeline(api)

    live(scenario)


def test_an_edit_into_what_cannot_be_read_ends_a_reconciliation_that_waits_without_an_error():
    async def scenario():
        api = shop(minReplicas=3)
        goes_on = asyncio.Event()
        api.faults = [Fault("GET", "/metrics.k8s.io", waits=goes_on)]
        async with Life(api) as life:
            await until(1)
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": "many"})
            await until(2)
            goes_on.set()
            await until(3)
            assert 0 == life.control_loop.metrics.errors
        assert [] == timeline(api)
        assert "False" == condition(api, "SpecAccepted")["status"]

    live(scenario)


def test_an_edge_is_acted_upon_at_its_instant():
    """The window opens at 07:01:00; with reconciliations an hour apart nothing else would look at it."""

    async def scenario():
        night = {"name": "rush", "start": "1 7 * * *", "end": "2 7 * * *", "minReplicas": 4, "leadTimeSeconds": 0}
        api = shop(schedules=[night], syncPeriodSeconds=3600)
        async with Life(api):
            await until(61)
        assert [(60, 2, 4)] == timeline(api)

    live(scenario)


@pytest.mark.parametrize(("cap", "reconciliations"), [({}, 0), ({"maxReplicas": 5}, 1)])
def test_a_start_whose_floor_counts_already_waits_for_the_next_period(cap, reconciliations):
    """The lead has begun when the operator starts; at the start nothing but a cap changes the bounds."""

    async def scenario():
        rush = {"name": "rush", "start": "1 7 * * *", "end": "9 7 * * *", "minReplicas": 4, **cap}
        api = shop(schedules=[rush])
        async with Life(api) as life:
            await until(59)
            assert [2, 4] == [timeline(api)[0][1], timeline(api)[-1][2]]
            assert next_reconciliation(59) > 60.5
            assert reconciliations == await reconciliations_until(life, 60.5)
            assert ("Open" in str(status(api)["schedules"])) == bool(reconciliations)
            await until(76)
            assert "Open" in str(status(api)["schedules"])

    live(scenario)


def test_an_edge_that_falls_inside_a_reconciliation_brings_another_one():
    """
    The reconciliation that began at 59 s waits for its metrics beyond the edge at 60 s: once it is over, the edge is
    seen.
    """

    async def scenario():
        night = {"name": "rush", "start": "1 7 * * *", "end": "2 7 * * *", "minReplicas": 4, "leadTimeSeconds": 0}
        api = shop(schedules=[night], syncPeriodSeconds=3600)
        goes_on = asyncio.Event()
        async with Life(api):
            await until(59)
            api.faults = [Fault("PATCH", "/status", waits=goes_on)]
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 9})
            await until(63)
            assert [] == timeline(api)
            goes_on.set()
            await until(64)
        assert [(63, 2, 4)] == timeline(api)

    live(scenario)


def test_a_reconciliation_that_is_given_up_does_not_lose_the_edge():
    """
    The metrics hang for longer than a reconciliation may take, just before the edge; the reconciliations are an hour
    apart.
    """

    async def scenario():
        rush = {"name": "rush", "start": "2 7 * * *", "end": "3 7 * * *", "minReplicas": 4, "leadTimeSeconds": 0}
        api = shop(schedules=[rush], syncPeriodSeconds=3600)
        async with Life(api, timeout_seconds=100) as life:
            await until(10)
            api.faults = [Fault("GET", "/metrics.k8s.io", hangs=True)]
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 9})
            await until(55)
            assert 1 == life.control_loop.metrics.errors
            await until(121)
        assert [(120, 2, 4)] == timeline(api)

    live(scenario)


def test_a_spec_that_became_unreadable_does_not_spin_on_the_edge_it_had():
    async def scenario():
        rush = {"name": "rush", "start": "1 7 * * *", "end": "2 7 * * *", "minReplicas": 4, "leadTimeSeconds": 0}
        api = shop(schedules=[rush])
        async with Life(api) as life:
            await until(30)
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": "many"})
            await until(50)
            assert await reconciliations_until(life, 170) <= 3

    live(scenario)


def test_a_spec_that_became_unreadable_promises_no_edge_and_one_that_is_readable_again_does():
    """From 07:00:30 on the window of 07:01 is next; unreadable, nothing is; readable again, the end at 08:00."""

    async def scenario():
        rush = {"name": "rush", "start": "1 7 * * *", "end": "0 8 * * *", "minReplicas": 4, "leadTimeSeconds": 0}
        api = shop(schedules=[rush])
        async with Life(api):
            await until(30)
            assert "2027-01-15T07:01:00Z" == status(api)["nextEdge"]["time"]
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": "many"})
            await until(50)
            assert {"nextEdge", "schedules"}.isdisjoint(status(api))
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 9})
            await until(80)
            assert "2027-01-15T08:00:00Z" == status(api)["nextEdge"]["time"]

    live(scenario)


def test_an_override_is_the_next_edge_until_it_ends():
    async def scenario():
        api = shop(override={"minReplicas": 4, "until": "2027-01-15T07:01:00Z", "reason": "INC-4711"})
        async with Life(api):
            await until(30)
            assert {"time": "2027-01-15T07:01:00Z", "schedule": "override", "state": "Closed"} == status(api)[
                "nextEdge"
            ]
            await until(80)
            assert "nextEdge" not in status(api)

    live(scenario)


def hpa(api, name="old", target="shop"):
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    api.create("horizontalpodautoscalers", "prod", name, spec={"scaleTargetRef": ref})


def test_a_foreign_hpa_is_noticed_at_once_when_it_comes_and_when_it_goes():
    async def scenario():
        api = shop(minReplicas=2)
        async with Life(api) as life:
            at = next_reconciliation(0) + 2
            await until(at)
            hpa(api)
            assert 1 == await reconciliations_until(life, at + 1)
            assert "OtherOwner" == condition(api, "TargetOwned")["reason"]
            # Its controller writes a status at every one of its reconciliations: that is nothing to us.
            api.edit("horizontalpodautoscalers", "prod", "old", status={"currentReplicas": 2})
            assert 0 == await reconciliations_until(life, at + 2)
            api.delete("horizontalpodautoscalers", "prod", "old")
            assert 1 == await reconciliations_until(life, at + 3)
            assert "OnlyOwner" == condition(api, "TargetOwned")["reason"]

    live(scenario)


def test_a_step_is_not_followed_by_another_one_on_what_was_measured_before_it():
    """
    Of 5 pods at 334m and a target of 50 % the owner takes one away, 0.2 s before the grid: 1670 / 500 = 3.34, so 4. The
    same samples of the 4 pods that are left say 1336 / 500 = 2.7; what these use by then says 4.
    """

    async def scenario():
        api = shop(5, 1670, behavior={"scaleDown": {"stabilizationWindowSeconds": 0}})
        async with Life(api):
            hpa(api)
            at = next_reconciliation(60)
            await until(at - 0.2)
            api.delete("horizontalpodautoscalers", "prod", "old")
            await until(at + 2)
        assert [(int(at - 0.2), 5, 4)] == timeline(api)

    live(scenario)


@pytest.mark.parametrize(("edited", "clock_step"), [("shop", 0), ("other", 10 * SECOND)], ids=["edit", "clock"])
def test_what_makes_an_object_due_after_a_step_waits_for_what_is_measured_after_it(edited, clock_step):
    """
    As above, with the step on the grid, and an edit 0.2 s later, or a clock that was set and is read because of another
    object's edit. Found: a second step, to 3.
    """

    async def scenario():
        api = shop(5, 2500, behavior={"scaleDown": {"stabilizationWindowSeconds": 0}})
        deployment(api, "other")
        cronhpa(api, "other")
        async with Life(api):
            at = next_reconciliation(60)
            await until(at - 1)
            api.load["prod", "shop"] = 1670
            await until(at + 0.2)
            api.clock_offset = clock_step
            api.edit("cronhpas", "prod", edited, spec={"maxReplicas": 19})
            await until(at + 2)
        return timeline(api)

    assert [(5, 4)] == [change[1:] for change in live(scenario)]


def test_a_target_that_comes_or_goes_is_noticed_at_once():
    async def scenario():
        api = shop(minReplicas=3, replicas=3)
        async with Life(api):
            at = next_reconciliation(0) + 2
            await until(at)
            api.delete("deployments", "prod", "shop")
            await until(at + 1)
            assert "FailedGetScale" == condition(api, "AbleToScale")["reason"]
            deployment(api, replicas=1)
            await until(at + 2)
        assert [(int(at + 1), 1, 3)] == timeline(api)

    live(scenario)


def test_a_clock_that_steps_back_makes_all_due():
    """An hour back: without it the next reconciliations would come in an hour."""

    async def scenario():
        api = shop()
        async with Life(api) as life:
            await until(100)
            api.clock_offset = -HOUR
            assert 2 <= await reconciliations_until(life, 118) <= 3
            api.load["prod", "shop"] = 2000
            await until(140)
            assert 4 == api.replicas("prod", "shop")

    live(scenario)


def test_a_clock_that_steps_back_does_not_free_the_rate_policies():
    """One pod a minute, the first at 0 s: an hour earlier it is still that minute, and then the next pod comes."""

    async def scenario():
        api = shop(2, 3000, behavior=rules(one_pod_each(60), one_pod_each(60)))
        async with Life(api):
            await until(20)
            api.clock_offset = -HOUR
            await until(50)
            assert 3 == api.replicas("prod", "shop")
            await until(100)
            assert 4 == api.replicas("prod", "shop")

    live(scenario)


def _fails(_series):
    raise RuntimeError("a bug of ours")


@pytest.mark.parametrize("problem", ["the forecasts", "the reader", "the decision"])
def test_a_reconciliation_that_fails_for_a_reason_of_ours_costs_its_own_object_only(problem):
    def deciding(spec, *others):
        if problem == "the decision" and spec.target.name == "shop":
            raise RuntimeError("a bug of ours")
        return decide(spec, *others)

    async def scenario():
        api = ModelApi()
        if problem == "the reader":
            api.create("widgets", "prod", "shop", spec={"replicas": 2})
            widget = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "shop"}
            api.faults = [Fault("GET", "/widgets/shop/scale$", error=RuntimeError("a bug of ours"), times=None)]
            cronhpa(api, scaleTargetRef=widget)
        else:
            deployment(api)
            cronhpa(api, forecast={})
        deployment(api, "other", 2)
        api.load["prod", "other"] = 2000
        cronhpa(api, "other", metrics=[CPU])
        async with Life(api, decide=deciding) as life:
            if problem == "the forecasts":
                life.forecasts.forecast = _fails
            await until(20)
            assert life.control_loop.metrics.errors >= 2
        assert [(2, 4)] == [change[1:] for change in timeline(api, "prod/other")]
        assert {} == status(api)

    live(scenario)


def test_a_start_asks_for_no_target_by_itself():
    """The kind of the targets is listed before the first decisions; 10,000 objects sent 7,600 requests at a start."""

    async def scenario():
        api = ModelApi()
        for number in range(20):
            deployment(api, f"shop-{number}")
            cronhpa(api, f"shop-{number}")
        async with Life(api) as life:
            await reconciliations_until(life, 5)
        return api.count("GET", "/scale"), len([path for _, path, _ in api.writes if path.endswith("/status")])

    assert (0, 20) == live(scenario)


def test_a_start_waits_for_no_list_of_targets_for_ever():
    """Somebody may have taken the right to list Deployments away: after a while they are asked for one by one."""

    async def scenario():
        api = shop(2, 2000)
        api.faults = [Fault("GET", "/deployments$", hangs=True, times=None)]
        async with Life(api):
            await until(40)
        return timeline(api)

    assert [(2, 4)] == [change[1:] for change in live(scenario)]


@pytest.mark.parametrize("step", [HOUR, 2 * HOUR, 30 * DAY, -HOUR])
def test_a_clock_that_is_set_opens_no_stabilization_window_early(step):
    """10 pods were needed last between 85 and 100 s: a window of 60 s ends at 145 s at the earliest, on any clock."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=10)
        cronhpa(api, behavior=rules(one_pod_each(1), one_pod_each(1, window=60)))
        api.load["prod", "shop"] = 5000
        async with Life(api):
            await until(100)
            api.load["prod", "shop"] = 500
            await until(110)
            api.clock_offset = step
            await until(144)
            early = list(api.scalings)
            await until(200)
            return early, api.replicas("prod", "shop")

    early, replicas = live(scenario)

    assert early == []
    assert replicas < 10


def test_a_clock_that_is_set_makes_no_reconciliation_under_way_look_stuck():
    """A scale takes 8 s, in which the clock is set an hour ahead: /healthz must not restart the process for that."""

    async def scenario():
        api = shop(minReplicas=3)
        api.latency = lambda method, path: 8 if method == "PATCH" and path.endswith("/scale") else 0.001
        async with Life(api) as life:
            await until(2)
            api.clock_offset = HOUR
            await until(5)
            return life.control_loop.oldest_seconds

    assert 4 < live(scenario) <= 5


@pytest.mark.parametrize("step", [40, -40])
def test_a_clock_that_is_set_during_a_write_brings_no_step_early_or_late(step):
    """Found by a simulated hour: a step down that was under way was as old as the new clock said, 40 s more."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=10)
        cronhpa(api, behavior=rules(one_pod_each(1), one_pod_each(60)))
        api.load["prod", "shop"] = 500
        api.latency = lambda method, path: 8 if method == "PATCH" and path.endswith("/scale") else 0.001
        async with Life(api):
            await until(2)
            assert (1, 0) == (api.count("PATCH", "/scale"), len(api.scalings))
            api.clock_offset = step * SECOND
            await until(200)
            return timeline(api)  # all of it is by the clock that was set

    (first, *_), (second, *_), *_ = live(scenario)

    assert 60 <= second - first < 60 + 15 + 8 + 2
