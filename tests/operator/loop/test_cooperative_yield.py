"""One pass of the loop does a bounded number of steps, over all tasks."""

import asyncio
import time
from collections import Counter

import pytest
from lives import Life, cronhpa, deployment, until
from model_api import ModelApi
from virtual_time import live

from cronhpa.core.decide import decide
from cronhpa.operator.loop.cooperative_yield import CooperativeYield

NAMESPACES = [f"team-{number}" for number in range(20)]


def test_many_tasks_share_the_turns_of_a_pass_and_keep_their_order():
    """10 tasks of 30 turns each: 25 a pass of the loop, 50 in any, and no task is left behind."""

    async def scenario():
        cooperative, passes, order = CooperativeYield(), Counter(), []

        async def work(name):
            for turn in range(30):
                await cooperative.step()
                passes[asyncio.get_running_loop().time()] += 1
                order.append((turn, name))

        await asyncio.gather(*(work(name) for name in range(10)))
        return passes, order

    passes, order = live(scenario)

    assert 300 == passes.total()
    assert max(passes.values()) <= 50
    assert min(turn for turn, _ in order[-20:]) >= 27


def test_steps_that_take_long_are_few_in_a_pass():
    """60 steps of 20 ms of CPU: after three of them 50 ms are spent, where 25 steps a pass would take half a second."""

    async def scenario():
        cooperative, passes = CooperativeYield(), Counter()

        async def work():
            await cooperative.step()
            passes[asyncio.get_running_loop().time()] += 1
            begun = time.thread_time()
            while time.thread_time() - begun < 0.02:
                pass

        await asyncio.gather(*(work() for _ in range(60)))
        return passes

    passes = live(scenario)

    assert 60 == passes.total()
    assert max(passes.values()) <= 3


@pytest.mark.slow
def test_an_edge_that_many_namespaces_share_is_no_burst():
    """
    20 namespaces of 20 objects each, whose windows open at 07:01: all 400 are due in one moment.

    A pass of the loop decides 50 of them at most, where each namespace on its own would make it 400.
    """
    decisions = Counter()

    def counted(*given):
        decisions[asyncio.get_running_loop().time()] += 1
        return decide(*given)

    opening = {"name": "day", "start": "1 7 * * *", "durationMinutes": 60, "minReplicas": 4, "leadTimeSeconds": 0}

    async def scenario():
        api = ModelApi()
        for namespace in NAMESPACES:
            for number in range(20):
                deployment(api, f"app-{number}", namespace=namespace)
                cronhpa(api, f"app-{number}", namespace=namespace, metrics=None, schedules=[opening])
        async with Life(api, decide=counted):
            await until(62)
        return api

    api = live(scenario)
    writes = Counter(at for at, method, _ in api.asked if method == "PATCH")

    assert 400 == len(api.scalings)
    assert decisions.total() >= 400
    assert max(decisions.values()) <= 50
    assert writes.total() >= 800
    assert max(writes.values()) <= 50
