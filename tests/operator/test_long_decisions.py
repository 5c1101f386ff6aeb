"""A decision that takes long delays nobody else's."""

import asyncio
import time

import pytest
from lives import Life, cronhpa, deployment, status
from model_api import ModelApi

from cronhpa.operator import cycle

NIGHTS = [
    {"name": f"night-{hour}", "start": f"0 {hour} * * *", "durationMinutes": 30, "minReplicas": 3} for hour in range(17)
]


def test_an_object_of_many_schedules_does_not_hold_up_its_neighbours(monkeypatch):
    """50 windows with an edge a minute each took 13 s; here the decision of such an object takes 2 s."""
    decide = cycle.decide

    def slow(spec, *others):
        if len(spec.schedules) == len(NIGHTS):
            time.sleep(2)
        return decide(spec, *others)

    monkeypatch.setattr(cycle, "decide", slow)

    async def scenario():
        api = ModelApi()
        for name, schedules in (("many", NIGHTS), ("one", NIGHTS[:1])):
            deployment(api, name)
            cronhpa(api, name, metrics=None, schedules=schedules)
        begun = time.monotonic()
        async with Life(api), asyncio.timeout(30):
            while not status(api, "one"):  # noqa: ASYNC110 - the model tells nobody
                await asyncio.sleep(0.01)
            took = time.monotonic() - begun
            while not status(api, "many"):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        return took

    assert asyncio.run(scenario()) < 1.5


@pytest.mark.parametrize("rounds", range(4))
def test_the_loop_ends_when_cancelled_in_the_moment_it_is_poked(rounds):
    """So many rounds of the event loop after the poke: in some of them Python 3.11's wait_for forgets it."""

    async def scenario():
        life = Life(ModelApi())
        loop = asyncio.create_task(life.cycle.run())
        await asyncio.sleep(0.05)
        life.cycle._poked.set()
        for _ in range(rounds):
            await asyncio.sleep(0)
        loop.cancel()
        await asyncio.wait((loop,), timeout=2)
        return loop.cancelled()

    assert asyncio.run(scenario())
