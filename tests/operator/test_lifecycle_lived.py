"""Starts without metrics, lost events, edits of all kinds and long absences: cases of the catalogue of faults."""

import asyncio
import random
from copy import deepcopy

import pytest
from lives import (
    CPU,
    Life,
    condition,
    cronhpa,
    deployment,
    external,
    one_pod_each,
    rules,
    shop,
    status,
    timeline,
    until,
)
from model_api import START, Fault, ModelApi, ModelClient
from simulated_replica import SimulatedReplica, Unjudged
from simulated_world import World
from virtual_time import live

from cronhpa.core.model.instant import DAY, SECOND

QUICK = {"scaleDown": {"stabilizationWindowSeconds": 0}}


def test_a_start_without_any_metrics_lowers_nothing_and_says_so_within_a_minute():
    async def scenario():
        api = shop(8, 1000, behavior=QUICK)
        api.faults = [Fault("GET", "/metrics.k8s.io", status=503, times=None)]
        async with Life(api):
            await until(60)
            told = condition(api, "ScalingActive")
            await until(120)
        return timeline(api), told

    changes, told = live(scenario)

    assert [] == changes
    assert ("False", "FailedGetResourceMetric") == (told["status"], told["reason"])


def test_a_start_beside_pods_that_are_not_ready_yet_lowers_nothing_in_the_first_window():
    """kubernetes#68826: one pod of ten is Ready, and the nine others say nothing yet."""

    async def scenario():
        api = ModelApi()
        api.start_up = 250.0
        deployment(api, replicas=10)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T06:00:00Z"}
        api.edit("pods", "prod", "shop-000", status={"conditions": [ready], "startTime": "2027-01-15T06:00:00Z"})
        api.load["prod", "shop"] = 3000
        cronhpa(api)
        async with Life(api):
            await until(240)
        return timeline(api)

    assert [] == live(scenario)


def test_an_own_write_that_the_watch_has_not_told_yet_is_no_reason_to_write_again():
    """The watch of Deployments is frozen: at each reconciliation the count that was written is the current one."""

    async def scenario():
        api = shop(2, 2000, behavior=rules(one_pod_each(15), one_pod_each(15)))
        async with Life(api):
            await until(1)
            api.freeze_watches("deployments")
            await until(100)
        return timeline(api), api.count("PATCH", "/scale")

    changes, written = live(scenario)

    assert [(2, 3), (3, 4)] == [change[1:] for change in changes]
    assert 2 == written


def test_three_weeks_of_missed_starts_of_every_minute_cost_nothing():
    """30,000 starts passed while no operator ran: the present bounds are in force, and no missed start is repeated."""
    each_minute = {"name": "tick", "start": "* * * * *", "durationMinutes": 1, "minReplicas": 3, "leadTimeSeconds": 0}

    async def scenario():
        api = shop(3, 1000, schedules=[each_minute])
        async with Life(api):
            await until(20)
        before = len(api.writes)
        api.clock_offset = 21 * DAY
        async with Life(api) as life:
            await until(100)
            assert 0 == life.control_loop.metrics.errors
        return timeline(api), len(api.writes) - before

    changes, writes = live(scenario)

    assert [] == changes
    assert writes <= 3


def test_a_machine_that_slept_for_eight_hours_has_one_reconciliation_and_no_burst():
    """The wall clock is eight hours on; the monotonic clock stood still, as Linux' does in a suspend."""

    async def scenario():
        api = shop()
        async with Life(api) as life:
            await until(100)
            api.clock_offset = 8 * 3600 * SECOND
            before = life.control_loop.metrics.reconciles
            await until(105)
            return life.control_loop.metrics.reconciles - before, timeline(api)

    reconciliations, changes = live(scenario)

    assert 1 <= reconciliations <= 2
    assert [] == changes


def test_an_object_that_is_deleted_in_its_window_leaves_the_count_as_it_is():
    rush = {"name": "rush", "start": "1 7 * * *", "end": "3 7 * * *", "minReplicas": 6, "leadTimeSeconds": 0}

    async def scenario():
        api = shop(schedules=[rush])
        async with Life(api):
            await until(90)
            api.delete("cronhpas", "prod", "shop")
            await until(400)
        return timeline(api), api.objects["cronhpas"]

    changes, left = live(scenario)

    assert [(2, 4), (4, 6)] == [change[1:] for change in changes] or [(2, 6)] == [change[1:] for change in changes]
    assert {} == left


def test_labels_that_somebody_writes_all_the_time_cost_no_conflict_and_no_generation():
    async def scenario():
        api = shop(2, 2000, behavior=QUICK)
        async with Life(api):
            for number in range(300):
                api.edit("cronhpas", "prod", "shop", metadata={"labels": {"number": str(number)}})
                if number == 150:
                    api.edit("cronhpas", "prod", "shop", spec={"minReplicas": 5})
                await until(0.2 * number)
        cron_hpa = api.objects["cronhpas"]["prod", "shop"]
        return cron_hpa["metadata"], status(api), [path for _, path, _ in api.writes if path.endswith("/status")]

    meta, told, writes = live(scenario)

    assert "299" == meta["labels"]["number"]
    assert meta["generation"] == told["observedGeneration"] == 2
    assert len(writes) <= 8


def test_the_same_manifest_a_hundred_times_is_no_write():
    async def scenario():
        api = shop()
        spec = deepcopy(api.objects["cronhpas"]["prod", "shop"]["spec"])
        async with Life(api):
            await until(40)
            before = len(api.writes)
            for number in range(100):
                api.edit("cronhpas", "prod", "shop", spec=spec)
                await until(40 + number)
        return len(api.writes) - before

    assert 0 == live(scenario)


def test_of_two_who_edit_one_object_the_last_wins_and_the_status_says_which_generation_was_decided():
    async def scenario():
        api = shop()
        async with Life(api):
            for number in range(3, 9):
                api.edit("cronhpas", "prod", "shop", spec={"minReplicas": number})
                await until(10 + number)
        return api.replicas("prod", "shop"), status(api)["observedGeneration"]

    assert (8, 7) == live(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_spec_was_before_the_same_spec_ends_in_the_same_count(seed):
    """Twenty specs, one after the other, some of them unreadable; then the same one each time: 2.2 cores need 5."""
    dice = random.Random(seed)

    async def scenario():
        api = shop(dice.randint(1, 9), 2200, behavior=QUICK)
        async with Life(api):
            for number in range(20):
                bounds = {"minReplicas": dice.randint(1, 9), "maxReplicas": dice.choice([9, 15, "many"])}
                api.edit("cronhpas", "prod", "shop", spec=bounds)
                await until(20 + 5 * number)
            api.edit("cronhpas", "prod", "shop", spec={"minReplicas": 1, "maxReplicas": 10})
            await until(400)
        return api.replicas("prod", "shop"), condition(api, "Ready")["reason"]

    # 5 pods at 44 % are within a tenth of 50 %: who comes from above stays where the tolerance begins.
    replicas, reason = live(scenario)
    assert replicas in {4, 5}
    assert "Deciding" == reason


def test_a_restart_over_objects_that_stay_as_they_are_writes_nothing():
    async def scenario():
        api = ModelApi()
        for number in range(30):
            name = f"shop-{number:02d}"
            deployment(api, name)
            api.load["prod", name] = 1000
            cronhpa(api, name)
        async with Life(api):
            await until(40)
        before = len(api.writes)
        for begin in (40, 60, 80):
            async with Life(api):
                await until(begin + 18)
        return len(api.writes) - before

    assert 0 == live(scenario)


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "done"), [(7, range(1, 100)), (30, [100])], ids=["some", "all but their statuses"])
def test_a_stop_among_a_hundred_pending_writes_loses_nothing_that_the_next_process_does_not_do(seconds, done):
    """Sixteen at a time, 2 s for the intent and 2 s for the scale: 100 take 28 s, and their statuses follow."""

    async def scenario():
        api = ModelApi()
        for number in range(100):
            name = f"shop-{number:02d}"
            deployment(api, name)
            api.load["prod", name] = 2000
            cronhpa(api, name)
        api.latency = lambda method, _: 2.0 if method == "PATCH" else 0.001
        async with Life(api) as life:
            await until(3)
            await life.control_loop.close(seconds)
        half = sum(api.replicas("prod", name) == 4 for _, name in list(api.objects["deployments"]))
        api.latency = lambda *_: 0.001
        async with Life(api):
            await until(60)
        return half, {api.replicas("prod", name) for _, name in api.objects["deployments"]}, len(api.scalings)

    half, counts, scalings = live(scenario)

    assert half in done
    assert {4} == counts
    assert 100 == scalings


@pytest.mark.parametrize(("fault", "least", "most"), [("GET", 1.9, 2.1), ("PATCH", 10, 15.1)], ids=["reads", "writes"])
def test_a_stop_waits_two_seconds_for_reads_that_hang_and_as_long_as_it_may_for_writes(fault, least, most):
    """Reads leave nothing half done; a write that is cut off leaves a scale without its status."""

    async def scenario():
        api = ModelApi()
        for number in range(20):
            api.create("widgets", "prod", f"slow-{number}", spec={"replicas": 1})
            target = {"apiVersion": "example.com/v1", "kind": "Widget", "name": f"slow-{number}"}
            cronhpa(api, f"slow-{number}", scaleTargetRef=target, metrics=None, minReplicas=3)
        api.faults = [Fault(fault, "slow-.*/scale$", hangs=True, times=None)]
        async with Life(api) as life:
            await until(3)
            begun = asyncio.get_running_loop().time()
            await life.control_loop.close(15)
            return asyncio.get_running_loop().time() - begun

    assert least < live(scenario) < most


class _Deaf(ModelClient):
    """Loses the event of this number of a kind's watch."""

    number, kind, seen = -1, "", 0

    async def watch(self, path, resource_version, *, idle_seconds, params=None):
        async for line in super().watch(path, resource_version, idle_seconds=idle_seconds, params=params):
            if path.endswith(self.kind):
                type(self).seen += 1
                if self.seen - 1 == self.number:
                    continue
            yield line


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["/deployments", "/pods"])
def test_whichever_event_of_a_watch_is_lost_the_end_is_the_same(monkeypatch, kind):
    """A life up and down by its load, once for each event: 2 cores need 4 pods, 0.9 cores two, and 3 cores six."""

    async def scenario():
        api = shop(2, 1000, behavior=QUICK)
        async with Life(api):
            for begin, load in ((30, 2000), (90, 900), (150, 3000)):
                await until(begin)
                api.load["prod", "shop"] = load
                for workload in api.objects["deployments"].values():
                    workload["status"]["readyReplicas"] = workload["spec"]["replicas"]
            await until(215)
            api.edit("deployments", "prod", "shop", status={"readyReplicas": api.replicas("prod", "shop")})
            await until(800)
        return api.replicas("prod", "shop")

    monkeypatch.setattr("lives.ModelClient", _Deaf)
    monkeypatch.setattr(_Deaf, "kind", kind)
    monkeypatch.setattr(_Deaf, "seen", 0)
    assert 6 == live(scenario)
    events = _Deaf.seen
    assert events >= 4
    for number in range(events):
        monkeypatch.setattr(_Deaf, "seen", 0)
        monkeypatch.setattr(_Deaf, "number", number)
        assert 6 == live(scenario), f"event {number} of {events} of {kind} was lost"


def test_what_was_decided_in_2038_in_2100_and_on_a_leap_day_is_decided_as_today():
    """Seconds since 1970 pass 2**31 on 2038-01-19; 2100 is no leap year."""
    for day in ("2038-01-19T03:13:00Z", "2100-02-28T23:58:00Z", "2028-02-29T07:00:00Z"):

        async def scenario(day=day):
            api = ModelApi()
            from cronhpa.core.model.instant import parse_instant

            api.clock_offset = parse_instant(day) - START
            deployment(api)
            api.load["prod", "shop"] = 2000
            every = {"name": "always", "start": "* * * * *", "durationMinutes": 2, "minReplicas": 3}
            cronhpa(api, schedules=[every], metrics=[CPU])
            async with Life(api):
                await until(200)
            return api.replicas("prod", "shop"), condition(api, "Ready")["reason"]

        assert (4, "Deciding") == live(scenario)


def test_watches_that_are_cut_again_and_again_are_begun_anew_at_a_pace():
    """Four kinds are watched, each with a list before: pauses of up to 15 s, and of 5 s for the objects."""

    async def scenario():
        world = World(random.Random(1))
        deployment(world)
        world.load["prod", "shop"] = 1000
        cronhpa(world)
        replica = SimulatedReplica(world, "one", Unjudged())
        replica.start()
        await until(30)
        before = dict(replica.client.requests)
        while asyncio.get_running_loop().time() < 90:
            for plural in ("cronhpas", "deployments", "pods", "horizontalpodautoscalers"):
                world.cut_watches(plural)
            await asyncio.sleep(0.05)
        begun = replica.client.requests["WATCH", "200"] - before["WATCH", "200"]
        await replica.stop()
        return begun

    # In a minute: 12 of the objects, 8 or 9 of each other kind.
    assert 20 < live(scenario) <= 45


def test_objects_end_with_their_kind_though_nobody_heard_of_it():
    """
    Somebody removes the CRD, and the watch is frozen. Found: with the next load the target of an object that is gone
    was scaled.
    """

    async def scenario():
        api = shop()
        async with Life(api) as life:
            await until(100)
            api.freeze_watches("cronhpas")
            kind = next(of for of in api.kinds if of[1] == "cronhpas")
            del api.kinds[kind]
            api.objects["cronhpas"].clear()
            # The next list is due five minutes after the first one.
            await until(400)
            api.load["prod", "shop"] = 4000
            await until(500)
            return timeline(api), life.inventory.items

    assert ([], {}) == live(scenario)


def test_a_kind_that_is_not_served_for_half_a_minute_is_not_gone():
    """An API server that starts says 404, too."""

    async def scenario():
        api = shop()
        async with Life(api) as life:
            await until(290)
            api.faults = [Fault("GET", "/cronhpas$", status=404, times=None)]
            await until(330)
            api.faults = []
            await until(400)
            return list(life.inventory.items)

    assert [("prod", "shop")] == live(scenario)


async def after_a_slip(api, told, *, restarted):
    """
    told(): of an object that becomes unreadable a minute after the start, and of a younger one on its target, at 120 s.

    restarted: whether another process reads the unreadable object.
    """
    async with Life(api):
        await until(30)
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
        cronhpa(api, "younger", scaleTargetRef=target, maxReplicas=3)
        await until(60)
        api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": "many"})
        if not restarted:
            await until(120)
            return await told()
    async with Life(api):
        await until(120)
        return await told()


@pytest.mark.parametrize("restarted", [False, True])
def test_an_object_that_cannot_be_read_any_more_hands_its_target_to_no_other(restarted):
    """
    Found: a slip in the older object made the younger one lower its eight pods to three, at once; and later so did a
    restart after the slip.
    """

    async def scenario():
        api = shop(8, 4000)

        async def told():
            said, changed = condition(api, "Ready", "younger")["reason"], timeline(api)
            api.delete("cronhpas", "prod", "shop")
            await until(150)
            return said, changed, api.replicas("prod", "shop")

        return await after_a_slip(api, told, restarted=restarted)

    assert ("OtherOwner", [], 3) == live(scenario)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_preview_that_cannot_be_read_any_more_keeps_no_other_from_its_target(restarted):
    async def scenario():
        api = shop(8, 4000, mode="Preview")

        async def told():
            return condition(api, "Ready", "younger")["reason"]

        return await after_a_slip(api, told, restarted=restarted)

    assert "Deciding" == live(scenario)


@pytest.mark.parametrize("down", [(), (120, 150), (120, 290), (295, 320), (330, 420), (130, 280, 290, 299)])
def test_a_fallback_begins_when_its_metric_was_unknown_for_so_long_whatever_was_restarted(down):
    """
    Unknown from 100 s on: three pods, and nine from 300 s on, or once an operator runs again. `down`: it is killed at
    each first second and started at each second one. After the metric is back, at 600 s, three once more.
    """
    lost, due, back = 100, 300, 600

    async def world(api):
        await until(lost)
        api.external.clear()
        await until(back)
        api.external["queue"] = 30

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=3)
        api.external["queue"] = 30
        queue = external("queue")
        queue["external"]["target"] = {"type": "AverageValue", "averageValue": "10"}
        up = {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}
        fallback = {"replicas": 9, "afterSeconds": due - lost}
        cronhpa(api, metrics=[queue], fallback=fallback, behavior={**QUICK, "scaleUp": up})
        changing = asyncio.create_task(world(api))
        runs = [0, *down, 700]
        for begin, end in zip(runs[::2], runs[1::2], strict=True):
            await until(begin)
            async with Life(api) as life:
                await until(end)
                assert 0 == life.control_loop.metrics.errors
        await changing
        return timeline(api)

    raised, lowered = live(scenario)

    begun = next((start for stop, start in zip(down[::2], down[1::2], strict=True) if stop <= due <= start), due)
    assert [(3, 9), (9, 3)] == [raised[1:], lowered[1:]]
    # A period of 15 s finds the metric lost, and one that the fallback is due.
    assert begun <= raised[0] <= begun + 30
    assert back <= lowered[0] <= back + 15
