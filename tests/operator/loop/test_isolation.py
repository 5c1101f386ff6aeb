"""
cronhpa.operator.loop.metric_apis, cronhpa.operator.loop.hang_limiter: what hangs delays only those that asked it.
The others keep their period of 15 s.
"""

import asyncio
from itertools import pairwise

import pytest
from lives import CPU, Life, condition, cronhpa, deployment, external, until
from model_api import START, Fault, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import SECOND
from cronhpa.core.sync_grid import following

NIGHT = {"name": "night", "start": "0 22 * * *", "end": "0 6 * * *", "minReplicas": 1}
MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
}
UNREADABLE = {"maxReplicas": "many"}
METRICS = {"cpu": [CPU], "schedule": None}


def healthy(api, kind, namespace="prod"):
    """An object that is content, and needs the pod metrics or nothing."""
    deployment(api, "good", namespace=namespace)
    api.load[namespace, "good"] = 1000
    metrics = METRICS[kind]
    cronhpa(api, "good", namespace, metrics=metrics, schedules=[NIGHT] if metrics is None else None)


async def longest_gap(life, api, seconds, namespace="prod"):
    """The longest time between two decisions on the healthy object, in seconds."""
    seen, decided_at = [api.now()], None
    while (now := asyncio.get_running_loop().time()) < seconds:
        state = life.inventory.items.get((namespace, "good"))
        decision = None if state is None else state.local.latest_decision
        if decision is not None and decision.at != decided_at:
            decided_at = decision.at
            seen.append(api.now())
        await until(now + 0.1)
    seen.append(api.now())
    return max(later - earlier for earlier, later in pairwise(seen)) / SECOND


@pytest.mark.parametrize("kind", ["cpu", "schedule"])
def test_an_external_metrics_api_that_hangs_delays_those_that_ask_it(kind):
    """Eighty objects ask eighty metrics: more than there are places for questions of one API at once."""

    async def scenario():
        api = ModelApi()
        healthy(api, kind)
        for number in range(80):
            deployment(api, f"slow-{number}")
            cronhpa(api, f"slow-{number}", metrics=[external(f"queue-{number}")])
        api.faults = [Fault("GET", "external.metrics", hangs=True, times=None)]
        async with Life(api) as life:
            assert await longest_gap(life, api, 150) < 15.5

    live(scenario)


@pytest.mark.slow
def test_windows_of_300_objects_whose_external_metrics_hang_open_in_time():
    """
    At 7:02 all ask for 3 pods. Of 300 requests 16 at most are under way, 8 of metrics that have hung and 8 of others:
    as many objects may wait for their deadline of 15 s.
    """
    opens = 120

    async def scenario():
        api = ModelApi()
        day = {"name": "day", "start": "2 7 * * *", "end": "0 18 * * *", "minReplicas": 3, "leadTimeSeconds": 0}
        for number in range(300):
            deployment(api, f"slow-{number}")
            cronhpa(api, f"slow-{number}", metrics=[external(f"queue-{number}")], schedules=[day])
        api.faults = [Fault("GET", "external.metrics", hangs=True, times=None)]
        async with Life(api):
            await until(opens + 20)
        return sorted((at - START) / SECOND - opens for at, _, _, replicas in api.scalings if replicas == 3)

    seconds = live(scenario)

    assert 300 == len(seconds)
    assert seconds[300 - 16 - 1] < 1
    assert seconds[-1] < 17


def test_pod_metrics_that_hang_delay_no_schedule():
    async def scenario():
        api = ModelApi()
        healthy(api, "schedule")
        deployment(api, "slow")
        cronhpa(api, "slow")
        api.faults = [Fault("GET", "/metrics.k8s.io", hangs=True, times=None)]
        async with Life(api) as life:
            assert await longest_gap(life, api, 100) < 15.5

    live(scenario)


def test_pod_metrics_that_hang_in_one_namespace_delay_no_other():
    async def scenario():
        api = ModelApi()
        healthy(api, "cpu", "other")
        deployment(api, "slow")
        cronhpa(api, "slow")
        api.faults = [Fault("GET", "/metrics.k8s.io/v1beta1/namespaces/prod", hangs=True, times=None)]
        async with Life(api) as life:
            assert await longest_gap(life, api, 100, "other") < 15.5

    live(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cpu", "schedule"])
@pytest.mark.parametrize("namespace", ["prod", "other"])
@pytest.mark.parametrize(
    ("write", "spec"),
    [("slow-.*/scale$", {}), ("slow-.*/status$", {}), ("slow-.*/status$", UNREADABLE)],
    ids=["scale", "status", "unreadable"],
)
def test_writes_that_hang_delay_no_object_that_has_nothing_to_write(kind, namespace, write, spec):
    """Twenty objects of a namespace hang in their writes, more than its 16 places. Each write ends after 15 s."""

    async def scenario():
        api = ModelApi()
        healthy(api, kind, namespace)
        api.faults = [Fault("PATCH", write, hangs=True, times=None)]
        async with Life(api) as life:
            await until(50)
            for number in range(20):
                deployment(api, f"slow-{number}")
                api.load["prod", f"slow-{number}"] = 2000
                cronhpa(api, f"slow-{number}", **spec)
            assert await longest_gap(life, api, 200, namespace) < 15.5
            assert life.control_loop.oldest_reconcile() < 20 * SECOND

    live(scenario)


def test_the_report_of_an_unreadable_spec_may_wait_for_its_place_as_long_as_others():
    """Eighty objects of the namespace scale by writes of twelve seconds each: their turns take minutes."""

    async def scenario():
        api = ModelApi()
        for name in (*(f"slow-{number}" for number in range(80)), "shop"):
            deployment(api, name)
            cronhpa(api, name, metrics=None)
        async with Life(api) as life:
            await until(100)
            api.latency = lambda method, _path: 12 if method == "PATCH" else 0.001
            for number in range(80):
                api.edit("cronhpas", "prod", f"slow-{number}", spec={"minReplicas": 5})
            await until(101)
            api.edit("cronhpas", "prod", "shop", spec=UNREADABLE)
            await until(300)
            assert 0 == life.control_loop.metrics.errors
            assert "False" == condition(api, "SpecAccepted")["status"]
            # It is readable again while its next report waits.
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 10, "minReplicas": 4})
            await until(400)
            assert "True" == condition(api, "SpecAccepted")["status"]
            assert 4 == api.replicas("prod", "shop")

    live(scenario)


@pytest.mark.parametrize("kind", ["cpu", "schedule"])
def test_a_scale_subresource_that_hangs_delays_its_own_object(kind):
    """A kind that is not watched is read through its scale at every reconciliation."""

    async def scenario():
        api = ModelApi()
        healthy(api, kind)
        for number in range(3):
            api.create("widgets", "prod", f"slow-{number}", spec={"replicas": 1})
            target = {"apiVersion": "example.com/v1", "kind": "Widget", "name": f"slow-{number}"}
            metrics = METRICS[kind]
            schedules = [NIGHT] if metrics is None else None
            cronhpa(api, f"slow-{number}", scaleTargetRef=target, metrics=metrics, schedules=schedules)
        api.faults = [Fault("GET", "slow-.*/scale$", hangs=True, times=None)]
        async with Life(api) as life:
            assert await longest_gap(life, api, 150) < 15.5

    live(scenario)


def test_an_api_that_hangs_delays_those_whose_targets_it_serves():
    """
    A hundred objects ask which resource their kind is. Found: each sent a request of its own, so that all places of the
    client were taken, and the scaling of others waited for minutes.
    """

    async def scenario():
        api = ModelApi()
        healthy(api, "cpu")
        for number in range(100):
            target = {"apiVersion": "example.com/v1", "kind": "Widget", "name": f"slow-{number}"}
            cronhpa(api, f"slow-{number}", scaleTargetRef=target)
        api.faults = [Fault("GET", "/apis/example.com/v1$", hangs=True, times=None)]
        async with Life(api):
            await until(50)
            api.load["prod", "good"] = 2000
            await until(66)
        return [(name, replicas) for _, name, _, replicas in api.scalings]

    assert [("prod/good", 4)] == live(scenario)


def test_an_api_of_several_kinds_whose_scales_hang_delays_no_other():
    """Four kinds, of each more targets than are read at once. Found: four times 16 reads took all 64 places."""

    async def scenario():
        api = ModelApi()
        healthy(api, "cpu")
        for kind in ("Rotor", "Stator", "Shaft", "Gear"):
            api.kinds["/apis/example.com/v1", f"{kind.lower()}s"] = kind
            for number in range(20):
                target = {"apiVersion": "example.com/v1", "kind": kind, "name": f"slow-{number}"}
                cronhpa(api, f"{kind.lower()}-{number}", scaleTargetRef=target)
        api.faults = [Fault("GET", "slow-.*/scale$", hangs=True, times=None)]
        async with Life(api):
            await until(50)
            api.load["prod", "good"] = 2000
            await until(66)
        return [(name, replicas) for _, name, _, replicas in api.scalings]

    assert [("prod/good", 4)] == live(scenario)


def test_what_is_in_doubt_and_cannot_be_read_delays_its_own_object():
    """Three answers were lost, and the reads that would tell hang."""

    async def scenario():
        api = ModelApi()
        healthy(api, "cpu")
        for number in range(3):
            deployment(api, f"slow-{number}")
            api.load["prod", f"slow-{number}"] = 2000
            cronhpa(api, f"slow-{number}")
        api.faults = [
            Fault("PATCH", "slow-.*/scale$", times=None),
            Fault("GET", "slow-.*/scale$", hangs=True, times=None),
            Fault("GET", "cronhpas/slow-", hangs=True, times=None),
        ]
        async with Life(api) as life:
            await until(1)
            assert await longest_gap(life, api, 150) < 15.5

    live(scenario)


def test_a_namespace_that_cannot_be_listed_keeps_no_other_from_being_decided():
    """3 cores at 50 % of one each ask for 6; the list of the second namespace is forbidden all the time."""

    async def scenario():
        api = ModelApi()
        deployment(api)
        cronhpa(api)
        api.load["prod", "shop"] = 3000
        api.faults = [Fault("GET", "^/apis/cronhpa.io/v1alpha1/namespaces/other/cronhpas$", status=403, times=None)]
        async with Life(api, namespaces=("prod", "other")):
            await until(60)
        return api.replicas("prod", "shop"), api.count("GET", "/namespaces/prod/cronhpas")

    replicas, lists = live(scenario)

    assert replicas == 6
    assert lists <= 20  # it is tried again every five seconds


def test_a_resource_that_is_asked_for_while_the_list_is_under_way_is_read_all_the_same():
    """Of the list only what the namespace asks for is decoded: after an edit that can be more than at its beginning."""

    async def scenario():
        api = ModelApi()
        for name in ("first", "second"):
            deployment(api, name, replicas=5)
            api.load["prod", name] = 2500
            cronhpa(api, name, metrics=[MEMORY])
        reconciliation = (following("prod", 15 * SECOND, START + 20 * SECOND) - START) / SECOND
        async with Life(api):
            await until(reconciliation - 1)
            answered = asyncio.Event()
            api.faults = [Fault("GET", "/metrics.k8s.io/", waits=answered)]
            await until(reconciliation + 1)
            api.edit("cronhpas", "prod", "second", spec={"metrics": [CPU]})
            answered.set()
            await until(reconciliation + 5)
        told = [event for event in api.objects["events"].values() if "cpu" in event["message"]]
        assert [] == told
        assert "ValidMetricFound" == condition(api, "ScalingActive", "second")["reason"]

    live(scenario)
