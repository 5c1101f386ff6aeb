"""cronhpa.page.object_view, cronhpa.page.past_lanes, cronhpa.page.questions: a week back and a week ahead."""

import json
import shlex
from contextlib import closing
from datetime import UTC, datetime

import msgspec
import pytest
import yaml
from msgspec import Raw

from cronhpa.api.written_spec import as_written
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation
from cronhpa.core.model.record import Record, encode
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.history.past.decisions import KeptDecision
from cronhpa.history.past.past_decision import PastDecision
from cronhpa.history.store import Store
from cronhpa.page.effective_spec import effective_spec
from cronhpa.page.object_view import commands, manifest_text, usual_loads
from cronhpa.page.past_lanes import events_of
from cronhpa.page.questions import ENCODER, DecisionQuestion, ViewQuestion, object_view, past_decision
from page.made_fleet import (
    BEGIN,
    COMPANY,
    INCIDENT,
    MARKETING,
    NOW,
    OF_CALENDARS,
    OVERRIDDEN,
    SPEC,
    live,
    lived_week,
)

SPEC_WITH_HOLIDAYS = {
    **SPEC,
    "schedules": [
        {
            "name": "shift", "start": "0 8 * * mon-fri", "end": "0 18 * * *", "minReplicas": 5,
            "exclude": {"dates": [{"from": "2026-11-26", "to": "2026-11-27"}]},
        }
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "history.db"
    return path, lived_week(path, period=5 * MINUTE)


def view(path, shop, spec=None, **more):
    body = msgspec.json.encode(shop.body() | ({"spec": spec} if spec is not None else {}))
    asked = ViewQuestion(
        str(path),
        shop.namespace,
        shop.name,
        shop.zone,
        shop.zone,
        NOW,
        body,
        **{"options": ControllerOptions(), **more},
    )
    return json.loads(object_view(ENCODER.encode(asked)))


@pytest.fixture(scope="module")
def shown(lived):
    return view(*lived)


def test_the_windows_of_the_past_are_those_that_decisions_were_taken_under(shown):
    """Wednesday 11:20 in Berlin: the window of the first day was open since 8; an override held on Monday for 3 h."""
    working = [lane for lane in shown["lanes"] if lane[0] == "working-hours" and not lane[3]]
    override = [lane for lane in shown["lanes"] if lane[0] == "override"]

    assert [BEGIN // SECOND, BEGIN // SECOND + 6 * 3600 + 40 * 60] == working[0][1:3]
    assert [["override", OVERRIDDEN.begin / SECOND, OVERRIDDEN.end / SECOND, False, 24, None]] == override
    assert {12} == {lane[4] for lane in working}


def test_the_windows_to_come_say_when_they_are_asked_for(shown):
    """The sale begins on Friday at 9:00 and states a lead of 15 minutes."""
    sale = [lane for lane in shown["ahead"]["lanes"] if lane[0] == "sale"]

    ((_, lead, start, leads, floor, _), (_, opens, closes, is_lead, _, _)) = sale
    assert (True, False, 34) == (leads, is_lead, floor)
    assert (900, 12 * 3600) == (start - lead, closes - opens)


def test_the_windows_to_come_are_asked_for_by_the_operators_own_settings(lived, shown):
    """A lead takes a sync period. Found: the page had the default of 15 s, whatever the operator's was."""
    slow = view(*lived, options=ControllerOptions(sync_period=60 * SECOND))

    def first_lead(document):
        return next(lane[1] for lane in document["ahead"]["lanes"] if lane[0] == "working-hours" and lane[3])

    assert 45 <= first_lead(shown) - first_lead(slow)


def test_the_bounds_to_come_name_who_set_them(shown):
    first, *_ = shown["ahead"]["segments"]

    assert [NOW / SECOND, (NOW + 6 * HOUR + 40 * MINUTE) / SECOND, 12, 60, "Schedule/working-hours", "Spec"] == first
    assert shown["until"] == shown["ahead"]["segments"][-1][1]


def test_every_change_has_its_sentence(shown):
    by = {change[3] for change in shown["changes"]}

    assert {"Metric/cpu", "Schedule/working-hours", "Override"} <= by
    assert all(change[4] for change in shown["changes"])


def test_the_events_follow_from_the_changes_and_need_no_right_to_read_events(shown):
    reasons = {event["reason"] for event in shown["events"]}

    assert {"WindowOpened", "WindowClosed", "OverrideSet", "OverrideEnded"} <= reasons
    assert sorted((event["at"] for event in shown["events"]), reverse=True) == [
        event["at"] for event in shown["events"]
    ]


def test_a_change_of_replicas_is_a_change_though_it_is_the_first_decision_that_is_kept():
    """Metrics alone asked for it: no window opened. What was withheld has changed nothing."""

    def kept(at, **decision):
        status = {"currentReplicas": 6, "desiredReplicas": 12, "decision": {"reason": "cpu asks for 12", **decision}}
        return PastDecision(at, Raw(msgspec.json.encode({"status": status})), Raw(b"{}"))

    (event,) = events_of([kept(NOW), kept(NOW + MINUTE, withheld="mode is Preview")], "Europe/Berlin")

    assert (NOW / SECOND, "SuccessfulRescale", "6 -> 12: cpu asks for 12") == (
        event["at"], event["reason"], event["message"],
    )  # fmt: skip


def test_minutes_of_too_few_pods_are_marked(shown):
    """The campaign that nobody told of asks for 19 pods more at once."""
    begin, end = INCIDENT / SECOND, (INCIDENT + 25 * MINUTE) / SECOND

    assert any(begin <= span[0] < end for span in shown["short"])


def test_the_usual_load_of_an_hour_is_the_smallest_and_the_largest_of_that_hour_in_past_weeks():
    """
    At 10:00 the load was 10, 30 and 20 one, two and three weeks ago, and five more in each second half-hour. A load of
    yesterday's 10:00 or of last week's 9:00 says nothing about 10:00: it is the usual one of its own hour.
    """
    ten = NOW - NOW % DAY + 10 * HOUR
    of_weeks = {1: 10.0, 2: 30.0, 3: 20.0}
    loads = {ten - weeks * 7 * DAY: load for weeks, load in of_weeks.items()}
    loads |= {ten - weeks * 7 * DAY + 30 * MINUTE: load + 5 for weeks, load in of_weeks.items()}
    loads |= {ten - DAY: 900.0, ten - 7 * DAY - HOUR: 800.0}

    usual = {at: (low, high) for at, low, high in usual_loads(loads, ten - HOUR, "UTC")}

    assert {ten: (10.0, 35.0), ten + 6 * DAY: (900.0, 900.0), ten + 7 * DAY - HOUR: (800.0, 800.0)} == usual


def test_the_usual_load_follows_the_clock_of_the_object_over_a_clock_change():
    """Each day 20 from 8:00 to 9:00 in Berlin, whose clocks go forward on 29 March: 7:00 UTC before, 6:00 after."""
    now = parse_instant("2026-03-28T12:00:00Z")
    hours = range(now - 28 * DAY, now, HOUR)
    loads = {at: 20.0 if at % DAY == 7 * HOUR else 1.0 for at in hours}

    busy = [at for at, _, high in usual_loads(loads, now, "Europe/Berlin") if high == 20.0]

    assert [6 * HOUR] * 7 == [at % DAY for at in busy]


def test_the_page_has_the_usual_load_of_each_hour_of_the_coming_week(shown):
    first = NOW // HOUR + 1

    assert [hour * HOUR / SECOND for hour in range(first, first + 7 * 24)] == [at for at, _, _ in shown["usual"]]


def test_the_explanation_is_that_of_the_command(shown):
    assert shown["explained"][0].startswith("prod/shop: ")
    assert "Bounds now: 12 to 60" in shown["explained"]


def test_a_decision_of_the_past_is_explained_as_it_was(lived):
    path, _ = lived
    asked = DecisionQuestion(str(path), "prod", "shop", "Europe/Berlin", OVERRIDDEN.begin + HOUR, NOW)

    document = json.loads(past_decision(ENCODER.encode(asked)))

    assert any("Override" in line for line in document["explained"])
    assert document["at"] <= (OVERRIDDEN.begin + HOUR) / SECOND < document["until"]


def test_a_decision_of_the_past_is_explained_by_the_calendars_of_that_time(tmp_path):
    """Found: by the spec as it was written, and by the settings of no operator."""
    status = {
        "conditions": [{"type": "Ready", "status": "True", "reason": "Fine"}],
        "nextEdge": {"time": "2026-11-25T17:00:00Z", "schedule": "office", "state": "Closed"},
        "currentReplicas": 20,
    }
    shop = live("prod", "shop", {**SPEC, **OF_CALENDARS}, status)
    spec = effective_spec(shop.body()["spec"], "prod", ControllerOptions(), b"", (COMPANY, MARKETING))
    record = Record(spec, Observation(Absent("FailedGetScale", "none")), None, Memory(), NOW)
    body, inputs = msgspec.json.encode(shop.body()), encode(record).encode()
    with closing(Store(tmp_path / "past.db")) as store:
        store.decisions.record([KeptDecision("prod", "shop", "digest", PastDecision(NOW, Raw(body), Raw(inputs)))])
    asked = DecisionQuestion(str(tmp_path / "past.db"), "prod", "shop", "Europe/Berlin", NOW, NOW)

    lines = json.loads(past_decision(ENCODER.encode(asked)))["explained"]

    assert any("office closes; then 3 to 60 are allowed" in line for line in lines)


def test_a_decision_of_the_past_is_not_in_force_until_a_time_to_come(lived):
    """Of that time the next one is: the operator's clock was ahead."""
    at = OVERRIDDEN.begin + HOUR
    asked = DecisionQuestion(str(lived[0]), "prod", "shop", "Europe/Berlin", at, at)

    assert json.loads(past_decision(ENCODER.encode(asked)))["until"] is None


def test_a_decision_that_was_not_kept_is_not_explained(lived):
    asked = DecisionQuestion(str(lived[0]), "prod", "shop", "UTC", BEGIN - DAY, NOW)

    assert b"null" == past_decision(ENCODER.encode(asked))


def test_a_spec_that_cannot_be_read_is_shown_with_its_problems(lived):
    path, shop = lived
    document = view(path, shop, {**SPEC, "maxReplicas": "many"})

    assert None is document["ahead"]
    assert any("maxReplicas" in problem for problem in document["problems"])
    assert document["changes"]


def test_without_a_store_the_present_and_the_future_are_shown(lived, tmp_path):
    document = view(tmp_path / "none.db", lived[1])

    assert document["ahead"]["segments"]
    assert any("store" in problem for problem in document["problems"])


def test_holidays_are_named_in_the_calendar(lived):
    """The 27th, a Friday, and a schedule that leaves out Thursday and Friday by date."""
    document = view(*lived, spec=SPEC_WITH_HOLIDAYS)

    assert ["shift does not open until Fri 2026-11-27: 2026-11-26 to 2026-11-27"] == [
        mark["text"] for mark in document["ahead"]["marks"]
    ]


def test_the_yaml_reads_back_as_the_object_without_what_others_wrote(lived):
    manifest = yaml.safe_load(manifest_text(lived[1].body()))

    assert {"apiVersion", "kind", "metadata", "spec"} == {*manifest}
    assert {"name": "shop", "namespace": "prod"} == manifest["metadata"]
    assert as_written(SPEC) == manifest["spec"]


def test_the_yaml_keeps_a_default_that_its_author_wrote(lived):
    body = lived[1].body()
    body["spec"] |= {"mode": "Active", "minReplicas": 1}
    body["metadata"]["statedDefaults"] = ["mode"]

    written = yaml.safe_load(manifest_text(body))["spec"]
    assert "Active" == written["mode"]
    assert "minReplicas" not in written


def test_times_are_those_of_the_callers_zone_and_its_own_is_named(lived):
    """10:20 UTC is 19:20 in Tokyo."""
    path, shop = lived
    body = msgspec.json.encode(shop.body())
    asked = ViewQuestion(str(path), "prod", "shop", "Europe/Berlin", "Asia/Tokyo", NOW, body, ControllerOptions())
    document = json.loads(object_view(ENCODER.encode(asked)))

    assert ("Asia/Tokyo", "Europe/Berlin") == (document["zone"], document["ownZone"])
    assert "+09:00" in "".join(document["explained"])
    assert "+01:00" not in "".join(document["explained"])


@pytest.mark.parametrize("name", ["shop", "$(reboot)", "a b", "'; rm -rf / #", "-n", "`x`"])
def test_commands_are_quoted_for_a_shell(name):
    """A shell reads each name back as one word."""
    for command in commands("prod", name, 4):
        words = shlex.split(command["command"])
        assert name in words
        assert "prod" == words[words.index("-n", 4) + 1]


def test_before_two_weeks_are_known_the_usual_load_is_that_of_past_days():
    loads = {NOW - days * DAY: float(days) for days in (1, 2, 3)}

    first = next(row for row in usual_loads(loads, NOW - NOW % HOUR, "UTC") if row[0] % DAY == (NOW - NOW % HOUR) % DAY)
    assert (1.0, 3.0) == first[1:]


def test_without_a_load_there_is_no_usual_load():
    assert [] == list(usual_loads({}, NOW, "UTC"))


def test_an_object_that_was_never_decided_is_shown(lived):
    new = live("prod", "new", SPEC, {})

    assert ("Undecided", True, []) == tuple(view(lived[0], new)[key] for key in ("status", "needsPerson", "changes"))


def test_what_calendars_ask_for_is_ahead_and_explained(tmp_path):
    """No office on Thursday, for which the company has an entry; the sale on Saturday has a lane and bounds."""
    Store(tmp_path / "empty.db").close()
    status = {
        "conditions": [{"type": "Ready", "status": "True", "reason": "Fine"}],
        "nextEdge": {"time": "2026-11-25T17:00:00Z", "schedule": "office", "state": "Closed"},
        "currentReplicas": 20,
    }
    shop = live("prod", "shop", {**SPEC, **OF_CALENDARS}, status, calendars=(COMPANY, MARKETING))
    asked = ViewQuestion(
        str(tmp_path / "empty.db"), "prod", "shop", shop.zone, shop.zone, NOW, msgspec.json.encode(shop.body()),
        ControllerOptions(), calendars=shop.calendars,
    )  # fmt: skip
    shown = json.loads(object_view(ENCODER.encode(asked)))

    opens = [(lane[0], lane[1]) for lane in shown["ahead"]["lanes"]]
    assert ("Calendar/marketing/Sale of the year/2026-11-28T09:00", parse_instant("2026-11-28T08:00:00Z") / SECOND) in (
        opens
    )
    assert [25, 27, 30, 1] == [
        datetime.fromtimestamp(at, UTC).day
        for name, at in opens
        if name == "office" and at < NOW / SECOND + 6.5 * 86400
    ]
    assert 45 in {segment[2] for segment in shown["ahead"]["segments"]}
    assert any("office closes; then 3 to 60 are allowed" in line for line in shown["explained"])
