"""Planned events in virtual time: lists that fail, edits that follow each other."""

import asyncio

import pytest
from lives import CPU, Life, cronhpa, deployment, timeline, until
from model_api import Fault, ModelApi
from virtual_time import live

EVENTS = "/apis/cronhpa.io/v1alpha1"
AT_ONCE = {"stabilizationWindowSeconds": 0}


def api_with_events():
    api = ModelApi()
    api.kinds |= {(EVENTS, "plannedevents"): "PlannedEvent"}
    return api


def sale(**bounds):
    """An event that is open all the time."""
    window = {"name": "doors", "from": "2027-01-01T00:00", "to": "2027-02-01T00:00"}
    return {"selector": {}, "reason": "a sale", "schedules": [window | bounds]}


@pytest.mark.parametrize(("status", "down"), [(500, 300), (404, 0), (403, 0)])
def test_while_events_cannot_be_listed_nothing_is_scaled_down_and_scale_ups_wait_a_minute(status, down):
    """
    The list fails for 300 s. `busy` needs 8 pods, `idle` one of its four. 404 and 403 are no events: both at once.
    """
    api = api_with_events()
    fault = Fault("GET", "/plannedevents", status=status, times=None)
    api.faults.append(fault)

    async def scenario():
        for name, replicas, load in (("busy", 4, 4000), ("idle", 4, 500)):
            deployment(api, name, replicas=replicas)
            api.load["prod", name] = load
            cronhpa(api, name, metrics=[CPU], behavior={"scaleDown": AT_ONCE})
        async with Life(api):
            await until(300)
            api.faults.remove(fault)
            await until(400)
        return [timeline(api, f"prod/{name}")[0][0] for name in ("busy", "idle")]

    busy, idle = live(scenario)

    assert (60 <= busy < 80) if down else busy < 20
    assert down <= idle < down + 40


def test_the_last_of_many_edits_holds_in_all_objects():
    """Edits come while former ones are taken over, an object at a time: none of 200 objects keeps a former count."""
    api = api_with_events()

    async def scenario():
        for number in range(200):
            deployment(api, f"shop-{number}", replicas=1)
            cronhpa(api, f"shop-{number}", metrics=None)
        api.create("plannedevents", "prod", "sale", spec=sale(minReplicas=1))
        async with Life(api):
            await until(30)
            for edit in range(60):
                api.edit("plannedevents", "prod", "sale", spec=sale(minReplicas=2 + edit % 8))
                for _ in range(edit % 7):
                    await asyncio.sleep(0)
            await until(120)
        return {api.replicas("prod", f"shop-{number}") for number in range(200)}

    assert {5} == live(scenario)  # 2 + 59 % 8
