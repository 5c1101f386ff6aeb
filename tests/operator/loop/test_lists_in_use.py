"""cronhpa.operator.loop.metric_apis: one list at a time for each namespace, of 32 namespaces."""

import asyncio
import json
from itertools import pairwise
from types import SimpleNamespace

from lives import Life, at_rest, cronhpa, deployment, timeline, until
from model_api import START, Fault, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import HOUR, SECOND
from cronhpa.core.model.spec import MetricTarget, ResourceMetric, TargetRef
from cronhpa.operator.loop.metric_apis import MetricApis
from cronhpa.sources.source import MeasuredObject

NAMES = [f"shop-{number}" for number in range(10)]


def fleet(period=600):
    api = ModelApi()
    for name in NAMES:
        deployment(api, name)
        api.load["prod", name] = 1000
        cronhpa(api, name, syncPeriodSeconds=period)
    return api


def edited(api, name):
    api.edit("cronhpas", "prod", name, spec={"minReplicas": 4})


def lists(api, since):
    return [at for at, _, path in api.asked if "/metrics.k8s.io" in path and at >= since]


def test_objects_that_become_due_while_a_list_is_under_way_share_the_next_one():
    """
    A LIST takes 4 s, and ten objects are edited, one each 0.6 s. The first edit sends a LIST; the next six, at 0.6 to
    3.6 s, wait for it and share one, and so do the three at 4.2 to 5.4 s: three LISTs, of which no two overlap.
    """

    async def scenario():
        api = fleet()
        async with Life(api, check_standing=False):
            await until(60)
            api.latency = lambda _method, path: 4.0 if "/metrics.k8s.io" in path else 0.0
            for number, name in enumerate(NAMES):
                await until(60 + 0.6 * number)
                edited(api, name)
            await until(80)
            return api, [api.replicas("prod", name) for name in NAMES]

    api, replicas = live(scenario)
    sent = lists(api, START + 60 * SECOND)

    assert [4] * 10 == replicas
    assert 3 == len(sent)
    assert all(later - earlier >= 4 * SECOND for earlier, later in pairwise(sent))


def test_a_list_that_hangs_holds_nobody_up_for_longer_than_five_seconds():
    """The LIST of the first edit hangs until its deadline of 15 s; the object that is edited next has its own."""

    async def scenario():
        api = fleet()
        async with Life(api, check_standing=False):
            await until(60)
            api.faults = [Fault("GET", "/metrics.k8s.io", hangs=True)]
            edited(api, NAMES[0])
            await until(61)
            edited(api, NAMES[1])
            await until(65)
            waiting = api.replicas("prod", NAMES[1])
            await until(67)
            return waiting, api.replicas("prod", NAMES[1]), api.replicas("prod", NAMES[0])

    assert (2, 4, 2) == live(scenario)


def test_what_waits_for_lists_that_hang_begins_no_later_than_who_comes_after_it():
    """
    Four LISTs hang until their deadlines of 15 s. The object of 62 s waits for the one of 60 s. At 65.5 s, more than
    five seconds later, another object need not wait, and neither does the first one any more.

    Found: the later ones began alone, each time with a new list to wait for, and the first one waited on.
    """

    async def scenario():
        api = fleet()
        async with Life(api, check_standing=False):
            await until(60)
            api.faults = [Fault("GET", "/metrics.k8s.io", hangs=True, times=4)]
            for seconds, name in zip((60, 62, 65.5, 70.8, 76.1), NAMES, strict=False):
                await until(seconds)
                edited(api, name)
            await until(120)
        return timeline(api, f"prod/{NAMES[1]}")

    assert [(65 + 15, 2, 4)] == live(scenario)


def test_an_object_that_is_edited_while_the_list_of_its_period_is_under_way_is_reconciled_once():
    """
    Four pods of a load for sixty: the default rate doubles them each turn. The LIST takes 4 s, the next turn 15 s more.

    Found: it was reconciled with that list, and once more when it had waited for its end.
    """

    async def scenario():
        api = ModelApi()
        at_rest(api, "rest-0")
        deployment(api, replicas=4)
        api.load["prod", "shop"] = 2000
        cronhpa(api, maxReplicas=100)
        async with Life(api, check_standing=False) as life:
            await until(100)
            assert life.inventory.items["prod", "shop"].local.standing is not None
            sent = asyncio.Event()

            def latency(_method, path):
                if "/metrics.k8s.io" not in path:
                    return 0.0
                sent.set()
                return 4.0

            api.latency = latency
            await sent.wait()
            api.load["prod", "shop"] = 30_000
            edited(api, "shop")
            await asyncio.sleep(10)
        return [(before, after) for _, before, after in timeline(api)]

    assert [(4, 8)] == live(scenario)


def test_an_object_that_waits_while_the_clock_steps_back_has_its_turns_by_the_new_clock():
    """Found: it was due an hour later, when it had become due by the old clock."""

    async def scenario():
        api = fleet(period=15)
        async with Life(api, check_standing=False):
            await until(60)
            api.latency = lambda _method, path: 4.0 if "/metrics.k8s.io" in path else 0.0
            edited(api, NAMES[0])
            await until(60.6)
            edited(api, NAMES[1])
            await until(61)
            api.clock_offset -= HOUR
            await until(90)
            api.load["prod", NAMES[1]] = 4000
            await until(120)
        return [(before, after) for _, before, after in timeline(api, f"prod/{NAMES[1]}")]

    assert [(2, 4), (4, 8)] == live(scenario)


def test_an_object_that_is_deleted_while_it_waits_for_a_list_is_forgotten():
    async def scenario():
        api = fleet()
        async with Life(api, check_standing=False) as life:
            await until(60)
            api.latency = lambda _method, path: 4.0 if "/metrics.k8s.io" in path else 0.0
            edited(api, NAMES[0])
            await until(61)
            edited(api, NAMES[1])
            await until(62)
            api.delete("cronhpas", "prod", NAMES[1])
            await until(80)
            await asyncio.sleep(0)
            return api.replicas("prod", NAMES[0]), api.replicas("prod", NAMES[1]), life.control_loop.metrics.errors

    assert (4, 2, 0) == live(scenario)


def test_turns_of_32_namespaces_use_lists_at_a_time():
    """33 namespaces, each with a turn of two seconds: the last one begins when the first ones have ended."""

    async def scenario():
        apis, begun = MetricApis(None, None, None), []

        async def turn(namespace):
            async with apis.using_list(namespace):
                begun.append(round(asyncio.get_running_loop().time() - start, 3))
                await asyncio.sleep(2)

        start = asyncio.get_running_loop().time()
        await asyncio.gather(*(turn(f"team-{number}") for number in range(33)))
        return begun

    assert [0.0] * 32 + [2.0] == live(scenario)


def test_turns_that_are_given_up_while_they_wait_leave_their_room_to_others():
    """32 turns of a second, and two that wait for their end. The first of these is cancelled at 0.5 s."""

    async def scenario():
        apis, begun = MetricApis(None, None, None), {}

        async def turn(namespace):
            async with apis.using_list(namespace):
                begun[namespace] = round(asyncio.get_running_loop().time() - start, 3)
                await asyncio.sleep(1)

        start = asyncio.get_running_loop().time()
        first = [asyncio.create_task(turn(f"team-{number}")) for number in range(32)]
        given_up, last = asyncio.create_task(turn("given-up")), asyncio.create_task(turn("last"))
        await asyncio.sleep(0.5)
        given_up.cancel()
        await asyncio.gather(*first, last)
        return begun.get("given-up"), begun["last"], apis.list_wait_seconds("given-up")

    assert (None, 1.0, 0) == live(scenario)


def test_turns_that_hang_keep_others_out_for_five_seconds():
    """What they wait for besides their lists may hang: a second LIST after an edit, a target that is read by itself."""

    async def scenario():
        apis = MetricApis(None, None, None)

        async def turn(namespace, seconds):
            async with apis.using_list(namespace):
                begun = asyncio.get_running_loop().time() - start
                await asyncio.sleep(seconds)
                return round(begun, 3)

        start = asyncio.get_running_loop().time()
        hanging = [turn(f"team-{number}", 40) for number in range(32)]
        *_, last = await asyncio.gather(*hanging, turn("last", 1))
        return last

    assert 5.0 == live(scenario)


def test_an_object_waits_for_five_seconds_although_its_namespace_waits_for_room_meanwhile():
    """The room is kept for 4.9 s; an object that waits from the beginning need not wait at 5 s."""

    async def scenario():
        apis = MetricApis(None, None, None)

        async def turn(namespace, seconds):
            async with apis.using_list(namespace):
                await asyncio.sleep(seconds)

        async with asyncio.TaskGroup() as tasks:
            for number in range(32):
                tasks.create_task(turn(f"first-{number}", 4.9))
            tasks.create_task(turn("prod", 15))
            await asyncio.sleep(0.1)
            waits = [apis.list_wait_seconds("prod"), apis.list_wait_seconds("other")]
            await asyncio.sleep(waits[0])
            return [round(seconds, 3) for seconds in (*waits, apis.list_wait_seconds("prod"))]

    assert [4.9, 0, 0] == live(scenario)


class FpgaMetrics:
    """A metrics server that states cpu and an FPGA; `asked` counts the LISTs."""

    asked = 0

    async def read(self, _path, **_):
        self.asked += 1
        usage = {"cpu": "250m", "example.com/fpga": "2"}
        times = {"timestamp": "2026-11-21T15:00:00Z", "window": "15s"}
        return json.dumps({"items": [{"metadata": {"name": "a"}, **times, "containers": [{"usage": usage}]}]}).encode()


async def test_a_resource_that_is_neither_cpu_nor_memory_has_a_list_of_its_own():
    """Of cpu, memory and an FPGA, asked for twice: 250 m, none and 2 by two LISTs."""
    server = FpgaMetrics()
    queries = MetricApis(server, None, None).queries("prod")
    shop = MeasuredObject(
        "prod", "shop", TargetRef("apps/v1", "Deployment", "shop"), (SimpleNamespace(name="a"),), 15 * SECOND
    )

    measured = [
        await queries.measure(ResourceMetric(resource, MetricTarget("AverageValue", average_value=1000)), shop, "")
        for resource in ("cpu", "memory", "example.com/fpga") * 2
    ]

    assert [{"a": 250}, {}, {"a": 2000}] * 2 == [{name: one.value for name, one in each.items()} for each in measured]
    assert 2 == server.asked


def test_an_object_of_another_resource_sends_no_list_of_cpu_and_memory_first():
    """Four periods of 15 s, and a LIST in each."""

    async def scenario():
        api = ModelApi()
        deployment(api)
        target = {"type": "AverageValue", "averageValue": 1}
        cronhpa(api, metrics=[{"type": "Resource", "resource": {"name": "example.com/fpga", "target": target}}])
        async with Life(api, check_standing=False):
            await until(20)
            since = api.now()
            await until(80)
        return lists(api, since)

    assert 4 == len(live(scenario))
