"""Windows in virtual time: Ready pods at their start, an operator that is down, zero, overrides, conflicts."""

import asyncio

import pytest
from lives import Life, condition, cronhpa, deployment, external, one_pod_each, rules, status, timeline, until
from model_api import START, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import SECOND, format_instant

# 07:10:00, with START at 07:00:00.
OPENS = 600
PERIOD = 15


def window(name="day", start="10 7 * * *", end="0 18 * * *", **stated):
    return {"name": name, "start": start, "end": end, **stated}


def slow_shop(replicas=1, start_up=39.0, **spec):
    """Pods take 39 s by clocks of whole seconds, so 40 at most. Up it goes by 2 pods per 30 s."""
    api = ModelApi()
    api.start_up = start_up
    deployment(api, replicas=replicas)
    up = {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 30}]}
    cronhpa(api, **{"metrics": None, "maxReplicas": 50, "behavior": {"scaleUp": up}, **spec})
    return api


# 1 to 8 by twos: 3, 5, 7, 8 in 90 s; 40 s to be Ready; a period.
LEAD = 40 + PERIOD + 90


async def ready_at(api, number, *, before):
    """The second at which `number` pods are Ready."""
    while asyncio.get_running_loop().time() < before:
        if api.ready("prod", "shop") >= number:
            return asyncio.get_running_loop().time()
        await asyncio.sleep(0.5)
    raise AssertionError(f"{api.ready('prod', 'shop')} pods are Ready, not {number}: {timeline(api)}")


def state(api, name="day"):
    return next(schedule for schedule in status(api)["schedules"] if schedule["name"] == name)


def replicas_at(api, second):
    return next((new for at, _, new in reversed(timeline(api)) if at <= second), None)


# --- leads -------------------------------------------------------------------------------------------------------


def test_a_floor_is_ready_when_its_window_opens_and_not_asked_for_too_early():
    async def scenario():
        api = slow_shop(schedules=[window(minReplicas=8)])
        async with Life(api):
            await until(OPENS - LEAD - 1)
            assert [] == timeline(api)
            assert {"time": format_instant(START + (OPENS - LEAD) * SECOND), "schedule": "day", "state": "Leading"} == (
                status(api)["nextEdge"]
            )
            # The lead begins off the grid; a reconciliation within 1.5 s of the grid is remembered by it, and so are
            # its steps.
            assert await ready_at(api, 8, before=OPENS + 1) > OPENS - PERIOD - 2
            assert {"state": "Leading", "leadSeconds": LEAD}.items() <= state(api).items()
            # Its floor counts already, so that the next period is soon enough to say that it is open.
            await until(OPENS + PERIOD)
        assert "Open" == state(api)["state"]
        assert (OPENS - LEAD, 1, 3) == timeline(api)[0]

    live(scenario)


@pytest.mark.parametrize("back", [-LEAD + 30, -30, 5])
def test_an_operator_that_was_dead_when_the_lead_began_goes_for_the_floor_at_once(back):
    """Dead from before the lead until so many seconds from the start: as soon as it may be, 90 s + 40 s later."""

    async def scenario():
        api = slow_shop(schedules=[window(minReplicas=8)])
        async with Life(api):
            await until(OPENS - LEAD - 20)
        await until(OPENS + back)
        async with Life(api):
            assert await ready_at(api, 8, before=OPENS + back + LEAD) >= OPENS
        assert OPENS + back <= timeline(api)[0][0] <= OPENS + back + PERIOD

    live(scenario)


def test_a_lead_does_not_waver_when_start_up_is_learned_meanwhile_or_the_operator_dies():
    """
    From zero nothing is known: 60 s to be Ready, 15 s, and 2, 4, 6, 8 in 90 s. The pods are Ready within 5 s: a lead
    that began then would be 55 s shorter.
    """

    async def scenario():
        night = window("night", "0 22 * * *", "10 7 * * *", replicas=0)
        api = slow_shop(0, 4.0, schedules=[night, window(minReplicas=8)])
        async with Life(api) as life:
            begun = None
            while not begun:
                await asyncio.sleep(1)
                begun = life.memory().leads
            await asyncio.sleep(20)
            assert 5 * SECOND == life.memory().start_up
            assert begun == life.memory().leads
            lead = state(api)["leadSeconds"]
        await asyncio.sleep(3)
        async with Life(api) as life:
            await asyncio.sleep(PERIOD)
            assert begun == life.memory().leads
            await until(OPENS + 1)
            assert () == life.memory().leads
        assert "leads" not in status(api)["memory"]
        assert 60 + PERIOD + 90 == lead
        counts = [new for _, _, new in timeline(api)]
        assert sorted(counts) == counts
        assert 8 == counts[-1]

    live(scenario)


def test_a_cap_that_closes_at_the_start_blocks_nothing_and_holds_until_the_lead():
    async def scenario():
        quiet = window("quiet", "0 6 * * *", "10 7 * * *", maxReplicas=1)
        api = slow_shop(schedules=[quiet, window(minReplicas=8)])
        async with Life(api):
            await until(OPENS - LEAD - 1)
            assert 1 == status(api)["effectiveMaxReplicas"]
            await ready_at(api, 8, before=OPENS + 1)
        assert (8, 8) == (status(api)["effectiveMinReplicas"], status(api)["effectiveMaxReplicas"])

    live(scenario)


def test_killed_across_a_start_the_floor_holds_within_a_period_of_coming_back():
    async def scenario():
        api = slow_shop(schedules=[window(minReplicas=3, leadTimeSeconds=0)])
        async with Life(api):
            await until(OPENS - 5)
        await until(OPENS + 60)
        async with Life(api):
            await until(OPENS + 60 + PERIOD)
            assert 3 == api.replicas("prod", "shop")

    live(scenario)


def test_dead_across_a_whole_window_nothing_happens_when_it_is_back():
    async def scenario():
        api = slow_shop(schedules=[window(end="20 7 * * *", minReplicas=8)])
        async with Life(api):
            await until(100)
        await until(1300)
        async with Life(api):
            await until(1400)
        assert [] == timeline(api)

    live(scenario)


# --- zero --------------------------------------------------------------------------------------------------------


def night(**stated):
    """07:05 to 07:10."""
    return window("night", "5 7 * * *", "10 7 * * *", **stated)


@pytest.mark.parametrize("metrics", [None, "cpu"], ids=["schedules alone", "over a metric"])
def test_zero_by_night_and_back_at_dawn(metrics):
    async def scenario():
        spec = {} if metrics is None else {"metrics": [CPU_50]}
        api = ModelApi()
        deployment(api, replicas=3)
        cronhpa(api, minReplicas=3, schedules=[night(replicas=0)], **{"metrics": None, **spec})
        async with Life(api):
            await until(OPENS - 1)
            assert (0, "ScaledToZero") == (api.replicas("prod", "shop"), condition(api, "ScaledToZero")["reason"])
            await until(OPENS + PERIOD)
        assert [(300, 3, 0), (OPENS, 0, 3)] == timeline(api)

    live(scenario)


CPU_50 = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


@pytest.mark.parametrize("dies", [295, 305], ids=["before the night", "in the night"])
def test_an_operator_that_was_dead_at_dawn_wakes_what_the_night_put_to_sleep(dies):
    """Dead before the night as well, it finds the pods of the day and leaves them."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=3)
        cronhpa(api, metrics=[CPU_50], minReplicas=3, schedules=[night(replicas=0)])
        async with Life(api):
            await until(dies)
        await until(OPENS + 100)
        async with Life(api):
            await until(OPENS + 100 + PERIOD)
        assert 3 == api.replicas("prod", "shop")

    live(scenario)


def test_an_object_that_is_new_in_the_night_takes_a_zero_for_the_nights_and_wakes_it():
    async def scenario():
        api = ModelApi()
        deployment(api, replicas=0)
        async with Life(api):
            await until(400)
            cronhpa(api, metrics=[CPU_50], minReplicas=3, schedules=[night(replicas=0)])
            await until(OPENS - 1)
            assert 0 == api.replicas("prod", "shop")
            await until(OPENS + PERIOD)
        assert [(OPENS, 0, 3)] == timeline(api)

    live(scenario)


def test_a_zero_made_by_hand_in_the_day_stays_through_night_and_dawn():
    async def scenario():
        api = ModelApi()
        deployment(api, replicas=3)
        cronhpa(api, metrics=[CPU_50], minReplicas=3, schedules=[night(replicas=0)])
        async with Life(api):
            await until(100)
            api.edit("deployments", "prod", "shop", spec={"replicas": 0})
            await until(OPENS + 100)
        assert 0 == api.replicas("prod", "shop")

    live(scenario)


def test_a_night_that_allows_zero_wakes_on_demand():
    """minReplicas 0 by night, and a queue: 30 at 10 a pod are 3 pods, empty again they go; 2 at dawn."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=2)
        queue = external("queue")
        queue["external"]["target"] = {"type": "AverageValue", "averageValue": "10"}
        quick = rules({"policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}]}, one_pod_each(1))
        quick["scaleDown"]["policies"][0]["value"] = 9
        cronhpa(api, minReplicas=2, metrics=[queue], behavior=quick, schedules=[night(minReplicas=0)])
        api.external["queue"] = 0
        async with Life(api):
            await until(350)
            assert 0 == api.replicas("prod", "shop")
            api.external["queue"] = 30
            await until(350 + PERIOD + 1)
            assert 3 == api.replicas("prod", "shop")
            api.external["queue"] = 0
            await until(400)
            assert 0 == api.replicas("prod", "shop")
            await until(OPENS + PERIOD)
        assert 2 == api.replicas("prod", "shop")

    live(scenario)


# --- overrides ---------------------------------------------------------------------------------------------------


def override(seconds, **stated):
    return {"until": format_instant(START + seconds * SECOND), "reason": "INC-4711", **stated}


def test_an_override_holds_at_once_and_until_it_expires():
    async def scenario():
        api = ModelApi()
        deployment(api, replicas=3)
        cronhpa(api, metrics=None, minReplicas=3, schedules=[window(minReplicas=5, leadTimeSeconds=0)])
        async with Life(api):
            await until(50)
            api.edit("cronhpas", "prod", "shop", spec={"override": override(200, replicas=0)})
            await until(51)
            assert (0, "Override") == (api.replicas("prod", "shop"), status(api)["decision"]["decidedBy"])
            assert {"time": format_instant(START + 200 * SECOND), "schedule": "override", "state": "Closed"} == (
                status(api)["nextEdge"]
            )
            await until(201)
        assert [(50, 3, 0), (200, 0, 3)] == timeline(api)

    live(scenario)


@pytest.mark.parametrize("is_taken_back", [True, False])
def test_an_override_to_zero_is_left_again_by_an_operator_that_was_dead_when_it_ended(is_taken_back):
    async def scenario():
        api = ModelApi()
        deployment(api, replicas=3)
        cronhpa(api, metrics=[CPU_50], minReplicas=3, override=override(100, replicas=0))
        async with Life(api):
            await until(60)
            assert 0 == api.replicas("prod", "shop")
        if is_taken_back:
            api.edit("cronhpas", "prod", "shop", spec={"override": None})
        await until(150)
        async with Life(api):
            await until(150 + PERIOD)
        assert 3 == api.replicas("prod", "shop")

    live(scenario)


# --- edits and clocks --------------------------------------------------------------------------------------------


AWAY = {
    "suspended": window(minReplicas=8, suspend=True),
    "deleted": window("night", "0 3 * * *", "0 4 * * *", minReplicas=8),
    "in a zone where it is night": window(minReplicas=8, timeZone="America/New_York"),
    "on a day that is excluded": window(
        minReplicas=8, exclude={"dates": [{"from": "2027-01-15", "to": "2027-01-15"}]}
    ),
    "unreadable": window(minReplicas=8, timeZone="Europe/Berln"),
}  # fmt: skip


@pytest.mark.parametrize("when", [OPENS - 60, OPENS + 60], ids=["while it leads", "while it is open"])
@pytest.mark.parametrize("edited", AWAY.values(), ids=list(AWAY))
def test_a_window_that_is_edited_away_asks_for_nothing_more(edited, when):
    """
    Its floor goes at once; what it had started goes after the 5 min of scale-down stabilization, as after any window.

    A schedule that cannot be read may be the one that asked for them: nothing is scaled down until it is mended.
    """

    async def scenario():
        api = slow_shop(schedules=[window(minReplicas=8)])
        async with Life(api) as life:
            await until(when - 1)
            assert 8 == status(api)["effectiveMinReplicas"]
            replicas_before = api.replicas("prod", "shop")
            api.edit("cronhpas", "prod", "shop", spec={"schedules": [edited]})
            await until(when + 1)
            assert 1 == status(api)["effectiveMinReplicas"]
            assert () == life.memory().leads
            await until(when + 330)
            assert [] == [change for change in timeline(api) if change[0] > when and change[2] > replicas_before]
        return replicas_before, api.replicas("prod", "shop")

    before, after = live(scenario)

    assert before > 1
    assert (before if edited is AWAY["unreadable"] else 1) == after


def test_a_window_that_is_suspended_and_resumed_while_it_leads_is_led_to_again():
    async def scenario():
        api = slow_shop(schedules=[window(minReplicas=8)])
        async with Life(api):
            for second, suspended in ((OPENS - 120, True), (OPENS - 90, False)):
                await until(second)
                api.edit("cronhpas", "prod", "shop", spec={"schedules": [window(minReplicas=8, suspend=suspended)]})
            await until(OPENS - 89)
            assert ("Leading", 8) == (state(api)["state"], status(api)["effectiveMinReplicas"])
            # What was started before it was suspended is still there. The edit makes a step between two
            # reconciliations, and the next one waits for the first reconciliation 30 s later: a period more at most.
            await ready_at(api, 8, before=OPENS + 2 * PERIOD)

    live(scenario)


def test_a_clock_that_steps_over_a_start_and_back_opens_the_window_and_closes_it():
    """Ten minutes forward from 07:05, and back again: what holds follows the clock, with no edge of its own."""

    async def scenario():
        api = slow_shop(schedules=[window(minReplicas=8)])
        async with Life(api):
            await until(300)
            assert "Closed" == state(api)["state"]
            api.clock_offset = OPENS * SECOND
            await until(300 + PERIOD + 1)
            assert ("Open", 8) == (state(api)["state"], status(api)["effectiveMinReplicas"])
            api.clock_offset = 0
            await until(300 + 2 * PERIOD + 2)
            assert ("Closed", 1) == (state(api)["state"], status(api)["effectiveMinReplicas"])
            await ready_at(api, 8, before=OPENS + 1)

    live(scenario)


# --- contradictions ----------------------------------------------------------------------------------------------


def test_a_contradiction_is_told_in_a_condition_and_by_one_event():
    """At most 3 in the floor of 5, from 07:10 on; told from the beginning on, and no more when it is edited away."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=3)
        shift = window("shift", "0 7 * * *", "30 7 * * *", maxReplicas=3)
        cronhpa(api, metrics=None, schedules=[shift, window(minReplicas=5)])
        async with Life(api):
            await until(30)
            words = "Schedule/day asks for at least 5, Schedule/shift for at most 3, at equal rank: the maximum wins"
            status_condition = condition(api, "BoundsConsistent")
            assert ("False", f"from 2027-01-15T07:10:00Z until 2027-01-15T07:30:00Z {words}") == (
                status_condition["status"],
                status_condition["message"],
            )
            await until(OPENS + 30)
            assert f"until 2027-01-15T07:30:00Z {words}" == condition(api, "BoundsConsistent")["message"]
            api.edit("cronhpas", "prod", "shop", spec={"schedules": [shift]})
            await until(OPENS + 31)
        assert "True" == condition(api, "BoundsConsistent")["status"]
        told = [event for event in api.objects["events"].values() if event["reason"] == "Contradiction"]
        assert [1] == [event["count"] for event in told]

    live(scenario)
