"""Events: identical ones are counted, an object has a budget, and a full queue drops."""

import asyncio
import re
from collections import Counter

import pytest
from model_api import START, Fault, ModelApi, ModelClient
from virtual_time import live

from cronhpa.api.events import Event
from cronhpa.core.model.instant import DAY, MINUTE
from cronhpa.operator.objects.object_state import ObjectState
from cronhpa.operator.writes import event_recorder as module
from cronhpa.operator.writes.event_recorder import EventRecorder
from cronhpa.operator.writes.write_places import Urgency, WritePlaces

GONE = Event("Warning", "FailedGetScale", 'deployments.apps "shop" not found')


def item(name="shop", namespace="prod"):
    return ObjectState(namespace, name, f"uid-{namespace}-{name}", START)


def written(record, *faults):
    """(reason, message, count) of the events in the API after record(recorder) and its writing."""

    async def scenario():
        api = ModelApi()
        api.faults = list(faults)
        recorder = EventRecorder(ModelClient(api), WritePlaces())
        tasks = [asyncio.create_task(recorder.run())]
        await record(recorder)
        await recorder.flushed()
        tasks[0].cancel()
        events = [(one["reason"], one["message"], one["count"]) for one in api.objects["events"].values()]
        return sorted(events), recorder.dropped

    return live(scenario)


def test_an_event_names_its_object():
    async def scenario():
        api = ModelApi()
        recorder = EventRecorder(ModelClient(api), WritePlaces())
        task = asyncio.create_task(recorder.run())
        recorder.record(item(), GONE, START)
        await recorder.flushed()
        task.cancel()
        (event,) = api.objects["events"].values()
        assert ("CronHPA", "shop", "uid-prod-shop") == tuple(
            event["involvedObject"][key] for key in ("kind", "name", "uid")
        )
        assert "2027-01-15T07:00:00Z" == event["firstTimestamp"] == event["lastTimestamp"]

    live(scenario)


def test_events_wait_for_a_moment_without_scale_writes_and_not_for_ever():
    """Scale writes go on all the time, each 0.3 s: an event is written after a second."""

    async def scenario():
        api, places = ModelApi(), WritePlaces()
        recorder = EventRecorder(ModelClient(api), places)
        task = asyncio.create_task(recorder.run())
        loop = asyncio.get_running_loop()

        async def scale():
            while True:
                async with places.place("prod", Urgency.SCALE_UP):
                    await asyncio.sleep(0.3)

        scaling = asyncio.create_task(scale())
        await asyncio.sleep(0)
        recorder.record(item(), GONE, START)
        await asyncio.sleep(0.9)
        before = len(api.objects["events"])
        await recorder.flushed()
        task.cancel()
        scaling.cancel()
        return before, loop.time()

    before, written_at = live(scenario)
    assert 0 == before
    assert 1 <= written_at < 1.5


def test_events_keep_up_with_steps_that_never_end():
    """
    10,000 objects with a step each quarter of an hour are eleven steps a second, and an event of each.

    Found: eight writers that each wait a second are eight events a second. The others waited longer and longer.
    """

    async def scenario():
        api, places = ModelApi(), WritePlaces()
        recorder = EventRecorder(ModelClient(api), places)
        task = asyncio.create_task(recorder.run())
        seconds = 120
        for number in range(11 * seconds):
            async with places.place("prod", Urgency.SCALE_UP):
                recorder.record(item(f"shop-{number}"), GONE, START)
            await asyncio.sleep(1 / 11)
        written = len(api.objects["events"])
        task.cancel()
        return 11 * seconds - written

    assert live(scenario) <= 11 * 12


@pytest.mark.parametrize("cut", [".", "-", ".-"], ids=["dot", "dash", "both"])
def test_the_event_of_a_long_name_has_a_name_that_the_api_takes(cut):
    """200 characters of the object's name are kept, and `a.` before another dot is no DNS subdomain."""
    name = ("x" * 63 + ".") * 3 + "x" * (8 - len(cut)) + cut + "y" * 40

    async def scenario():
        api = ModelApi()
        recorder = EventRecorder(ModelClient(api), WritePlaces())
        task = asyncio.create_task(recorder.run())
        recorder.record(item(name), GONE, START)
        await recorder.flushed()
        task.cancel()
        return next(iter(api.objects["events"]))[1]

    event_name = live(scenario)

    assert event_name.startswith(("x" * 63 + ".") * 3)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", event_name)


def test_an_event_that_repeats_is_counted_and_written_again_after_five_minutes():
    """
    Forty reconciliations of 15 s are ten minutes: written at 0, 5 and 10 minutes, and by then it happened 41 times.
    """

    async def record(recorder):
        for number in range(41):
            recorder.record(item(), GONE, START + number * MINUTE // 4)
            await recorder.flushed()

    assert ([("FailedGetScale", GONE.message, 41)], 0) == written(record)


def test_a_clock_that_was_ahead_for_a_day_keeps_no_event_back():
    """Found: an event with the words of one of tomorrow was counted alone, until it was tomorrow."""

    async def record(recorder):
        recorder.record(item(), GONE, START + DAY)
        await recorder.flushed()
        recorder.record(item(), GONE, START)

    assert ([("FailedGetScale", GONE.message, 2)], 0) == written(record)


def test_an_event_that_comes_again_after_the_former_one_expired_is_there():
    """
    The API server forgets an event after an hour; a window opens each week with the same words. Found: of two such
    events one was lost, because the one that is gone was to be counted.
    """

    async def scenario():
        api = ModelApi()
        recorder = EventRecorder(ModelClient(api), WritePlaces())
        task = asyncio.create_task(recorder.run())
        told = []
        for week in range(4):
            recorder.record(item(), GONE, START + week * 7 * DAY)
            await recorder.flushed()
            told.append([(event["reason"], event["count"]) for event in api.objects["events"].values()])
            api.objects["events"].clear()
        task.cancel()
        return told

    assert [[("FailedGetScale", 1)]] * 4 == live(scenario)


def test_two_identical_events_of_one_reconciliation_are_one_that_happened_twice():
    async def record(recorder):
        recorder.record(item(), GONE, START)
        recorder.record(item(), GONE, START)

    assert ([("FailedGetScale", GONE.message, 2)], 0) == written(record)


def test_an_event_that_the_api_refused_is_written_when_it_happens_again():
    async def record(recorder):
        recorder.record(item(), GONE, START)
        await recorder.flushed()
        recorder.record(item(), GONE, START + 1)

    assert ([("FailedGetScale", GONE.message, 1)], 1) == written(record, Fault("POST", "events", 403))


@pytest.mark.parametrize(
    "fault", [{"status": 429}, {"status": 500}, {"status": 0}, {"status": 0, "applied": True}, {"hangs": True}]
)
def test_an_event_that_the_api_server_could_not_take_is_written_later(fault):
    """It is restarted, or has no room for what is not urgent. Found: the event was lost, and not even counted."""

    async def record(recorder):
        recorder.record(item(), GONE, START)
        await asyncio.sleep(60)

    assert ([("FailedGetScale", GONE.message, 1)], 0) == written(record, Fault("POST", "events", times=2, **fault))


def test_an_event_that_is_never_taken_is_given_up_and_counted():
    async def record(recorder):
        recorder.record(item(), GONE, START)
        await asyncio.sleep(600)
        recorder.record(item(), Event("Normal", "Next", "is written"), START)

    events, dropped = written(record, Fault("POST", "events", status=500, times=4))

    assert ([("Next", "is written", 1)], 1) == (events, dropped)


def test_an_object_has_a_budget_of_25_and_one_more_in_five_minutes():
    """Thirty different events at once, and thirty more ten minutes later: 25 and 2 are written."""

    async def record(recorder):
        for number in range(30):
            recorder.record(item(), Event("Normal", "One", f"{number}"), START)
        recorder.record(item("other"), Event("Normal", "Other", "its own budget"), START)
        await recorder.flushed()
        for number in range(30):
            recorder.record(item(), Event("Normal", "Two", f"{number}"), START + 10 * MINUTE)

    events, dropped = written(record)

    reasons = [event[0] for event in events]
    assert {"One": 25, "Two": 2, "Other": 1} == {reason: reasons.count(reason) for reason in set(reasons)}
    assert 5 + 28 == dropped


def test_a_full_queue_drops_and_never_waits(monkeypatch):
    monkeypatch.setattr(module, "_QUEUE", 3)

    async def record(recorder):
        for number in range(10):
            recorder.record(item(f"shop-{number}"), GONE, START)

    events, dropped = written(record)

    assert 3 == len(events)
    assert 7 == dropped


def test_a_full_queue_keeps_what_a_person_must_see(monkeypatch):
    """Room for 3: two of the scalings make room for the warnings, which are written first."""
    monkeypatch.setattr(module, "_QUEUE", 3)

    async def record(recorder):
        for number in range(4):
            recorder.record(item(f"shop-{number}"), Event("Normal", "SuccessfulRescale", f"{number}"), START)
        for number in range(2):
            recorder.record(item(f"mail-{number}"), GONE, START)

    events, dropped = written(record)

    assert {"SuccessfulRescale": 1, "FailedGetScale": 2} == Counter(event[0] for event in events)
    assert 3 == dropped


@pytest.mark.parametrize("event", [GONE, Event("Normal", "SuccessfulRescale", "New size: 12")])
def test_a_namespace_that_fills_the_queue_loses_its_own_events_alone(monkeypatch, event):
    monkeypatch.setattr(module, "_QUEUE", 10)

    async def scenario():
        api = ModelApi()
        recorder = EventRecorder(ModelClient(api), WritePlaces())
        for number in range(50):
            recorder.record(item(f"many-{number}"), event, START)
        for number in range(3):
            recorder.record(item(f"shop-{number}", "other"), event, START)
        task = asyncio.create_task(recorder.run())
        await recorder.flushed()
        task.cancel()
        return [namespace for namespace, _ in api.objects["events"]], recorder.dropped

    namespaces, dropped = live(scenario)

    assert {"prod": 7, "other": 3} == Counter(namespaces)
    assert 43 == dropped
    # They take turns.
    assert {"prod": 3, "other": 3} == Counter(namespaces[:6])


@pytest.mark.slow
def test_an_edge_that_10000_objects_share_loses_no_event():
    """More than are kept to be counted: each is written all the same."""

    async def record(recorder):
        for number in range(10_000):
            recorder.record(item(f"shop-{number}"), Event("Normal", "SuccessfulRescale", "New size: 12"), START)

    events, dropped = written(record)

    assert (10_000, 0) == (len(events), dropped)


@pytest.mark.parametrize("fault", [{"status": 500}, {"hangs": True}])
def test_events_that_cannot_be_written_end_nothing(fault):
    async def record(recorder):
        for number in range(20):
            recorder.record(item(), Event("Normal", "One", f"{number}"), START)
        await recorder.flushed()
        recorder.record(item(), GONE, START)

    events, _ = written(record, Fault("POST", "events", times=20, **fault))

    assert ("FailedGetScale", GONE.message, 1) in events


def test_a_long_message_is_cut_to_what_the_api_takes():
    async def record(recorder):
        recorder.record(item(), Event("Warning", "SpecUnreadable", "x" * 30_000), START)

    (event,), dropped = written(record)

    assert (1024, 0) == (len(event[1]), dropped)
