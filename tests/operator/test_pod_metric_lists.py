"""cronhpa.operator.pod_metric_lists: a metrics server that hangs delays few namespaces, and none of them for long."""

from lives import Life, cronhpa, deployment, timeline, until
from model_api import Fault, ModelApi
from virtual_time import live

NAMESPACES = [f"team-{number}" for number in range(100)]
# It opens at 07:02, two minutes after the start. Its lead is a start-up of 5 s and a period of 15 s.
RUSH = {"name": "rush", "start": "2 7 * * *", "end": "8 7 * * *", "timeZone": "UTC", "minReplicas": 4}
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


def test_a_window_opens_in_a_hundred_namespaces_although_the_metrics_server_hangs():
    """
    32 LISTs are under way at a time, each until its deadline: the last namespaces had waited for four rounds of them.
    Once eight have hung, the others fail at once.
    """

    async def scenario():
        api = fleet(schedules=[RUSH])
        async with Life(api, checks_fast_path=False):
            await until(LEAD_BEGINS - 20)
            api.faults = [hanging("/metrics.k8s.io")]
            await until(LEAD_BEGINS + 60)
        return scaled(api)

    at = live(scenario)

    assert len(NAMESPACES) == len(at)
    assert max(at.values()) <= LEAD_BEGINS + DEADLINE + 5


def test_a_metrics_server_that_answers_again_is_followed_within_a_period_and_a_deadline():
    async def scenario():
        api = fleet()
        async with Life(api, checks_fast_path=False):
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


def test_namespaces_whose_own_lists_hang_leave_the_others_theirs():
    """Twelve namespaces whose LISTs never come, more than may hang in a row: 88 others are answered in between."""

    async def scenario():
        api = fleet()
        async with Life(api, checks_fast_path=False):
            await until(60)
            api.faults = [hanging(f"/namespaces/{namespace}/pods") for namespace in NAMESPACES[:12]]
            await until(120)
            for namespace in NAMESPACES:
                api.load[namespace, "shop"] = 1600
            await until(120 + 2 * PERIOD)
        return scaled(api)

    assert {*NAMESPACES[12:]} == {*live(scenario)}
