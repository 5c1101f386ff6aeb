"""cronhpa.operator.writes.writer: what a batch of writes holds, and what is told of a write that is given up."""

import asyncio
import gc
from functools import partial

from happenings import EDGE
from lives import Life, at_rest, cronhpa, deployment, status, until
from model_api import Fault, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.reconciliation import Reconciliation


def reconciliations():
    """The number of reconciliations in memory. The newest one of each object is kept."""
    gc.collect()
    return sum(isinstance(tracked, Reconciliation) for tracked in gc.get_objects())


def test_a_decision_that_is_written_is_not_assumed_until_the_last_one_of_its_batch():
    """
    40 objects scale in one reconciliation of their namespace, and one of these writes hangs.

    Each decision holds what it was made of, and two statuses. At a shared edge nearly the whole fleet was held so.
    """

    async def scenario():
        api, goes_on = ModelApi(), asyncio.Event()
        names = [f"shop-{number}" for number in range(40)]
        for name in names:
            deployment(api, name, replicas=2)
            api.load["prod", name] = 1000
            cronhpa(api, name)
        async with Life(api) as life:
            await until(60)
            before = reconciliations()
            api.faults = [Fault("PATCH", "/shop-7/scale$", waits=goes_on)]
            for name in names:
                api.edit("cronhpas", "prod", name, spec={"minReplicas": 3})
            await until(75)
            assert len(api.scalings) == len(names) - 1
            waiting = reconciliations() - before
            assert life.controller.control_loop.oldest_seconds > 0
            goes_on.set()
            await until(80)
            assert len(api.scalings) == len(names)
        return waiting

    assert live(scenario) <= 1


def test_a_scale_down_that_waited_for_its_place_is_decided_anew_after_a_period():
    """
    Sixty objects need two pods of four at 100 s, and four again a second after the first write. A write takes four
    seconds, and a scale-down two of them: some write at once, the others wait. Found: they were lowered up to a minute
    after their load had risen.
    """

    async def scenario():
        api, names = ModelApi(), [f"shop-{number}" for number in range(60)]

        def ask_for(milli):
            for name in names:
                api.load["prod", name] = milli

        for name in names:
            deployment(api, name, replicas=4)
            cronhpa(api, name, behavior={"scaleDown": {"stabilizationWindowSeconds": 0}})
        ask_for(2000)
        async with Life(api):
            await until(100)
            api.latency = lambda method, _: 4 if method == "PATCH" else 0.001
            ask_for(1000)
            first_seen = len(api.asked)
            while all(method != "PATCH" for _, method, _ in api.asked[first_seen:]):
                await until(asyncio.get_running_loop().time() + 0.1)
            await until(asyncio.get_running_loop().time() + 1)
            rose = api.now()
            ask_for(2000)
            await until(300)
        return [(at - rose) / SECOND for at, _, before, after in api.scalings if after < before]

    lowered = live(scenario)

    assert 0 < len(lowered) < 60
    assert max(lowered) < 15 + 2 * 4


def test_of_a_scaling_that_is_given_up_nothing_is_told_that_somebody_else_wrote_meanwhile():
    """Sixteen scale writes that hang take all places of the namespace, and the seventeenth waits."""

    async def scenario():
        api, goes_on = ModelApi(), asyncio.Event()
        names = [*(f"busy-{number}" for number in range(16)), "waits"]
        for name in names:
            at_rest(api, name)
        edit = partial(api.edit, "cronhpas", "prod", "waits")
        edit(spec={"schedules": [{**EDGE, "start": "0 16 * * *", "end": "0 17 * * *"}]})
        async with Life(api, timeout_seconds=60):
            await until(118)
            fault = Fault("PATCH", "/busy-[0-9]+/scale$", waits=goes_on, times=None)
            api.faults = [fault]
            for name in names[:-1]:
                api.load["prod", name] = 4000
            await until(133)
            assert 16 == fault.met
            api.load["prod", "waits"] = 4000
            edit(status={"podStartupSeconds": 7})
            await until(148)
            assert [] == api.scalings
            edit(status={"schedules": [{"name": "rush", "state": "Open"}]})
            await until(149)
            edit(spec={"maxReplicas": 9})
            await until(150)
            goes_on.set()
            await until(195)
        return {
            event["reason"] for event in api.objects["events"].values() if event["involvedObject"]["name"] == "waits"
        }

    reasons = live(scenario)

    assert "SuccessfulRescale" in reasons
    assert not {"WindowOpened", "WindowClosed"} & reasons


def test_a_status_that_waits_for_minutes_behind_others_is_no_reconciliation_that_hangs():
    """
    Found with 5,000 objects of one namespace: their first statuses took longer than the three minutes after which
    /healthz fails. Here 150 statuses of 25 s each, 16 at a time, take four minutes.
    """

    async def scenario():
        api, longest = ModelApi(), 0.0
        names = [f"shop-{number}" for number in range(150)]
        for name in names:
            deployment(api, name, replicas=2)
            api.load["prod", name] = 1000
            cronhpa(api, name)
        api.latency = lambda _method, path: 25.0 if path.endswith("/status") else 0.0
        async with Life(api, timeout_seconds=60) as life:
            for second in range(5, 300, 5):
                await until(second)
                longest = max(longest, life.controller.control_loop.oldest_seconds)
        return longest, sum("conditions" in status(api, name) for name in names)

    longest, written = live(scenario)

    assert 150 == written
    # A claim and a status.
    assert 20 < longest <= 55
