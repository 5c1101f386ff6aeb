"""A decision that takes long delays nobody else's."""

import asyncio
import time

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
