"""cronhpa.page.calendar, cronhpa.page.edges: edges of windows, and the replicas at each edge."""

import asyncio
import json

import msgspec
import pytest

from cronhpa.core.model.calendar import Calendar
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, format_instant, parse_instant
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.page import calendar
from cronhpa.page.calendar import FleetCalendar
from cronhpa.page.edges import EDGES_MAX
from cronhpa.page.event_lanes import event_lanes
from cronhpa.page.questions import ENCODER, EdgesAnswer, EdgesQuestion, ScheduledObject, coming_edges
from cronhpa.page.rights import Scope, UnavailableError
from cronhpa.ports.loop_share import LoopShare
from page.made_fleet import COMPANY, MARKETING, NOW, OF_CALENDARS, SPEC, MadeObjects, live, sale

ALL = Scope(None)


class Inline:
    """Runs tasks where they are asked for. waits: set to let them go on."""

    def __init__(self, error=None):
        self.asked, self.error = 0, error
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def run(self, task, question):
        self.asked += 1
        await self.goes_on.wait()
        if self.error is not None:
            raise self.error
        return task(ENCODER.encode(question))


def spec(minimum, start="0 8 * * *"):
    schedule = {"name": "day", "start": start, "end": "0 18 * * *", "minReplicas": minimum, "leadTimeSeconds": 0}
    return {**SPEC, "minReplicas": 2, "schedules": [schedule]}


def fleet():
    """Two open at 8:00 in Berlin, 7:00 UTC, and one has no schedule."""
    return MadeObjects(
        [
            live("prod", "shop", spec(10), {}),
            live("secret", "shop", spec(5), {}),
            live("prod", "plain", {**SPEC, "schedules": []}, {}),
            live("prod", "broken", {"maxReplicas": "many"}, {}),
        ]
    )


def shown_by(made, worker=None, **options):
    """The CPU time of the test's own worker does not count."""
    share = LoopShare(lambda: 0.0, lambda: 0.0)
    return FleetCalendar(made, worker or Inline(), lambda: NOW, ControllerOptions(**options), share)


async def told(made, scope=ALL, worker=None):
    return json.loads(await shown_by(made, worker).answer(scope))


async def test_the_edges_of_leads_are_those_of_the_operators_own_settings():
    """A lead takes a sync period: of 15 s, or of 3 min. Edges are told to the minute."""
    day = {"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 10}
    made = MadeObjects([live("prod", "shop", {**SPEC, "minReplicas": 2, "schedules": [day]}, {})])

    async def first(**options):
        shown = shown_by(made, **options)
        return next(instant["at"] for instant in json.loads(await shown.answer(ALL))["instants"] if instant["leads"])

    assert 120 <= await first() - await first(sync_period=3 * MINUTE)


async def test_edges_of_one_instant_are_counted_together():
    """From 2 to 10 and from 2 to 5: 11 pods more at once. With the 3 of the plain one all ask for 18."""
    document = await told(fleet())

    morning = next(instant for instant in document["instants"] if instant["opens"])
    assert parse_instant("2026-11-26T07:00:00Z") / SECOND == morning["at"]
    assert (2, 11, 0, 2, 0) == tuple(morning[name] for name in ("objects", "more", "fewer", "opens", "closes"))
    assert 18 == morning["sum"]
    assert [["prod", "shop", 2, 10, 60, 60, "day opens"], ["secret", "shop", 2, 5, 60, 60, "day opens"]] == morning[
        "of"
    ]


async def test_the_week_has_each_edge_of_it():
    """Wednesday 11:20: seven closings from today on, seven openings from tomorrow on."""
    document = await told(MadeObjects([live("prod", "shop", spec(10), {})]))

    assert (7, 7) == (
        sum(instant["opens"] for instant in document["instants"]),
        sum(instant["closes"] for instant in document["instants"]),
    )


async def test_a_caller_sees_the_edges_of_their_objects_alone():
    document = await told(fleet(), Scope(frozenset({"prod"})))

    assert {("prod", "shop")} == {tuple(row[:2]) for instant in document["instants"] for row in instant["of"]}
    assert [8, 8] == [instant["more"] for instant in document["instants"] if instant["opens"]][:2]
    assert (3, None) == (document["objects"], document["unread"])


async def test_objects_that_cannot_be_read_are_counted_and_cost_the_others_nothing():
    assert 1 == (await told(fleet()))["unread"]


async def test_the_edges_are_worked_out_again_only_where_objects_changed():
    made, worker = fleet(), Inline()
    shown = shown_by(made, worker)
    await shown.answer(ALL)
    made.items["prod", "shop"] = live("prod", "shop", spec(10), {"desiredReplicas": 4}, version=7)
    await shown.answer(ALL)
    assert 1 == worker.asked

    made.items["prod", "shop"] = live("prod", "shop", spec(20), {}, generation=5)
    document = json.loads(await shown.answer(ALL))
    assert 21 == max(instant["more"] for instant in document["instants"])


async def test_whoever_asks_meanwhile_is_told_how_far_it_is(monkeypatch):
    monkeypatch.setattr(calendar, "_PATIENCE_SECONDS", 0.05)
    worker = Inline()
    worker.goes_on.clear()
    shown = shown_by(fleet(), worker)

    assert {"done": 0.0} == json.loads(await shown.answer(ALL))
    worker.goes_on.set()
    await asyncio.sleep(0.05)
    assert json.loads(await shown.answer(ALL))["instants"]


@pytest.fixture
def encoded(monkeypatch):
    """The scopes of the answers that were encoded."""
    scopes = []

    def lanes(objects, answer, scope, now):
        scopes.append(scope)
        return event_lanes(objects, answer, scope, now)

    monkeypatch.setattr(calendar, "event_lanes", lanes)
    return scopes


async def test_callers_who_may_get_the_same_share_an_answer(encoded):
    """20 ask at once, and 20 later; after a change one of each scope gets another."""
    made, prod = fleet(), Scope(frozenset({"prod"}))
    shown = shown_by(made)

    async def asked_by_twenty():
        return set(await asyncio.gather(*(shown.answer(scope) for scope in 10 * [ALL, Scope(frozenset({"prod"}))])))

    assert 2 == len(await asked_by_twenty() | await asked_by_twenty())
    assert [ALL, prod] == encoded
    made.items["prod", "shop"] = live("prod", "shop", spec(20), {}, generation=5)
    await asked_by_twenty()
    assert [ALL, prod, ALL, prod] == encoded


async def test_the_answers_of_eight_scopes_are_kept(encoded):
    """Of nine the first makes room."""
    shown = shown_by(fleet())
    scopes = [Scope(frozenset({f"team-{number}"})) for number in range(9)]
    for scope in [*scopes, *scopes[1:], scopes[0]]:
        await shown.answer(scope)

    assert [*scopes, scopes[0]] == encoded


async def test_a_worker_that_fails_is_asked_again_by_the_next_caller():
    worker = Inline(UnavailableError("it died"))
    shown = shown_by(fleet(), worker)
    with pytest.raises(UnavailableError):
        await shown.answer(ALL)
    worker.error = None

    assert json.loads(await shown.answer(ALL))["instants"]


def test_a_window_that_opens_every_minute_is_cut_off_and_counted():
    schedule = {"name": "day", "start": "*/2 * * * *", "durationMinutes": 1, "minReplicas": 9, "leadTimeSeconds": 0}
    busy = live("prod", "busy", {**SPEC, "schedules": [schedule]}, {})
    asked = EdgesQuestion([ScheduledObject("prod", "busy", busy.spec)], NOW, NOW + 24 * HOUR, ControllerOptions())

    decoded = msgspec.msgpack.decode(coming_edges(ENCODER.encode(asked)), type=EdgesAnswer)

    assert (EDGES_MAX, 1) == (len(decoded.edges), decoded.cut)
    assert MINUTE == decoded.edges[1].at - decoded.edges[0].at


def seconds(text):
    return parse_instant(text) / SECOND


async def test_a_planned_event_is_a_lane_over_the_objects_that_it_picks():
    """6:00 on Friday to midnight in Berlin: 5:00 to 23:00 UTC. The namespace's event picks two."""
    plain = {**SPEC, "schedules": []}
    made = MadeObjects(
        [
            live("prod", "shop", plain, {}, events=[sale()]),
            live(
                "prod",
                "cart",
                plain,
                {},
                events=[sale(), sale("all", "", opens="2026-11-30T08:00", closes="2026-12-01T08:00")],
            ),
            live("other", "shop", plain, {}, events=[sale(namespace="other")]),
        ]
    )

    friday = [[seconds("2026-11-27T05:00:00Z"), seconds("2026-11-27T23:00:00Z")]]
    monday = [[seconds("2026-11-30T07:00:00Z"), seconds("2026-12-01T07:00:00Z")]]
    assert [
        {"namespace": "other", "name": "black-friday", "spans": friday, "objects": 1, "of": [["other", "shop"]]},
        {
            "namespace": "prod",
            "name": "black-friday",
            "spans": friday,
            "objects": 2,
            "of": [["prod", "cart"], ["prod", "shop"]],
        },
        {"namespace": "", "name": "all", "spans": monday, "objects": 1, "of": [["prod", "cart"]]},
    ] == (await told(made))["events"]
    assert ["other"] == [lane["namespace"] for lane in (await told(made, Scope(frozenset({"other"}))))["events"]]


async def test_an_event_that_holds_all_week_has_a_lane_and_one_that_holds_now_ends_its_own():
    plain = {**SPEC, "schedules": []}
    always = sale("always", opens="2026-01-01T00:00", closes="2027-01-01T00:00")
    running = sale("running", opens="2026-11-25T08:00", closes="2026-11-25T20:00")
    lanes = (await told(MadeObjects([live("prod", "shop", plain, {}, events=[always, running])])))["events"]

    now, until = NOW / SECOND, NOW / SECOND + 7 * 24 * 3600
    assert {"always": [[now, until]], "running": [[now, seconds("2026-11-25T19:00:00Z")]]} == (
        {lane["name"]: lane["spans"] for lane in lanes}
    )


async def test_an_event_counts_in_the_sums_of_the_calendar():
    """Its 40 instead of the spec's 3: 37 more, and fewer again."""
    made = MadeObjects([live("prod", "shop", {**SPEC, "schedules": []}, {}, events=[sale(floor=40, lead=0)])])

    assert [(37, 0), (0, 37)] == [(one["more"], one["fewer"]) for one in (await told(made))["instants"]]


async def test_the_calendar_is_worked_out_again_when_an_event_was_edited():
    made, worker = fleet(), Inline()
    shown = shown_by(made, worker)
    await shown.answer(ALL)
    made.items["prod", "shop"] = live("prod", "shop", spec(10), {}, events=[sale()])

    assert 1 == len(json.loads(await shown.answer(ALL))["events"])


def of_calendars(calendars=(COMPANY, MARKETING)):
    """20 in the office, but on Thursday; 45 at Saturday's sale."""
    return live("prod", "shop", {**SPEC, "minReplicas": 3, **OF_CALENDARS}, {}, calendars=calendars)


async def test_calendars_count_in_the_sums_of_the_calendar():
    """Open now, until 17:00 UTC. Not on Thursday; 8:00 on Friday in Berlin; the sale on Saturday at 9:00 for 3 h."""
    instants = (await told(MadeObjects([of_calendars()])))["instants"]

    assert [
        ("2026-11-25T17:00:00Z", 0, 17),
        ("2026-11-27T07:00:00Z", 17, 0),
        ("2026-11-27T17:00:00Z", 0, 17),
        ("2026-11-28T08:00:00Z", 42, 0),
        ("2026-11-28T11:00:00Z", 0, 42),
    ] == [
        (format_instant(int(one["at"]) * SECOND), one["more"], one["fewer"])
        for one in instants
        if one["at"] < seconds("2026-11-29T00:00:00Z")
    ]
    (sale_opens,) = [one for one in instants if one["more"] == 42]
    assert "Calendar/marketing/Sale of the year/2026-11-28T09:00 opens" == sale_opens["of"][0][-1]


async def test_the_calendar_is_worked_out_again_when_somebody_edits_a_calendar():
    made = MadeObjects([of_calendars()])
    shown = shown_by(made)
    before = json.loads(await shown.answer(ALL))["instants"]
    made.items["prod", "shop"] = of_calendars((COMPANY, Calendar("marketing", (), begin=NOW - DAY)))

    assert 2 == len(before) - len(json.loads(await shown.answer(ALL))["instants"])
