"""cronhpa.operator.writes.writer: each change of an object is an event once, whatever is lost, restarted or refused."""

import pytest
from lives import Life, cronhpa, deployment, until
from model_api import START, Fault, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import MINUTE, SECOND, format_instant, to_datetime

CHANGES = {"WindowOpened", "WindowClosed", "OverrideSet", "OverrideEnded", "TargetLost", "TargetFound"}


def wall(seconds):
    return f"{to_datetime(START + seconds * SECOND):%Y-%m-%dT%H:%M}"


def shop():
    """A window of one minute from 120 s on that needs 5, and an override of 3 from the start until 300 s."""
    api = ModelApi()
    deployment(api)
    api.load["prod", "shop"] = 1000
    window = {"name": "rush", "from": wall(120), "to": wall(180), "minReplicas": 5, "leadTimeSeconds": 0}
    until_ = format_instant(START + 5 * MINUTE)
    cronhpa(api, schedules=[window], override={"maxReplicas": 8, "until": until_, "reason": "INC-4711"})
    return api


def told(api):
    """The reasons of our own events in the order in which they were written, each as often as it was counted."""
    events = sorted(api.objects["events"].values(), key=lambda event: event["firstTimestamp"])
    return [event["reason"] for event in events for _ in range(event["count"]) if event["reason"] in CHANGES]


ALL = ["OverrideSet", "WindowOpened", "WindowClosed", "OverrideEnded"]


def test_each_change_is_told_once():
    async def scenario():
        api = shop()
        async with Life(api):
            await until(400)
        assert ALL == told(api)

    live(scenario)


def test_a_restart_tells_nothing_again_and_what_came_meanwhile():
    """Killed at 60 s, after the window opened at 150 s, and for the end of the override from 290 to 310 s."""

    async def scenario():
        api = shop()
        for begin, end in ((0, 60), (61, 150), (151, 290), (310, 400)):
            await until(begin)
            async with Life(api):
                await until(end)
        assert ALL == told(api)

    live(scenario)


@pytest.mark.parametrize(
    "lost", [{"status": 0, "applied": True}, {"status": 504, "applied": False}, {"status": 403, "applied": False}]
)
def test_a_status_write_that_went_wrong_is_told_once_when_it_is_there(lost):
    """All writes from 115 to 145 s go wrong: the window opened in between."""

    async def scenario():
        api = shop()
        async with Life(api):
            await until(115)
            api.faults = [Fault("PATCH", "cronhpas/shop/status$", times=None, **lost)]
            await until(145)
            api.faults = []
            await until(400)
        assert ALL == told(api)

    live(scenario)


def test_a_target_that_goes_and_comes_back_is_told_of_once_each():
    async def scenario():
        api = shop()
        async with Life(api):
            await until(30)
            api.delete("deployments", "prod", "shop")
            await until(90)
            deployment(api)
            await until(115)
        assert ["OverrideSet", "TargetLost", "TargetFound"] == told(api)

    live(scenario)
