"""Windows on a real control plane: Ready at their start, also after a kill; zero, overrides, contradictions."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from cronhpa.core.model.instant import format_instant, from_datetime
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("operator")

FLOOR = 8
# 2 to 8 by twos: 4, 6, 8 at 0, 5 and 10 s.
BY_TWOS = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 5}]}}
PERIOD = 1
LEAD = 10 + PERIOD + 10
# Polls are 0.2 s apart, and a busy machine answers late.
SLACK = 2


@pytest.fixture
def slow(control_plane, namespace):
    """Makes objects of schedules alone on pods that take 5 s to become Ready."""

    def make(name, **settings):
        fields = {"metrics": None, "minReplicas": 2, "behavior": BY_TWOS, "syncPeriodSeconds": PERIOD, **settings}
        return Scaled(control_plane, namespace, name, **{"replicas": 2, "start_up_time": "5s", **fields})

    return make


def minute_after(seconds):
    """The first full minute at least `seconds` from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds + 60)).replace(second=0, microsecond=0)


def once(name, begin, end, **stated):
    return {"name": name, "from": f"{begin:%Y-%m-%dT%H:%M}", "to": f"{end:%Y-%m-%dT%H:%M}", **stated}


def day(start, **stated):
    """From `start` on for half an hour, as a cron text."""
    return {
        "name": "day",
        "start": f"{start.minute} {start.hour} * * *",
        "durationMinutes": 30,
        "minReplicas": FLOOR,
        **stated,
    }


def watched(*shops, until):
    """For each the seconds from `until` on, negative before it, at which it was raised and all of its pods Ready."""
    raised, ready = {}, {}
    while len(ready) < len(shops) and time.time() < until.timestamp() + 40:
        for shop in shops:
            at = time.time() - until.timestamp()
            if shop.name not in raised and shop.replicas > 2:
                raised[shop.name] = at
            if shop.name not in ready and shop.ready >= FLOOR:
                ready[shop.name] = at
        time.sleep(0.2)
    return raised, ready


def sleep_until(moment, seconds=0.0):
    time.sleep(max(0.0, moment.timestamp() + seconds - time.time()))


@pytest.mark.long
def test_a_floor_is_ready_at_its_start_also_where_a_cap_closes_then(slow, record_property):
    """
    Pods take 5 s by clocks of whole seconds, which can be 6 and is rounded up to 10; a reconciliation of 1 s; 10 s for
    2, 4, 6 and 8: asked for 21 s ahead, at most 2 reconciliations earlier than that, and Ready at most a reconciliation
    after the start.
    """
    shops = [slow(name, schedules=[day(minute_after(3600))]) for name in ("plain", "capped")]
    for shop in shops:
        wait_until(lambda shop=shop: shop.status.get("podStartupSeconds"), lambda seen: seen == 10, within_s=60)
    plain, capped = shops
    start = minute_after(30)
    before = start - timedelta(minutes=30)
    cron = f"{before.minute} {before.hour} * * *"
    quiet = {"name": "quiet", "start": cron, "durationMinutes": 30, "maxReplicas": 2}
    plain.patch(schedules=[day(start)])
    capped.patch(schedules=[quiet, day(start)])

    raised, ready = watched(plain, capped, until=start)

    for shop in shops:
        told = f"{shop.name}: raised at {raised[shop.name]:.1f} s, Ready at {ready[shop.name]:.1f} s from its start"
        record_property("told", told)
        assert -LEAD - 2 * PERIOD <= raised[shop.name], told
        assert ready[shop.name] <= PERIOD, told
    opened = wait_until(lambda: capped.status["schedules"], lambda rows: rows[-1]["state"] == "Open")
    assert ["Closed", "Open"] == [window["state"] for window in opened]


@pytest.mark.slow
def test_a_window_that_leads_says_so(slow):
    start = minute_after(60)
    shop = slow("web", schedules=[day(start, leadTimeSeconds=3600)])

    shop.reaches(FLOOR)

    seen = wait_until(lambda: shop.status, lambda status: "schedules" in status)
    opens = format_instant(from_datetime(start))
    assert [{"name": "day", "state": "Leading", "opens": opens, "leadSeconds": 3600}] == seen["schedules"]
    assert {"time": opens, "schedule": "day", "state": "Open"} == seen["nextEdge"]
    words = f"Schedule/day asks for at least 8 (3600 s ahead of its start at {opens})"
    told = f"SuccessfulRescale: New size: 4; reason: {words}"
    assert any(event.startswith(told) for event in wait_until(shop.events))


@pytest.mark.slow
def test_an_override_by_kubectl_patch_holds_at_once_until_it_expires(slow):
    shop = slow("web", start_up_time="1s", behavior=None, schedules=[day(minute_after(3600))])
    shop.says("Ready", "True", "Deciding")
    end = datetime.now(UTC) + timedelta(seconds=20)

    shop.patch(override={"minReplicas": 5, "until": f"{end:%Y-%m-%dT%H:%M:%SZ}", "reason": "INC-4711"})

    shop.reaches(5, within_s=30)
    # 4 is the count of a single second, which a poll may miss: the event of it stays.
    wait_until(lambda: any("New size: 4;" in event for event in shop.events()))
    assert "Override" == wait_until(lambda: shop.decided_by, lambda by: by == "Override")
    wait_until(lambda: shop.status["effectiveMinReplicas"], lambda seen: seen == 2, within_s=40)
    assert datetime.now(UTC) >= end.replace(microsecond=0)


def test_a_contradiction_is_told_once(slow):
    now = datetime.now(UTC)
    begin, end = now - timedelta(minutes=5), now + timedelta(minutes=30)
    shop = slow("web", schedules=[once("many", begin, end, minReplicas=4), once("few", begin, end, maxReplicas=3)])

    message = shop.says("BoundsConsistent", "False", "Contradiction")

    words = "Schedule/many asks for at least 4, Schedule/few for at most 3, at equal rank: the maximum wins"
    assert message.endswith(words)
    shop.reaches(3)
    time.sleep(3)
    told = [event for event in shop.events() if event.startswith("Contradiction: ")]
    assert 1 == len(told)
    assert told[0].endswith(words)


@pytest.mark.long
def test_a_floor_is_ready_though_the_operator_was_dead_when_its_lead_began_and_killed_at_its_start(
    slow, operator, record_property
):
    """
    `early` is asked for 45 s ahead: the operator is dead from 50 to 30 s before the start, and 30 s are enough.
    `punctual` has no lead: the operator is dead at its start, and its floor holds a period after it is back.
    """
    start = minute_after(75)
    early = slow("early", schedules=[day(start, leadTimeSeconds=45)])
    punctual = slow("punctual", behavior=None, schedules=[day(start, leadTimeSeconds=0, minReplicas=4)])
    early.says("Ready", "True", "Deciding")
    punctual.says("Ready", "True", "Deciding")

    sleep_until(start, -50)
    operator.kill()
    sleep_until(start, -30)
    assert 2 == early.replicas
    operator.start()
    sleep_until(start, -4)
    operator.kill()
    _, ready = watched(early, until=start)
    sleep_until(start, 5)
    assert 2 == punctual.replicas
    operator.start()
    back = time.monotonic()
    punctual.reaches(4, within_s=PERIOD + SLACK)

    record_property("told", f"early: Ready at {ready['early']:.1f} s; punctual: {time.monotonic() - back:.1f} s late")
    assert ready["early"] <= PERIOD


@pytest.mark.long
def test_a_night_at_zero_and_the_dawn_that_nobody_saw(control_plane, slow, plant, operator):
    """
    A night of a minute: one by schedules alone, one over CPU, one that is made in the night on a target at zero, and
    one that may wake on demand. The operator is dead at dawn.
    """
    dusk = minute_after(15)
    dawn = dusk + timedelta(minutes=1)
    asleep = once("night", dusk, dawn, replicas=0)
    plain = slow("plain", start_up_time="1s", schedules=[asleep])
    measured = slow("measured", start_up_time="1s", metrics=CPU, schedules=[asleep])
    plant.add_target(measured.namespace, measured.labels, 1.0)
    queued = slow(
        "queued",
        start_up_time="1s",
        metrics=QUEUE,
        schedules=[once("night", dusk, dawn, minReplicas=0)],
        behavior=QUICK,
    )
    plant.set_external_metric(queued.namespace, "queue", 0)
    sleep_until(dusk)
    for shop in (plain, measured, queued):
        shop.reaches(0, within_s=30)
        shop.says("ScaledToZero", "True", "ScaledToZero")
    new = slow("new", replicas=0, metrics=CPU, schedules=[asleep])
    new.says("Ready", "True", "Deciding")

    plant.set_external_metric(queued.namespace, "queue", 30)
    queued.reaches(3, within_s=10)
    sleep_until(dawn, -8)
    assert [0, 0, 0] == [shop.replicas for shop in (plain, measured, new)]
    operator.kill()
    sleep_until(dawn, 5)
    operator.start()

    for shop in (plain, measured, new):
        wait_until(lambda shop=shop: shop.replicas, lambda seen: seen >= 2, within_s=PERIOD + SLACK)


CPU = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]
QUEUE = [
    {
        "type": "External",
        "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
    }
]
QUICK = {"scaleDown": {"stabilizationWindowSeconds": 0}}
