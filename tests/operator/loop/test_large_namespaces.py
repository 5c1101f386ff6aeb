"""cronhpa.operator.loop.control_loop: many objects of one namespace, due together or one by one."""

import asyncio

import pytest
from lives import Life, cronhpa, deployment, until
from model_api import START, ModelApi
from virtual_time import live

from cronhpa.core.decide import decide
from cronhpa.core.model.instant import SECOND
from cronhpa.core.sync_grid import following


@pytest.mark.slow
def test_the_first_objects_of_a_large_namespace_are_written_before_the_last_are_decided():
    """1,200 objects are decided in slices of 500: somebody's scale-up does not wait for everybody else's decision."""
    decisions = []

    async def scenario():
        api = ModelApi()
        api.latency = lambda _method, _path: 0
        for number in range(1200):
            deployment(api, f"shop-{number}", replicas=1)
            cronhpa(api, f"shop-{number}", metrics=None, minReplicas=2)
        first = []

        def decided(*given):
            decisions.append(None)
            if api.scalings and not first:
                first.append(len(decisions))
            return decide(*given)

        async with Life(api, decide=decided):
            await until(5)
        return first[0], len(api.scalings)

    first, scaled = live(scenario)

    assert 1200 == scaled
    assert 500 < first < 1100


def test_objects_that_are_due_one_by_one_share_a_list():
    """Ten edits within a third of a second are ten decisions over one LIST of pod metrics; a later one asks anew."""

    async def scenario():
        api = ModelApi()
        for number in range(11):
            deployment(api, f"shop-{number}")
            cronhpa(api, f"shop-{number}")
        async with Life(api) as life:
            await until(12)
            lists, reconciliations = api.count("GET", "metrics.k8s.io"), life.control_loop.metrics.reconciles
            for number in range(10):
                api.edit("cronhpas", "prod", f"shop-{number}", spec={"maxReplicas": 20})
                await asyncio.sleep(0.03)
            await asyncio.sleep(0.5)
            api.edit("cronhpas", "prod", "shop-10", spec={"maxReplicas": 20})
            await asyncio.sleep(0.1)
            return api.count("GET", "metrics.k8s.io") - lists, life.control_loop.metrics.reconciles - reconciliations

    assert following("prod", 15 * SECOND, START + 12 * SECOND) > START + 13 * SECOND
    assert (2, 11) == live(scenario)


@pytest.mark.slow
def test_an_edge_that_400_objects_share_waits_for_a_quarter_of_a_second_of_requests():
    """
    In ten namespaces, all windows open at 07:01:00, and each request takes 25 ms; 64 writes at a time are
    400 / 64 x 25 ms = 0.16 s. No scale is written twice. What it takes to compute is printed by `make bench-fleet`.
    """
    opens = 60.0
    window = {"name": "day", "start": "1 7 * * *", "durationMinutes": 600, "minReplicas": 4, "leadTimeSeconds": 0}

    async def scenario():
        api = ModelApi()
        api.latency = lambda _method, _path: 0.025
        for number in range(400):
            namespace = f"team-{number % 10}"
            deployment(api, f"shop-{number}", namespace=namespace)
            cronhpa(api, f"shop-{number}", namespace, minReplicas=2, metrics=None, schedules=[window])
        async with Life(api, check_standing=False):
            await until(opens - 0.1)
            assert [] == api.scalings
            await until(opens + 6)
            asked = (max(at for at, *_ in api.scalings) - START) / SECOND - opens
            await until(opens + 12)
            return asked, len(api.scalings), api.count("PATCH", "/scale")

    asked, scaled, tried = live(scenario)

    assert 400 == scaled == tried
    assert asked <= 0.25
