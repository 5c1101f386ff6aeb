"""
cronhpa.operator.loop.metric_apis: a metrics server that hangs delays few namespaces, and none of them for long.
"""

import asyncio

import pytest
from lives import CPU, Life, condition, cronhpa, deployment, external, status, timeline, until
from loop.test_isolation import healthy, longest_gap
from model_api import Fault, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import SECOND

NAMESPACES = [f"team-{number}" for number in range(100)]
# It opens at 07:02, two minutes after the start. Its lead is a start-up of 5 s and a period of 15 s.
RUSH = {"name": "rush", "start": "2 7 * * *", "end": "8 7 * * *", "timeZone": "UTC", "minReplicas": 4}
# It opens at 07:01, a minute after the start, and has no lead.
DAY = {"name": "day", "start": "1 7 * * *", "durationMinutes": 600, "minReplicas": 4, "leadTimeSeconds": 0}
OPENS = 60
LEAD_BEGINS, PERIOD, DEADLINE = 100, 15, 15


def fleet(**spec):
    """A hundred namespaces with one object each, of two pods at 50 %."""
    api = ModelApi()
    for namespace in NAMESPACES:
        deployment(api, namespace=namespace)
        api.load[namespace, "shop"] = 1000
        cronhpa(api, namespace=namespace, **spec)
    return api


def hanging(path):
    return Fault("GET", path, hangs=True, times=None)


def scaled(api):
    """The second in which each namespace was scaled first, of those that were."""
    lines = {namespace: timeline(api, f"{namespace}/shop") for namespace in NAMESPACES}
    return {namespace: line[0][0] for namespace, line in lines.items() if line}


@pytest.mark.slow
def test_a_window_opens_in_a_hundred_namespaces_although_the_metrics_server_hangs():
    """
    32 LISTs are under way at a time, each until its deadline: the last namespaces had waited for four rounds of them.
    Once eight have hung, the others fail at once.
    """

    async def scenario():
        api = fleet(schedules=[RUSH])
        async with Life(api, check_standing=False):
            await until(LEAD_BEGINS - 20)
            api.faults = [hanging("/metrics.k8s.io")]
            await until(LEAD_BEGINS + 60)
        return scaled(api)

    at = live(scenario)

    assert len(NAMESPACES) == len(at)
    assert max(at.values()) <= LEAD_BEGINS + DEADLINE + 5


@pytest.mark.slow
def test_a_metrics_server_that_answers_again_is_followed_within_a_period_and_a_deadline():
    async def scenario():
        api = fleet()
        async with Life(api, check_standing=False):
            await until(60)
            api.faults = [hanging("/metrics.k8s.io")]
            await until(180)
            api.faults = []
            for namespace in NAMESPACES:
                api.load[namespace, "shop"] = 1600
            await until(240)
        return scaled(api)

    at = live(scenario)

    assert len(NAMESPACES) == len(at)
    assert max(at.values()) <= 180 + PERIOD + DEADLINE


@pytest.mark.slow
def test_namespaces_whose_own_lists_hang_leave_the_others_theirs():
    """Twelve namespaces whose LISTs never come, more than may hang in a row: 88 others are answered in between."""

    async def scenario():
        api = fleet()
        async with Life(api, check_standing=False):
            await until(60)
            api.faults = [hanging(f"/namespaces/{namespace}/pods") for namespace in NAMESPACES[:12]]
            await until(120)
            for namespace in NAMESPACES:
                api.load[namespace, "shop"] = 1600
            await until(120 + 2 * PERIOD)
        return scaled(api)

    assert {*NAMESPACES[12:]} == {*live(scenario)}


def test_a_missing_target_is_told_of_although_the_metrics_server_hangs():
    """Of a target that is not there no metric is asked for: that it is missing does not wait for a list."""

    async def scenario():
        api = ModelApi()
        api.faults = [Fault("GET", "/metrics.k8s.io", hangs=True, times=None)]
        async with Life(api, check_standing=False):
            await until(30)
            cronhpa(api)
            await until(33)
            return condition(api, "AbleToScale").get("reason"), api.count("GET", "/metrics.k8s.io")

    assert ("FailedGetScale", 0) == live(scenario)


def test_a_window_of_a_blind_namespace_opens_although_the_metrics_server_hangs():
    """Nobody can list pods any more, so no metric is asked for; the window opens at 60 s all the same."""

    async def scenario():
        api = ModelApi()
        deployment(api)
        api.load["prod", "shop"] = 1000
        cronhpa(api, schedules=[DAY])
        async with Life(api, check_standing=False):
            await until(10)
            api.faults = [Fault("GET", "^/api/v1/pods$", status=403, times=None)]
            api.cut_watches("pods")
            await until(OPENS - 1)
            blind = condition(api, "ScalingActive")["message"]
            api.faults.append(Fault("GET", "/metrics.k8s.io", hangs=True, times=None))
            since = asyncio.get_running_loop().time()
            await until(OPENS + 30)
            return blind, timeline(api), api.count("GET", "/metrics.k8s.io", since)

    blind, changes, lists = live(scenario)

    assert blind.endswith("the pods cannot be listed or watched any more: answered 403 on purpose")
    assert [(60, 2, 4)] == changes
    assert 0 == lists


def unlisted_sets(api, namespace, count):
    """StatefulSets cannot be listed: each reconciliation reads its target."""
    api.faults = [Fault("GET", "^/apis/apps/v1/statefulsets$", status=403, times=None)]
    for index in range(count):
        api.create("statefulsets", namespace, f"set-{index}", spec={"replicas": 1})
        target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": f"set-{index}"}
        cronhpa(api, f"set-{index}", namespace, scaleTargetRef=target)


@pytest.mark.slow
def test_targets_that_are_read_one_by_one_delay_no_other_namespace():
    """A tenant has 400 of them, and each read takes 50 ms: 20 s of one period of 15."""

    async def scenario():
        api = ModelApi()
        healthy(api, "cpu", "other")
        unlisted_sets(api, "prod", 400)
        api.latency = lambda _method, path: 0.05 if path.endswith("/scale") else 0.0
        async with Life(api) as life:
            await until(20)
            return await longest_gap(life, api, 200, "other")

    assert live(scenario) < 15.5


def test_a_decision_counts_as_long_as_the_list_that_it_waits_for():
    """
    `cronhpa_decision_duration_seconds`: from the begin of a reconciliation to its decision; metrics are read in
    between.
    """

    async def scenario():
        api = ModelApi()
        deployment(api)
        cronhpa(api)
        api.latency = lambda _method, path: 4.0 if "/metrics.k8s.io" in path else 0.0
        async with Life(api, check_standing=False) as life:
            await until(10)
            metrics = life.control_loop.metrics
            return metrics.duration.total / SECOND, metrics.tick_duration / SECOND

    assert (4, 4) == tuple(map(round, live(scenario)))


# The well ones, their period, those that hang, and the periods of their objects: under 32 LISTs at a time all the same.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("well", "period", "hanging", "periods"),
    [(1, 60, 24, (15,)), (1, 15, 8, (15, 20, 25, 30)), (2, 15, 5, (15, 20, 25, 30))],
)
def test_namespaces_whose_own_lists_hang_leave_a_few_others_theirs(well, period, hanging, periods):
    """
    Seconds in ten minutes without metrics, of the well ones.

    Found: those that hang take all eight probes again and again, so that the answer that would end it is never asked
    for.
    """

    async def scenario():
        api = ModelApi()
        names = [f"team-{number}" for number in range(well + hanging)]
        for number, namespace in enumerate(names):
            for seconds in (period,) if number < well else periods:
                deployment(api, f"shop-{seconds}", namespace=namespace)
                api.load[namespace, f"shop-{seconds}"] = 1000
                cronhpa(api, f"shop-{seconds}", namespace, syncPeriodSeconds=seconds)
        async with Life(api, check_standing=False):
            await until(60)
            api.faults = [
                Fault("GET", f"/metrics.k8s.io/.*/{namespace}/pods", hangs=True, times=None)
                for namespace in names[well:]
            ]
            await until(120)
            without = 0
            for seconds in range(120, 720):
                await until(seconds)
                without += sum(
                    condition["type"] == "ScalingActive" and condition["status"] != "True"
                    for namespace in names[:well]
                    for condition in api.objects["cronhpas"][namespace, f"shop-{period}"]["status"]["conditions"]
                )
        return without

    assert 0 == live(scenario)


def test_one_namespace_whose_lists_hang_leaves_the_others_theirs():
    """
    Its 24 objects have an external metric as well, so that each asks for a LIST when its own period ends.

    Found: they take all eight probes, and the two others have no metrics for 39 % of the time.
    """

    async def scenario():
        api = ModelApi()
        for namespace in ("team-0", "team-1"):
            deployment(api, namespace=namespace)
            api.load[namespace, "shop"] = 1000
            cronhpa(api, namespace=namespace)
        for number in range(24):
            deployment(api, f"shop-{number}", namespace="team-2")
            own = {"metrics": [CPU, external("queue")], "syncPeriodSeconds": 15 + number}
            cronhpa(api, f"shop-{number}", "team-2", **own)
        async with Life(api, check_standing=False):
            await until(60)
            api.faults = [Fault("GET", "/metrics.k8s.io/.*/team-2/pods", hangs=True, times=None)]
            without = 0
            for seconds in range(120, 420):
                await until(seconds)
                without += sum(
                    condition["type"] == "ScalingActive" and condition["status"] != "True"
                    for namespace in ("team-0", "team-1")
                    for condition in status(api, namespace=namespace)["conditions"]
                )
        return without

    assert 0 == live(scenario)


@pytest.mark.slow
def test_targets_that_are_read_one_by_one_delay_no_write_of_another_namespace():
    """
    A tenant has 400 of them, and each read takes 200 ms; windows of both open at 60 s.

    Found: all are read at once and take the client's 64 places; the write of the other namespace waits for them.
    """
    day = {"name": "day", "start": "1 7 * * *", "durationMinutes": 600, "minReplicas": 4, "leadTimeSeconds": 0}

    async def scenario():
        api = ModelApi()
        deployment(api, namespace="other")
        api.load["other", "shop"] = 1000
        cronhpa(api, namespace="other", schedules=[day])
        api.faults = [Fault("GET", "^/apis/apps/v1/statefulsets$", status=403, times=None)]
        for index in range(400):
            api.create("statefulsets", "prod", f"set-{index}", spec={"replicas": 1})
            target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": f"set-{index}"}
            cronhpa(api, f"set-{index}", "prod", scaleTargetRef=target, schedules=[day])
        api.latency = lambda _method, path: 0.2 if path.endswith("/scale") else 0.0
        async with Life(api, check_standing=False):
            await until(80)
        return timeline(api, "other/shop")

    assert [(60, 2, 4)] == live(scenario)
