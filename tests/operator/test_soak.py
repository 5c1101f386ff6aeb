"""A day of reconciliations in virtual time, calm and with errors: no task and no memory is left behind."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import logging
import math
import sys

import pytest
from lives import CPU, Life, cronhpa, deployment, external, one_pod_each, rules, until
from model_api import Fault, ModelApi
from virtual_time import live

HOUR = 3600
QUEUE = external("queue")
RUSH = {"name": "rush", "start": "*/20 * * * *", "durationMinutes": 7, "minReplicas": 5}
# Each object has one of these.
SPECS = (
    {"metrics": [CPU]},
    {"metrics": [CPU, QUEUE], "fallback": {"replicas": 4, "afterSeconds": 60}},
    {"metrics": None, "schedules": [RUSH]},
    {"metrics": [CPU], "schedules": [RUSH, {**RUSH, "name": "cap", "minReplicas": None, "maxReplicas": 6}]},
    {"metrics": [CPU], "behavior": rules(one_pod_each(30), one_pod_each(60, window=120))},
    {"metrics": [CPU], "mode": "Preview"},
)
ALL = (
    Fault("GET", "metrics.k8s.io", status=503, times=None),
    Fault("GET", "metrics.k8s.io", hangs=True, times=None),
    Fault("PATCH", "/scale$", status=409, times=None),
    Fault("PATCH", "/scale$", times=None),
    Fault("PATCH", "/scale$", applied=True, times=None),
    Fault("PATCH", "/status$", status=500, times=None),
    Fault("PATCH", "/status$", hangs=True, times=None),
    Fault("POST", "/events$", status=500, times=None),
    Fault("GET", "", status=500, times=None),
)


async def disturb(api: ModelApi, names: list[str]) -> None:
    """Two minutes of each fault in turn, and three without any; watches are cut, objects and targets come and go."""
    for number in itertools.count():
        api.faults = [ALL[number % len(ALL)]]
        for plural in ("pods", "deployments", "horizontalpodautoscalers"):
            api.cut_watches(plural)
        await asyncio.sleep(120)
        api.faults = []
        name = names[number % len(names)]
        for plural in ("cronhpas", "deployments"):
            spec = api.objects[plural]["prod", name]["spec"]
            api.delete(plural, "prod", name)
            await asyncio.sleep(30)
            api.create(plural, "prod", name, spec=spec)
        api.edit("cronhpas", "prod", name, spec={"maxReplicas": "many" if number % 3 == 0 else 9 + number % 3})
        await asyncio.sleep(120)


async def sway(api: ModelApi, names: list[str]) -> None:
    """Loads that go up and down in half an hour, each at its own time."""
    while True:
        seconds = asyncio.get_running_loop().time()
        for number, name in enumerate(names):
            api.load["prod", name] = round(1500 + 1200 * math.sin(2 * math.pi * (seconds / 1800 + number / len(names))))
        api.external["queue"] = round(8 + 6 * math.sin(seconds / 900))
        await asyncio.sleep(20)


def forget(api: ModelApi) -> None:
    """What the model notes for tests, and events, which an API server keeps for an hour."""
    for notes in (api.asked, api.writes, api.scalings):
        notes.clear()
    for namespace, name in list(api.objects["events"]):
        api.delete("events", namespace, name)


def tidy(life: Life) -> None:
    """Takes what waits for the store, as the store would, and empties the caches of functions, which have bounds."""
    life.loads()
    life.controller.reconciler.loads.unstored.clear()
    life.controller.writer.decisions.take(10**9)
    life.controller.writer.decisions.take_points(10**9)
    for found in gc.get_objects():
        if isinstance(found, type(functools.cache(abs))):
            found.cache_clear()
    gc.collect()


@pytest.mark.parametrize("has_errors", [False, True], ids=["calm", "errors"])
@pytest.mark.parametrize(
    ("hours", "objects"), [pytest.param(5, 6, marks=pytest.mark.slow), pytest.param(24, 24, marks=pytest.mark.long)]
)
def test_hours_of_reconciliations_leave_no_task_and_no_memory_behind(hours, objects, has_errors, record_property):
    """
    Each hour from the second on adds less than a block of memory for five reconciliations: what is left are the last
    events, of which 4096 are remembered. A leak of one list a reconciliation would be two blocks.
    """
    logging.disable(logging.CRITICAL)  # pytest keeps each line
    gc.unfreeze()  # the caches of what was imported before are among what tests/distribution.py froze

    async def scenario():
        api = ModelApi()
        names = [f"shop-{number:02d}" for number in range(objects)]
        for number, name in enumerate(names):
            deployment(api, name)
            cronhpa(api, name, **SPECS[number % len(SPECS)])
        works = [asyncio.create_task(sway(api, names))]
        if has_errors:
            works.append(asyncio.create_task(disturb(api, names)))
        looks, requests = [], 0
        async with Life(api, check_standing=False) as life:
            for hour in range(1, hours + 1):
                await until(hour * HOUR)
                requests += len(api.asked)
                forget(api)
                tidy(life)
                looks.append((len(asyncio.all_tasks()), sys.getallocatedblocks()))
            metrics = life.control_loop.metrics
        for work in works:
            work.cancel()
        return looks, requests, metrics.reconciles, metrics.errors

    try:
        looks, requests, reconciliations, errors = live(scenario)
    finally:
        logging.disable(logging.NOTSET)

    _, (tasks, blocks), *_, (tasks_last, blocks_last) = looks
    added = (blocks_last - blocks) / (hours - 2) / (reconciliations / hours)
    record_property("told", f"soak: {reconciliations} reconciliations, {added:+.3f} blocks each, {tasks_last} tasks")
    assert 0 == errors
    assert reconciliations > 0.5 * hours * HOUR / 15 * objects
    # Lists of pod metrics, and what changes; nothing is asked again and again.
    assert requests < 3 * reconciliations
    assert tasks_last <= tasks + 3
    assert added < 0.2
