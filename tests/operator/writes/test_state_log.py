"""
cronhpa.operator.writes.state_log: each change of an object's state is logged once, with what a collector searches by.
"""

import asyncio
import json
import logging
import os
import signal
import time

import pytest
from lives import Life, cronhpa, deployment, until
from model_api import START, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import SECOND, to_datetime
from cronhpa.operator.monitoring import log
from cronhpa.operator.writes.state_log import changes

LOGGER = "cronhpa.operator.writes.state_log"


def logged(caplog):
    """(change, from, to, by) of the records about prod/shop, without the time that words have."""
    logged_changes = [record.fields for record in caplog.records if record.name == LOGGER]
    assert {("prod", "shop")} == {(fields["namespace"], fields["name"]) for fields in logged_changes}
    return [tuple(fields.get(key) for key in ("change", "from", "to", "by")) for fields in logged_changes]


def test_each_change_is_logged_once_over_two_lives(caplog):
    """A window of 5 from 60 s to 120 s over a load that two carry; killed at 90 s. All else stays as it was."""
    caplog.set_level(logging.INFO, LOGGER)

    async def scenario():
        api = ModelApi()
        deployment(api)
        api.load["prod", "shop"] = 1000
        times = {key: f"{to_datetime(START + at * SECOND):%Y-%m-%dT%H:%M}" for key, at in (("from", 60), ("to", 120))}
        cronhpa(api, schedules=[{"name": "rush", "minReplicas": 5, "leadTimeSeconds": 0, **times}])
        for begin, end in ((0, 90), (91, 150)):
            await until(begin)
            async with Life(api):
                await until(end)

    live(scenario)

    told = logged(caplog)
    assert 1 == told.count(("Ready", None, "True", "Deciding"))
    # Without a behavior a step goes to twice the count.
    assert [(2, 4, "Schedule/rush"), (4, 5, "Schedule/rush")] == [
        change[1:] for change in told if change[0] == "replicas"
    ]
    assert [("1-10", "5-10"), ("5-10", "1-10")] == [
        change[1:3] for change in told if change[0] == "bounds" and change[1]
    ]
    assert ["WindowOpened", "WindowClosed"] == [change[0] for change in told if change[0].startswith("Window")]


def test_a_lost_target_and_its_return_are_two_changes_of_ready():
    lost, returned = (
        {"conditions": [{"type": "Ready", "status": status, "reason": reason}]}
        for status, reason in (("False", "TargetUnreachable"), ("True", "Deciding"))
    )

    assert [("Ready", "False", "True", "Deciding")] == [change[:4] for change in changes(lost, returned)]
    assert [] == [*changes(returned, returned)]


@pytest.fixture
def as_it_was():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


def test_json_has_the_fields_as_members_and_text_says_them_in_words(as_it_was, capsys):
    extra = {"fields": {"namespace": "prod", "name": "shop", "from": 2, "to": 5, "by": "Schedule/\u202erush"}}
    for form in ("json", "text"):
        log.configure(form, "info", time.monotonic)
        logging.getLogger("cronhpa").info("scaled prod/shop from 2 to 5", extra=extra)
    # What another thread logs meanwhile is none of its lines.
    first, second = [line for line in capsys.readouterr().err.splitlines() if "scaled prod/shop" in line]

    line = json.loads(first)
    assert ("prod", "shop", 2, 5) == tuple(line[key] for key in ("namespace", "name", "from", "to"))
    assert "\u202e" not in first
    assert second.endswith("cronhpa: scaled prod/shop from 2 to 5")


async def test_a_signal_logs_everything_and_another_one_as_little_as_before(as_it_was):
    log.configure("text", "warning", time.monotonic)
    log.follow_signals(asyncio.get_running_loop(), "warning")
    levels = []
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        os.kill(os.getpid(), number)
        await asyncio.sleep(0.05)
        levels.append((logging.getLogger().level, logging.getLogger("aiohttp.access").level))

    assert [(logging.DEBUG, logging.WARNING), (logging.WARNING, logging.WARNING)] == levels
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        asyncio.get_running_loop().remove_signal_handler(number)
