"""A decision that takes long delays nobody else's."""

import asyncio
import threading

import pytest
from lives import Life, cronhpa, deployment, status
from model_api import ModelApi

from cronhpa.core.decide import decide
from cronhpa.core.model.instant import SECOND, format_instant
from cronhpa.core.schedules.conflicts import conflicts
from cronhpa.operator.loop import reconciler

NIGHTS = [
    {"name": f"night-{hour}", "start": f"0 {hour} * * *", "durationMinutes": 30, "minReplicas": 3} for hour in range(17)
]


FEAST = NIGHTS[0] | {"exclude": {"holidays": [{"country": "DE"}]}}


@pytest.mark.parametrize("schedules", [NIGHTS, [FEAST]], ids=["many schedules", "holidays"])
def test_what_takes_long_to_work_out_does_not_hold_up_its_neighbours(schedules):
    """50 windows with an edge a minute take 0.3 s, the import of the holidays as long; here its neighbour is first."""
    neighbour_is_done = threading.Event()

    def slow(spec, *others):
        if spec.target.name == "long":
            assert neighbour_is_done.wait(60), "the neighbour waits for it"
        return decide(spec, *others)

    async def scenario():
        api = ModelApi()
        for name, own in (("long", schedules), ("one", NIGHTS[:1])):
            deployment(api, name)
            cronhpa(api, name, metrics=None, schedules=own)
        async with Life(api, decide=slow), asyncio.timeout(120):
            while not status(api, "one"):  # noqa: ASYNC110 - the model tells nobody
                await asyncio.sleep(0.01)
            is_first = not status(api, "long")
            neighbour_is_done.set()
            while not status(api, "long"):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        return is_first

    assert asyncio.run(scenario())


def test_contradictions_that_take_long_to_find_after_an_edge_do_not_hold_up_the_neighbours(monkeypatch):
    """
    An override ends after two seconds; a period later the contradictions of all windows are looked for again. The
    decision itself is quick then: its bounds are kept. The neighbour's override ends a second later, so that it comes
    behind.
    """
    neighbour_is_done, searches = threading.Event(), []

    def slow(spec, now):
        if spec.target.name == "long":
            neighbour_is_done.clear()
            searches.append(not searches or neighbour_is_done.wait(60))
        return conflicts(spec, now)

    def told(spec, *others):
        if spec.target.name == "one":
            neighbour_is_done.set()
        return decide(spec, *others)

    async def scenario():
        api = ModelApi()
        api.clock_offset = -round(asyncio.get_running_loop().time() * SECOND)
        far = [{**night, "start": "0 20 * * *"} for night in NIGHTS]
        for name, own, ends in (("long", far, 2), ("one", far[:1], 3)):
            deployment(api, name)
            override = {"minReplicas": 2, "until": format_instant(api.now() + ends * SECOND), "reason": "a test"}
            cronhpa(api, name, metrics=None, syncPeriodSeconds=1, schedules=own, override=override)
        async with Life(api, decide=told), asyncio.timeout(120):
            while len(searches) < 2:  # noqa: ASYNC110 - there is no event for a reconciliation
                await asyncio.sleep(0.01)

    monkeypatch.setattr(reconciler, "conflicts", slow)
    asyncio.run(scenario())

    assert [True, True] == searches


def test_long_decisions_of_one_namespace_leave_threads_for_those_of_another():
    """Forty of `prod`, more than there are threads, end once that of `other` is made."""
    neighbour_is_made = threading.Event()
    in_time = []

    def told(spec, *others):
        if threading.current_thread() is not threading.main_thread():
            if spec.namespace == "other":
                neighbour_is_made.set()
            elif not neighbour_is_made.is_set():
                in_time.append(neighbour_is_made.wait(30))
        return decide(spec, *others)

    async def scenario():
        api = ModelApi()
        api.clock_offset = -round(asyncio.get_running_loop().time() * SECOND)
        objects = [*(("prod", f"long-{number}") for number in range(40)), ("other", "shop")]
        for namespace, name in objects:
            deployment(api, name, namespace=namespace)
            cronhpa(api, name, namespace, metrics=None)
        async with Life(api, decide=told), asyncio.timeout(120):
            while not status(api, "long-0"):  # noqa: ASYNC110 - the model tells nobody
                await asyncio.sleep(0.01)
            for number, (namespace, name) in enumerate(objects):
                far = [{**night, "start": f"{number} 20 * * *"} for night in NIGHTS]
                api.edit("cronhpas", namespace, name, spec={"schedules": far})
                await asyncio.sleep(0.02)  # each has a task of its own
            while not neighbour_is_made.is_set() or not in_time:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)

    asyncio.run(scenario())

    assert in_time
    assert all(in_time)


def test_what_is_kept_is_decided_without_a_thread():
    """
    The first reconciliation works out 17 schedules; the next edge is two hours away. On a busy machine the object may
    change while the first one is under way, and be worked out once more.
    """
    threads = []

    def told(*given):
        threads.append(threading.current_thread() is threading.main_thread())
        return decide(*given)

    async def scenario():
        api = ModelApi()
        deployment(api)
        cronhpa(
            api, metrics=None, syncPeriodSeconds=1, schedules=[{**night, "start": "0 20 * * *"} for night in NIGHTS]
        )
        async with Life(api, decide=told), asyncio.timeout(120):
            while threads[-2:] != [True, True]:  # noqa: ASYNC110 - there is no event for a reconciliation
                await asyncio.sleep(0.01)

    asyncio.run(scenario())

    assert not threads[0]
    assert sorted(threads) == threads
