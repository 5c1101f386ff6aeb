"""
The largest statuses that objects within the limits of the CRDs cause: the API server takes them, a restart reads them.

If it refused one, the memory in it would be lost, and people would see an old status for ever.
"""

from __future__ import annotations

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from api.test_render import reconciliation
from core.situations import NO_METRICS, NOW, seen
from cronhpa.api.event_status import EVENT_NUMBERS, EventLook, EventSums, ObjectPart, event_status
from cronhpa.api.parse import parse_spec
from cronhpa.api.parse_event import parse_event
from cronhpa.api.render import render
from cronhpa.api.resource.events import MAX_SCHEDULES_OF_EVENT, MAX_SHARDS_TOLD, PlannedEventStatus
from cronhpa.api.resource.schedules import MAX_SCHEDULES, MAX_SOURCES
from cronhpa.api.resource.status import CronHPAStatus
from cronhpa.api.status_memory import read_memory
from cronhpa.core.model.calendar import Calendar, CalendarEvent
from cronhpa.core.model.decision import CLUSTER_EVENT_PREFIX, EVENT_PREFIX
from cronhpa.core.model.instant import DAY, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.core.schedules.calendar_days import MAX_CALENDAR_SCHEDULES, with_calendars
from cronhpa.core.schedules.events import MAX_EVENT_SCHEDULES, phase, with_events, with_unknown_events

ETCD_MAX = 1_500_000
UNREAD = Absent("UsualLoadNotRead", "the usual load was not read yet")
# Opens at 10:01, a minute after NOW: with pods that start in three minutes it leads.
SOON = {"start": "1 10 * * *", "durationMinutes": 5}
OPEN = {"start": "0 9 * * *", "durationMinutes": 300}


def long(number, length):
    return f"{number:x>{length}}"


def body(window, schedules, sources):
    return {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
        "minReplicas": 2,
        "maxReplicas": 5000,
        "schedules": [
            {"name": long(number, 63), **window, "minReplicas": 3, "maxReplicas": 4000} for number in range(schedules)
        ],
        "schedulesFrom": [
            {"calendar": "c" * 63 if number else long(0, 63), "minReplicas": 6, "maxReplicas": 3000}
            for number in range(sources)
        ],
    }


def an_event(window, number, schedules):
    bounds = {"minReplicas": 3, "maxReplicas": 4000, "minReplicasPercent": 200, "maxReplicasPercent": 90}
    stated = [
        {"name": long(one, 63), **window, **bounds, "expectedLoadPercent": 200, "priority": one}
        for one in range(schedules)
    ]
    return parse_event(long(number, 253), "", {"selector": {}, "reason": "r" * 256, "schedules": stated})


@settings(max_examples=10)
@given(
    st.sampled_from([OPEN, SOON]),
    st.integers(0, MAX_SCHEDULES),
    st.integers(0, MAX_EVENT_SCHEDULES // MAX_SCHEDULES_OF_EVENT),
    st.integers(1, MAX_SCHEDULES_OF_EVENT),
    st.integers(0, MAX_SOURCES),
    st.sampled_from([UNREAD, 900, None]),
)
@example(OPEN, 50, 5, 10, 10, UNREAD)
@example(SOON, 50, 5, 10, 10, UNREAD)
@example(SOON, 50, 5, 10, 10, 900)
def test_whatever_an_object_takes_over_its_status_is_taken_and_its_memory_is_read(
    window, own, events, of_event, sources, load
):
    opens, closes = f"2026-11-23T{'09' if window is OPEN else '10'}:0{window is SOON:d}", "2026-11-23T14:00"
    titles = [long(number, 80) for number in range(MAX_CALENDAR_SCHEDULES)]
    known = long(0, 63)
    calendars = {
        known: Calendar(known, tuple(CalendarEvent(title, opens, closes) for title in titles), begin=NOW - DAY)
    }
    of = with_calendars(parse_spec(body(window, own, sources), "prod", ControllerOptions()), calendars)
    of = with_events(of, [an_event(window, number, of_event) for number in range(events)], lambda *_: load)
    for prefix in (EVENT_PREFIX, CLUSTER_EVENT_PREFIX):
        of = with_unknown_events(of, "it may not be read", prefix)

    memory = Memory(start_up=180 * SECOND)
    status = render({}, reconciliation(of, seen(NO_METRICS, current=1), memory=memory))
    remembered = read_memory(status)

    CronHPAStatus.model_validate(status, strict=True, extra="forbid")
    assert len(of.schedules) == len({row["name"] for row in status["schedules"]})
    assert len(json.dumps(status)) < ETCD_MAX
    assert remembered.problem is None
    leading = {row["name"] for row in status["schedules"] if row["state"] == "Leading"}
    assert leading == {lead.schedule for lead in remembered.memory.leads}
    assert bool(leading) == (window is SOON and own + events + sources > 0)


def noted(number, name, conflict):
    return ObjectPart(
        long(number, 63), long(number, name), 9, 5, 4, is_ready=True, is_preview=True, is_load_unknown=True,
        is_elsewhere=True, is_unreadable=True, is_left_out=True, is_percent_of_nothing=True, conflict="c" * conflict,
        requests={"cpu": 2**40, "memory": 2**60}, shard=number % MAX_SHARDS_TOLD, is_leading=True,
    )  # fmt: skip


@settings(max_examples=20)
@given(st.integers(1, 600), st.integers(3, 253), st.integers(0, 10_000), st.sampled_from([0, MAX_SHARDS_TOLD]))
@example(MAX_SHARDS_TOLD * 6, 253, 10_000, MAX_SHARDS_TOLD)
@example(MAX_SHARDS_TOLD * 6, 253, 10_000, 0)
def test_whatever_objects_an_event_concerns_its_status_is_taken(objects, name, conflict, shards):
    """Of each shard its own replica told; this one adds the last of them, or one more than a status holds."""
    event = an_event(OPEN, 0, MAX_SCHEDULES_OF_EVENT)
    parts = tuple(noted(number, name, conflict) for number in range(objects))

    def looked(parts, held):
        return EventLook(event, 1, phase(event, NOW), parts, NOW, 15 * SECOND, shards, frozenset(held))

    before = event_status(looked(parts, range(MAX_SHARDS_TOLD)), {}, EventSums())
    status = event_status(looked((noted(2**31 - 1, name, conflict),), {2**31 - 1}), before, EventSums())

    for each in (before, status):
        PlannedEventStatus.model_validate(each, strict=True, extra="forbid")
        assert len(json.dumps(each)) < ETCD_MAX
        assert {*EVENT_NUMBERS} < {*each}
