"""operator/usual_loads.py: the load that an event expects becomes replicas by the object's own metric target."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from virtual_time import live

from cronhpa.core.model.calendar import Calendar, CalendarEvent
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, parse_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
from cronhpa.core.model.spec import (
    CronWindow,
    Days,
    ExternalMetric,
    MetricTarget,
    OnceWindow,
    Schedule,
    Spec,
    TargetRef,
)
from cronhpa.core.schedules.calendar_days import unread
from cronhpa.operator.usual_loads import UsualLoads

KEY = ("prod", "shop")
DOORS = Schedule("doors", OnceWindow("2026-11-27T18:00", "2026-11-27T20:00", "UTC"), floor=2)
STATED = EventSchedule(DOORS, expected_load_percent=250)
SALE = PlannedEvent("sale", "prod", schedules=(STATED,))
QUEUE = ExternalMetric("queue", MetricTarget("AverageValue", average_value=10_000))
SHOP = Spec(TargetRef("apps/v1", "Deployment", "shop"), 2, 50, namespace="prod", metrics=(QUEUE,))


class Loads:
    """A history in which the load of every step is the same; None: nothing is known."""

    def __init__(self, load, broken_at_hour):
        self.load, self.broken_at_hour = load, broken_at_hour

    def steps(self, _, since, until):
        if self.broken_at_hour is not None and since % DAY == self.broken_at_hour * HOUR:
            raise ArithmeticError("broken")
        return [] if self.load is None else [(at, self.load) for at in range(since, until, 5 * MINUTE)]


class Events:
    def __init__(self):
        self.has_changed = asyncio.Event()

    def look_again(self, namespace=""):
        if namespace == "prod":
            self.has_changed.set()


def at(time, calendars=None):
    state = SimpleNamespace(local=SimpleNamespace(memory=Memory()))
    now = parse_instant(f"2026-11-27T{time}:00Z")
    return UsualLoads(SimpleNamespace(items={KEY: state}, calendars=calendars or {}), lambda: now)


@pytest.fixture
def loads():
    return at("12:00")


async def read(loads, load, broken_at_hour=None):
    """One round of reading."""
    events = Events()
    keeping = asyncio.create_task(loads.keep(events, lambda: SimpleNamespace(loads=Loads(load, broken_at_hour))))
    async with asyncio.timeout(30):
        await events.has_changed.wait()
    keeping.cancel()


def test_an_unread_load_is_absent_from_a_quarter_of_an_hour_before_its_event_on():
    """The event starts at 18:00. Earlier, an unread load is no reason to scale nothing down."""
    seen = [isinstance(at(time).expected(SHOP, KEY, SALE, STATED), Absent) for time in ("12:00", "17:44", "17:45")]

    assert [False, False, True] == seen


async def test_objects_are_looked_at_again_when_the_load_of_a_near_event_is_still_unread():
    loads, events = at("17:50"), Events()
    loads.expected(SHOP, KEY, SALE, STATED)
    keeping = asyncio.create_task(loads.keep(events, lambda: None))

    async with asyncio.timeout(30):
        await events.has_changed.wait()
    keeping.cancel()


async def test_two_and_a_half_times_the_usual_load_by_the_target(loads):
    """60 in the queue, ten a pod: 150 need 15 pods."""
    loads.expected(SHOP, KEY, SALE, STATED)
    await read(loads, 60.0)

    assert loads.expected(SHOP, KEY, SALE, STATED) == 15


async def test_a_window_of_the_days_of_a_calendar_has_a_usual_load():
    """It opens on the days of a calendar alone: without them it never opens, and has no load."""
    days = Calendar("sales", (CalendarEvent("Sale", "2026-11-27T00:00", "2026-11-28T00:00"),))
    window = CronWindow("0 18 * * *", "UTC", duration=2 * HOUR, only=Days(calendars=("sales",)))
    doors = replace(DOORS, window=window, problem=unread(window))
    stated = EventSchedule(doors, expected_load_percent=250)
    loads, without = at("12:00", {"sales": days}), at("12:00")
    for one in (loads, without):
        one.expected(SHOP, KEY, SALE, stated)

    await read(loads, 60.0)

    assert loads.expected(SHOP, KEY, SALE, stated) == 15
    assert without.expected(SHOP, KEY, SALE, stated) is None


@pytest.mark.parametrize(
    ("load", "pods"), [(0.0, 0), (float("inf"), 2**31 - 1), (float("nan"), 0), (-60.0, -15), (1e300, 2**31 - 1)]
)
async def test_an_odd_load_costs_nobody_its_spec(loads, load, pods):
    loads.expected(SHOP, KEY, SALE, STATED)
    await read(loads, load)

    assert loads.expected(SHOP, KEY, SALE, STATED) == pods


def test_who_asks_within_an_event_does_not_wait_for_the_next_look():
    """As after a restart. It asks at 3 s, and a look comes each 10 s: it is looked at half a second later."""

    async def scenario():
        loads, events = at("18:30"), Events()
        keeping = asyncio.create_task(loads.keep(events, lambda: None))
        await asyncio.sleep(3)
        loads.expected(SHOP, KEY, SALE, STATED)
        await events.has_changed.wait()
        keeping.cancel()
        return asyncio.get_running_loop().time()

    assert 3.5 == pytest.approx(live(scenario), abs=0.01)


async def test_without_a_history_the_usual_load_is_not_known(loads):
    loads.expected(SHOP, KEY, SALE, STATED)
    await read(loads, None)

    assert loads.expected(SHOP, KEY, SALE, STATED) is None


async def test_an_error_in_the_load_of_one_object_leaves_the_others_theirs(loads):
    """An error of ours for one tenant's object must neither end the operator nor keep loads from the others."""
    other = OnceWindow("2026-11-27T19:00", "2026-11-27T20:00", "UTC")
    theirs = EventSchedule(replace(DOORS, window=other), expected_load_percent=100)
    loads.expected(SHOP, KEY, SALE, STATED)
    loads.expected(SHOP, KEY, SALE, theirs)

    await read(loads, 60.0, broken_at_hour=18)

    assert loads.expected(SHOP, KEY, SALE, STATED) is None
    assert loads.expected(SHOP, KEY, SALE, theirs) == 6


def test_an_object_without_a_load_that_pods_share_has_no_usual_load(loads):
    by_time = Spec(SHOP.target, 2, 50, namespace="prod", schedules=(DOORS,))

    assert loads.expected(by_time, KEY, SALE, STATED) is None


def test_what_was_over_before_a_history_was_open_is_not_read():
    """A replica that waits has none for weeks. Found: it kept what each event of that time had asked for."""
    asked: list[int] = []

    def read(_: object, since: int, __: int) -> list[object]:
        asked.append(since)
        return []

    async def scenario():
        instant = [parse_instant("2026-11-27T17:50:00Z")]
        state = SimpleNamespace(local=SimpleNamespace(memory=Memory()))
        loads = UsualLoads(SimpleNamespace(items={KEY: state}, calendars={}), lambda: instant[0])
        loads.expected(SHOP, KEY, SALE, STATED)
        store: list[Any] = []
        keeping = asyncio.create_task(loads.keep(Events(), lambda: store[0] if store else None))
        await asyncio.sleep(5)
        instant[0] += 3 * HOUR
        await asyncio.sleep(15)
        store.append(SimpleNamespace(loads=SimpleNamespace(steps=read)))
        await asyncio.sleep(15)
        keeping.cancel()

    live(scenario)
    assert [] == asked
