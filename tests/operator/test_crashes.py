"""
Stopped before or after any of its writes and started again three seconds later, the operator goes on as if undisturbed.

The reference life: up by a metric, down by a policy behind a stabilization window, to zero by a schedule, and awake.
"""

import asyncio
from functools import partial

import pytest
from lives import Life, cronhpa, deployment, one_pod_each, rules, status, timeline, until
from model_api import ModelApi
from virtual_time import live

LOADS = [(0, 1000), (20, 2000), (110, 1000)]
END = 510
# Neither the window nor the periods are multiples of the 15 s between turns, so that no turn falls on their ends.
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


async def stopped_life(number, *, after):
    """A life that is stopped at write `number`, before or after it is applied, with the one that follows it."""
    api = begin()
    stopped = asyncio.get_running_loop().create_future()
    world = asyncio.create_task(pass_time(api))
    async with Life(api) as life:

        def stop(write, is_done):
            if stopped.done() or life.client.dead or write != number or is_done is not after:
                return False
            life.client.dead = True
            stopped.set_result(None)
            return True

        api.on_write = stop
        await stopped
    api.on_write = None
    await asyncio.sleep(3)
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


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_stopped_at_any_write_nothing_is_scaled_down_earlier_and_all_ends_alike(after):
    undisturbed = live(undisturbed_life)
    expected = timeline(undisturbed)
    assert len(undisturbed.writes) > 20
    for number in range(len(undisturbed.writes)):
        api = live(partial(stopped_life, number, after=after))
        found = timeline(api)
        early = [change for change in found if change[2] < change[1] and replicas_at(expected, change[0]) > change[2]]
        where = f"stopped at write {number}: {undisturbed.writes[number][1]}: {found} instead of {expected}"
        assert [] == early, where
        assert [change[1:] for change in expected] == [change[1:] for change in found], where
        assert "intent" not in status(api)["memory"], where
        assert status(undisturbed)["memory"]["zero"] == status(api)["memory"]["zero"], where
