"""core/schedules/calendar_days.py: named calendars become plain dates of the schedules that name them."""

from datetime import date, timedelta

import pytest
from msgspec.structs import replace

from cronhpa.core.model.calendar import Calendar, CalendarEvent
from cronhpa.core.model.instant import HOUR, parse_instant
from cronhpa.core.model.spec import CronWindow, DateRange, Days, OnceWindow, Schedule, Spec, TargetRef
from cronhpa.core.schedules import calendars, windows
from cronhpa.core.schedules.bounds import resolve
from cronhpa.core.schedules.calendar_days import unread, whole_days, with_calendars

BERLIN = "Europe/Berlin"
CLOSED = CalendarEvent("Closed", "2026-12-24T00:00", "2026-12-27T00:00")
COMPANY = Calendar("company", (CLOSED,))
NOON = parse_instant("2026-12-24T11:00:00Z")


def office(zone=BERLIN, **days):
    window = CronWindow(
        "0 8 * * *", zone, duration=10 * HOUR, **{key: Days(calendars=(of,)) for key, of in days.items()}
    )
    return Schedule("office", window, floor=10, problem=unread(window))


def shop(*schedules):
    return Spec(TargetRef("apps/v1", "Deployment", "shop"), 2, 20, schedules=schedules)


def dates(event, zone=BERLIN):
    return [(f"{one.first}", f"{one.last}") for one in whole_days(Calendar("company", (event,)), zone)]


def test_a_spec_without_calendars_is_the_same_one():
    spec = shop(office())

    assert with_calendars(spec, {"company": COMPANY}) is spec


def test_the_days_of_a_calendar_are_excluded_by_name():
    spec = with_calendars(shop(office(exclude="company")), {"company": COMPANY})
    (schedule,) = spec.schedules

    assert schedule.problem is None
    assert 2 == resolve(spec, NOON).minimum
    assert 10 == resolve(with_calendars(shop(office()), {}), NOON).minimum
    assert "Closed (company)" == calendars.reason(schedule.window.exclude, date(2026, 12, 24))


def test_only_opens_on_the_days_of_a_calendar():
    spec = with_calendars(shop(office(only="company")), {"company": COMPANY})

    assert windows.state(spec.schedules[0].window, NOON).is_open
    assert not windows.state(spec.schedules[0].window, NOON - 72 * HOUR).is_open


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({}, 'exclude.calendars: "company": there is no such calendar: the operator\'s settings name no calendar'),
        ({"b": COMPANY, "a": COMPANY}, "the operator's settings name a, b"),
        ({"company": Calendar("company")}, '"company" was never read: it is not read yet'),
        ({"company": Calendar("company", None, "it answered 503", NOON)}, '"company" was never read: it answered 503'),
    ],
)
def test_a_calendar_that_is_not_there_makes_its_schedule_unreadable_and_nothing_is_lowered(known, told):
    spec = with_calendars(shop(office(exclude="company")), known)

    assert told in spec.schedules[0].problem
    (abstention,) = resolve(spec, NOON).abstentions
    assert ("office", "Unreadable") == (abstention.name, abstention.reason)


def test_a_calendar_that_could_not_be_read_again_keeps_its_days_and_says_since_when():
    kept = replace(COMPANY, problem="it answered 503", since=NOON)

    spec = with_calendars(shop(office(exclude="company")), {"company": kept})

    assert 2 == resolve(spec, NOON).minimum
    assert (
        'the calendar "company" is as it was last read: since 2026-12-24T11:00:00Z it answered 503',
    ) == spec.calendar_problems


def test_what_else_is_wrong_with_a_schedule_stays():
    broken = replace(office(exclude="company"), problem="name: it is taken")

    assert "name: it is taken" == with_calendars(shop(broken), {"company": COMPANY}).schedules[0].problem


def test_other_days_of_the_schedule_stay():
    window = CronWindow(
        "0 8 * * *",
        BERLIN,
        duration=HOUR,
        exclude=Days((DateRange(date(2026, 1, 1), date(2026, 1, 1)),), (), ("company",)),
    )
    spec = with_calendars(shop(Schedule("office", window, floor=3)), {"company": COMPANY})

    assert [date(2026, 1, 1), date(2026, 12, 24)] == [one.first for one in spec.schedules[0].window.exclude.ranges]
    assert () == spec.schedules[0].window.exclude.calendars


@pytest.mark.parametrize(
    ("opens", "closes", "zone", "whole"),
    [
        ("2026-12-24T00:00", "2026-12-25T00:00", "", [("2026-12-24", "2026-12-24")]),
        ("2026-12-24T09:00", "2026-12-24T12:00", "", []),
        ("2026-12-24T12:00", "2026-12-27T12:00", "", [("2026-12-25", "2026-12-26")]),
        # Midnight of Berlin to midnight of Berlin.
        ("2026-12-23T23:00", "2026-12-24T23:00", "UTC", [("2026-12-24", "2026-12-24")]),
        # Midnight to midnight of UTC covers no day of Berlin.
        ("2026-12-24T00:00", "2026-12-25T00:00", "UTC", []),
        # A day of 23 hours.
        ("2026-03-28T23:00", "2026-03-29T22:00", "UTC", [("2026-03-29", "2026-03-29")]),
    ],
)
def test_a_day_counts_that_an_event_covers_from_midnight_to_midnight(opens, closes, zone, whole):
    assert whole == dates(CalendarEvent("", opens, closes, zone))


def test_an_event_without_a_zone_has_the_days_of_each_schedule():
    """08:00 of the 24th in Auckland is the 23rd in UTC."""
    spec = with_calendars(shop(office("Pacific/Auckland", exclude="company")), {"company": COMPANY})
    eight = parse_instant("2026-12-23T19:00:00Z")

    assert not windows.state(spec.schedules[0].window, eight).is_open


def test_events_of_the_same_days_are_one():
    twice = Calendar("company", (CLOSED, replace(CLOSED, title="Closed, too")))

    assert 1 == len(whole_days(twice, BERLIN))


def test_a_single_event_window_has_no_days():
    assert unread(OnceWindow("2026-01-01T00:00", "2026-01-02T00:00", "UTC")) is None


def test_many_events_that_touch_are_one_range():
    """Somebody's leave on each of 300 days but the 100th."""
    days = [date(2026, 1, 1) + timedelta(number) for number in range(300) if number != 99]
    events = tuple(CalendarEvent(f"{day}", f"{day}T00:00", f"{day + timedelta(1)}T00:00") for day in days)

    ranges = whole_days(Calendar("leave", events), BERLIN)

    assert [(days[0], days[98]), (days[99], days[-1])] == [(one.first, one.last) for one in ranges]
    assert {"leave"} == {one.title for one in ranges}
