"""core/forecasts/left_out.py: the days and hours that forecasts do not learn from."""

from datetime import date

import pytest
from msgspec.structs import replace

from cronhpa.core.forecasts.left_out import around_today, left_out
from cronhpa.core.model.calendar import Calendar, CalendarEvent
from cronhpa.core.model.instant import DAY, HOUR, parse_instant
from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
from cronhpa.core.model.spec import (
    CalendarSchedules,
    CronWindow,
    DateRange,
    Days,
    Holidays,
    OnceWindow,
    Schedule,
    Span,
    Spec,
    TargetRef,
)
from cronhpa.core.schedules.calendar_days import with_calendars
from cronhpa.core.schedules.events import with_events

NOW = parse_instant("2026-12-28T10:00:00Z")
SHOP = Spec(TargetRef("apps/v1", "Deployment", "shop"), 2, 20)
SALE = OnceWindow("2026-12-27T09:00", "2026-12-27T11:00", "UTC")


def office(zone="UTC", **fields):
    return Schedule("office", CronWindow("0 8 * * *", zone, duration=10 * HOUR, **fields), floor=4)


def days(first, last):
    return Days((DateRange(date.fromisoformat(first), date.fromisoformat(last)),))


def spans(*schedules, now=NOW, **fields):
    spec = replace(SHOP, schedules=schedules, **fields)
    return [(text(span.begin), text(span.end)) for span in left_out(spec, around_today(now))]


def text(instant):
    at = (instant - parse_instant("2026-12-01T00:00:00Z")) // HOUR
    return f"{at // 24 + 1:02}T{at % 24:02}"


def test_usual_schedules_leave_out_nothing():
    assert [] == spans(office(), office(only=days("2026-12-20", "2026-12-24")))


def test_an_event_that_happens_once_is_left_out():
    assert [("27T09", "27T11")] == spans(office(), Schedule("sale", SALE, floor=9))


@pytest.mark.parametrize("fields", [{"suspend": True}, {"problem": "unreadable"}])
def test_an_event_that_does_not_hold_is_not(fields):
    assert [] == spans(Schedule("sale", SALE, floor=9, **fields))


def test_planned_events_and_those_of_calendars_are_left_out_also_when_they_are_over():
    event = PlannedEvent("sale", "", schedules=(EventSchedule(Schedule("doors", SALE, floor=9)),))
    stated = CalendarSchedules("fairs", "fair*", "UTC", Schedule("fairs", SALE, floor=5))
    fairs = tuple(CalendarEvent(f"Fair {day}", f"2026-12-{day}T08:00", f"2026-12-{day}T09:00") for day in (20, 28))
    begin = parse_instant("2026-12-27T00:00:00Z")
    spec = with_calendars(replace(SHOP, schedules_from=(stated,)), {"fairs": Calendar("fairs", fairs, begin=begin)})
    spec = with_events(spec, [event])

    assert ["Calendar/fairs/Fair 28/2026-12-28T08:00", "Event/cluster:sale"] == [one.name for one in spec.schedules]
    assert [("20T08", "20T09"), ("27T09", "27T11"), ("28T08", "28T09")] == [
        (text(span.begin), text(span.end)) for span in left_out(spec, around_today(NOW))
    ]


def test_excluded_days_are_left_out_in_the_zone_of_the_schedule_and_public_holidays_with_them():
    excluded = replace(days("2026-12-27", "2026-12-27"), holidays=(Holidays("DE"),))

    # Christmas is on the 25th and 26th; midnight of Berlin is 23:00 in UTC.
    assert [("24T23", "27T23")] == spans(office("Europe/Berlin", exclude=excluded))


def test_days_that_several_schedules_exclude_are_one():
    christmas = days("2026-12-25", "2026-12-26")

    assert [("25T00", "27T00")] == spans(office(exclude=christmas), office(exclude=christmas))


def test_what_is_older_than_any_history_is_not_told():
    old = OnceWindow("2026-10-01T00:00", "2026-10-02T00:00", "UTC")

    assert [] == spans(Schedule("sale", old, floor=9), office(exclude=days("2026-01-01", "2026-10-31")))


def test_what_began_long_before_is_cut_to_the_span():
    """
    Found: a fit keeps it by MessagePack, whose integers have 64 bits. An object with a window from the year 1600 was
    never fitted, and once cost the fits of its task. The span is from 45 days before the 28th to two behind it.
    """
    ancient, endless = (
        Schedule("sale", OnceWindow(opens, closes, "UTC"), floor=9)
        for opens, closes in (("1600-01-01T00:00", "2026-12-20T00:00"), ("2026-12-27T00:00", "9998-12-31T00:00"))
    )
    today = parse_instant("2026-12-28T00:00:00Z")

    assert [(text(today - 45 * DAY), "20T00"), ("27T00", text(today + 2 * DAY))] == spans(ancient, endless)


def test_all_day_the_answer_is_the_same_and_is_computed_once():
    spec = replace(SHOP, schedules=(Schedule("sale", SALE, floor=9),))

    assert left_out(spec, around_today(NOW)) is left_out(spec, around_today(NOW + HOUR))
    assert () == left_out(spec, Span(NOW, NOW + DAY))
