"""
Stopped before or after any of its writes and started again three seconds later, the operator goes on as if undisturbed.

The reference life: up by a metric, down by a policy behind a stabilization window, to zero by a schedule, and awake.
"""

import asyncio
from functools import partial

import pytest
from lives import Life, cronhpa, deployment, one_pod_each, rules, status, timeline, until
from model_api import Fault, ModelApi
from virtual_time import live

LOADS = [(0, 1000), (20, 2000), (110, 1000)]
END = 510
# Neither the window nor the periods are multiples of the 15 s between reconciliations, so that no reconciliation falls
# on their ends.
BEHAVIOR = rules(one_pod_each(50), one_pod_each(50, window=100))
# 07:05 to 07:07: it ends a minute and a half before the life does.
NIGHT = {"name": "night", "start": "5 7 * * *", "end": "7 7 * * *", "replicas": 0}


def begin():
    api = ModelApi()
    deployment(api)
    cronhpa(api, behavior=BEHAVIOR, schedules=[NIGHT])
    return api


async def pass_time(api):
    """Lets the loads of the reference life come and go, until its end."""
    for seconds, load in LOADS:
        await until(seconds)
        api.load["prod", "shop"] = load
    await until(END)


async def live_until_stopped(api, number, *, after):
    """A life that is stopped at write `number`, before or after it is applied, and the three seconds behind it."""
    stopped = asyncio.get_running_loop().create_future()
    async with Life(api) as life:

        def stop(write, is_done):
            if stopped.done() or write != number or is_done is not after:
                return False
            life.client.dead = True
            stopped.set_result(None)
            return True

        api.on_write = stop
        await stopped
    api.on_write = None
    await asyncio.sleep(3)


async def stopped_life(number, *, after):
    """A life that is stopped at write `number`, before or after it is applied, with the one that follows it."""
    api = begin()
    world = asyncio.create_task(pass_time(api))
    await live_until_stopped(api, number, after=after)
    async with Life(api):
        await world
    return api


def replicas_at(changes, second):
    return next((new for at, _, new in reversed(changes) if at <= second), 2)


async def undisturbed_life():
    api = begin()
    async with Life(api):
        await pass_time(api)
    return api


def test_the_reference_life_is_as_described():
    api = live(undisturbed_life)

    assert [3, 4, 3, 2, 1, 0, 1, 2] == [new for _, _, new in timeline(api)]


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_stopped_at_any_write_nothing_is_scaled_down_earlier_and_all_ends_alike(after):
    undisturbed = live(undisturbed_life)
    expected = timeline(undisturbed)
    assert len(undisturbed.writes) > 20
    for number in range(len(undisturbed.writes)):
        api = live(partial(stopped_life, number, after=after))
        changes = timeline(api)
        early = [change for change in changes if change[2] < change[1] and replicas_at(expected, change[0]) > change[2]]
        where = f"stopped at write {number}: {undisturbed.writes[number][1]}: {changes} instead of {expected}"
        assert [] == early, where
        assert [change[1:] for change in expected] == [change[1:] for change in changes], where
        assert "intent" not in status(api)["memory"], where
        assert status(undisturbed)["memory"]["zero"] == status(api)["memory"]["zero"], where


def begin_short_of_pods(api):
    """Twice the load of two pods, which one pod more each 50 s answers."""
    deployment(api)
    api.load["prod", "shop"] = 2000
    cronhpa(api, behavior=BEHAVIOR)


async def first_steps(number, *, after):
    """The changes of an object's first 100 s in a life that is stopped at write `number`, and in the next one."""
    api = ModelApi()
    begin_short_of_pods(api)
    await live_until_stopped(api, number, after=after)
    async with Life(api):
        await until(100)
    return api


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(3))
def test_stopped_within_its_very_first_step_an_object_takes_the_next_one_no_earlier(number, after):
    """The status, the scale and the status again: a pod each 50 s allows the second step 50 s after the first."""
    api = live(partial(first_steps, number, after=after))

    changes = timeline(api)
    assert [(2, 3), (3, 4)] == [change[1:] for change in changes]
    assert changes[1][0] - changes[0][0] >= 50


def kill_after_the_next_scale(api, life):
    """Kills a life as its next scale is done and its answer is on its way; what is set once it is."""
    killed = asyncio.Event()

    def stop(write, is_done):
        if killed.is_set() or not is_done or not api.writes[write][1].endswith("/scale"):
            return False
        life.client.dead = True
        killed.set()
        return True

    api.on_write = stop
    return killed


def test_killed_after_a_step_down_and_again_after_the_step_up_behind_it_the_next_step_comes_no_earlier():
    """
    A pod each 50 s in both directions. The status says three pods, and that one was meant to go. Without a word of the
    step up that follows, the three that are found look as if none had gone and none had come.
    """

    async def story():
        api = ModelApi()
        deployment(api, replicas=3)
        api.load["prod", "shop"] = 1500
        cronhpa(api, behavior=rules(one_pod_each(50), one_pod_each(50, window=0)))
        for quiet, load in ((60, 1000), (0, 1500)):
            async with Life(api) as life:
                await asyncio.sleep(quiet)
                killed = kill_after_the_next_scale(api, life)
                api.load["prod", "shop"] = load
                async with asyncio.timeout(100):
                    await killed.wait()
            api.on_write = None
            await asyncio.sleep(18)
        async with Life(api):
            # The pod that went counts no more, and the one that came does.
            await until(timeline(api)[0][0] + 52)
            api.load["prod", "shop"] = 2500
            await asyncio.sleep(100)
        return timeline(api)

    changes = live(story)

    assert [(3, 2), (2, 3), (3, 4)] == [change[1:] for change in changes][:3]
    assert changes[1][0] - changes[0][0] < 40
    assert changes[2][0] - changes[1][0] >= 50


def test_a_first_step_up_does_not_wait_for_a_status_that_cannot_be_written():
    async def story():
        api = ModelApi()
        api.faults.append(Fault("PATCH", "/cronhpas/shop/status$", status=500, times=None))
        begin_short_of_pods(api)
        async with Life(api):
            await until(20)
        return api

    assert [(2, 3)] == [change[1:] for change in timeline(live(story))]
