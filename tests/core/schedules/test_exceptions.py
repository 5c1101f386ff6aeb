"""
cronhpa.core.schedules.occurrences: what `exclude` and `only` drop, and what becomes of a window that is open
when they do.
"""

from __future__ import annotations

import time
from datetime import date

import pytest

from core.situations import at
from cronhpa.core.model.instant import HOUR, MINUTE, format_instant
from cronhpa.core.model.spec import CronWindow, DateRange, Days, Holidays, OnceWindow
from cronhpa.core.schedules.windows import never_closes, never_opens, opens_again, overlaps_itself, state


def dates(first, last=None):
    return Days(ranges=(DateRange(date.fromisoformat(first), date.fromisoformat(last or first)),))


def is_open(window, *clocks):
    return [state(window, at(clock)).is_open for clock in clocks]


def until(window, clock):
    changes = state(window, at(clock)).until
    return None if changes is None else format_instant(changes)


def test_a_window_does_not_open_on_an_excluded_date():
    """27 to 31 December 2026 are excluded; the 26th and the 1st are not."""
    window = CronWindow("0 8 * * *", "UTC", end="0 18 * * *", exclude=dates("2026-12-27", "2026-12-31"))

    assert [True, False, False, True] == is_open(
        window, "2026-12-26T12:00:00Z", "2026-12-27T12:00:00Z", "2026-12-31T12:00:00Z", "2027-01-01T12:00:00Z"
    )
    assert "2027-01-01T08:00:00Z" == until(window, "2026-12-26T18:00:00Z")


def test_a_window_does_not_open_on_a_holiday():
    """Epiphany, Wednesday 6 January 2027, is a holiday in Bavaria alone."""
    office = CronWindow("0 8 * * mon-fri", "Europe/Berlin", end="0 18 * * *")
    bavaria = CronWindow(office.start, office.zone, office.end, exclude=Days(holidays=(Holidays("DE", "BY"),)))
    germany = CronWindow(office.start, office.zone, office.end, exclude=Days(holidays=(Holidays("DE"),)))

    assert [[True], [False], [True]] == [
        is_open(window, "2027-01-06T12:00:00Z") for window in (office, bavaria, germany)
    ]


def test_the_dates_are_those_of_the_zone():
    """08:00 in Auckland on 27 December is 19:00Z on the 26th."""
    window = CronWindow("0 8 * * *", "Pacific/Auckland", duration=HOUR, exclude=dates("2026-12-27"))

    assert [True, False, True] == is_open(
        window, "2026-12-25T19:30:00Z", "2026-12-26T19:30:00Z", "2026-12-27T19:30:00Z"
    )


def test_a_night_that_began_before_an_excluded_date_goes_on_to_its_end():
    """The night from the 24th to the 25th began on the 24th; the one from the 25th does not begin."""
    night = CronWindow("0 22 * * *", "UTC", end="0 6 * * *", exclude=dates("2026-12-25"))

    assert [True, True, False, False, True] == is_open(
        night,
        "2026-12-24T23:00:00Z",
        "2026-12-25T05:59:00Z",
        "2026-12-25T23:00:00Z",
        "2026-12-26T05:00:00Z",
        "2026-12-26T22:00:00Z",
    )


def test_a_dropped_start_closes_a_window_that_is_open_from_an_earlier_day():
    """Monday 08:00 to Friday 18:00, started anew each day: excluded Wednesday closes it at 08:00, Thursday opens it."""
    week = CronWindow("0 8 * * mon-fri", "UTC", end="0 18 * * fri", exclude=dates("2026-12-02"))

    assert [True, False, False, True] == is_open(
        week, "2026-12-02T07:59:00Z", "2026-12-02T08:00:00Z", "2026-12-03T07:59:00Z", "2026-12-03T08:00:00Z"
    )
    assert "2026-12-02T08:00:00Z" == until(week, "2026-12-01T12:00:00Z")


def test_a_dropped_start_ends_a_duration_too():
    """30 h from each 22:00: that of the 24th would be open until 04:00 on the 26th; the start of the 25th closes it."""
    window = CronWindow("0 22 * * *", "UTC", duration=30 * HOUR, exclude=dates("2026-12-25"))

    assert [True, False, False] == is_open(
        window, "2026-12-25T21:59:00Z", "2026-12-25T22:00:00Z", "2026-12-26T03:00:00Z"
    )


def test_a_window_without_a_start_on_the_excluded_date_stays_open_over_it():
    """Nothing is dropped on Wednesday: the only start is Monday's."""
    week = CronWindow("0 8 * * mon", "UTC", end="0 18 * * fri", exclude=dates("2026-12-02"))

    assert [True] == is_open(week, "2026-12-02T12:00:00Z")


def test_only_keeps_the_dates_that_it_names():
    window = CronWindow("0 8 * * *", "UTC", end="0 18 * * *", only=dates("2026-12-05", "2026-12-06"))

    assert [False, True, True, False] == is_open(
        window, "2026-12-04T12:00:00Z", "2026-12-05T12:00:00Z", "2026-12-06T12:00:00Z", "2026-12-07T12:00:00Z"
    )
    assert "2026-12-05T08:00:00Z" == until(window, "2026-11-23T10:00:00Z")


def test_only_drops_what_it_does_not_name_as_exclude_would():
    """30 h from 22:00 on the 5th alone: the start of the 6th is dropped and closes it."""
    window = CronWindow("0 22 * * *", "UTC", duration=30 * HOUR, only=dates("2026-12-05"))

    assert [True, False] == is_open(window, "2026-12-06T21:59:00Z", "2026-12-06T22:00:00Z")


def test_exclude_beside_only_takes_away_from_it():
    window = CronWindow(
        "0 8 * * *", "UTC", duration=HOUR, only=dates("2026-12-05", "2026-12-07"), exclude=dates("2026-12-06")
    )

    assert [True, False, True] == is_open(
        window, "2026-12-05T08:30:00Z", "2026-12-06T08:30:00Z", "2026-12-07T08:30:00Z"
    )


def test_a_start_that_a_gap_moves_past_midnight_keeps_its_date():
    """Nuuk, Saturday 28 March 2026: 23:00 becomes 00:00 of Sunday. 23:30 is Saturday's, though it begins on Sunday."""
    saturday, sunday = (
        CronWindow("30 23 * * *", "America/Nuuk", duration=10 * MINUTE, exclude=dates(day))
        for day in ("2026-03-28", "2026-03-29")
    )

    assert [False] == is_open(saturday, "2026-03-29T01:05:00Z")
    assert [True] == is_open(sunday, "2026-03-29T01:05:00Z")


# --- what nobody can have meant ----------------------------------------------------------------------------------


def test_a_window_that_its_exceptions_leave_no_start_never_opens():
    christmas = CronWindow("0 8 25 12 *", "UTC", duration=HOUR, exclude=Days(holidays=(Holidays("DE"),)))
    past = CronWindow("0 8 * * *", "UTC", duration=HOUR, only=dates("2026-01-01", "2026-11-22"))
    whole = CronWindow("0 8 * * *", "UTC", duration=HOUR, exclude=dates("2026-01-01", "9999-12-31"))

    assert [True, True, True] == [never_opens(window, at("10:00")) for window in (christmas, past, whole)]
    assert not never_opens(CronWindow("0 8 29 2 *", "UTC", duration=HOUR), at("10:00"))


def test_a_window_that_its_exceptions_end_is_no_longer_one_that_never_opens_before():
    past = CronWindow("0 8 * * *", "UTC", duration=HOUR, only=dates("2026-01-01", "2026-11-23"))

    assert not never_opens(past, at("08:30"))
    assert never_opens(past, at("09:00"))


def test_a_window_that_is_open_for_good_never_closes():
    hourly = CronWindow("0 * * * *", "UTC", end="0 * * * *")
    seamless = CronWindow("0 8 * * *", "UTC", duration=24 * HOUR)

    assert [True, True] == [never_closes(window, at("10:00")) for window in (hourly, seamless)]
    assert not never_closes(CronWindow("0 8 * * *", "UTC", end="0 9 1 * *"), at("10:00"))


def test_an_end_that_always_meets_a_start_is_not_looked_for_past_the_last_year():
    """A fifth Monday of February comes every 28 years, and its midnight is a start, too."""
    window = CronWindow("0 0 * * *", "UTC", end="0 0 * 2 mon#5")

    assert never_closes(window, at("10:00"))


def test_a_window_longer_than_its_period_says_when_it_begins_anew():
    """26 h from 08:00 on weekdays: Tuesday's start comes after 24 h of Monday's; 23 November 2026 is a Monday."""
    long = CronWindow("0 8 * * mon-fri", "UTC", duration=26 * HOUR)

    assert "2026-11-24T08:00:00Z" == format_instant(overlaps_itself(long, at("10:00")))


def test_a_window_as_long_as_its_period_does_not_overlap_itself():
    """Nor do 24 h over the spring change in Berlin, of which the next start comes after 23 h: that is named."""
    window = CronWindow("0 8 * * *", "UTC", duration=24 * HOUR)
    berlin = CronWindow("0 8 * * *", "Europe/Berlin", duration=24 * HOUR)

    assert overlaps_itself(window, at("10:00")) is None
    assert "2026-03-29T06:00:00Z" == format_instant(overlaps_itself(berlin, at("2026-03-27T12:00:00Z")))


def test_a_window_with_an_end_does_not_overlap_itself():
    assert overlaps_itself(CronWindow("0 8,12 * * *", "UTC", end="0 18 * * *"), at("10:00")) is None


def test_an_overlap_that_is_excluded_is_none():
    """Of Monday to Friday only Mondays are left."""
    mondays = Days(ranges=tuple(DateRange(date(2026, 11, day), date(2026, 11, day)) for day in (23, 30)))

    assert overlaps_itself(CronWindow("0 8 * * 1-5", "UTC", duration=26 * HOUR, only=mondays), at("10:00")) is None


def test_windows_that_wait_long_or_for_ever_are_judged_fast():
    """No walk from day to day: ranges and rare dates are jumped over."""
    windows = [
        CronWindow("0 8 * * *", "UTC", duration=HOUR, only=dates("2035-06-01", "2035-06-02")),
        CronWindow("0 8 * * *", "UTC", duration=HOUR, only=dates("2020-06-01", "2020-06-02")),
        CronWindow("0 8 * * *", "UTC", duration=HOUR, exclude=dates("2020-06-01", "2035-06-02")),
        CronWindow("* * * * *", "UTC", duration=2 * MINUTE),
        CronWindow("* * * * *", "UTC", end="* * * * *"),
        CronWindow("* * * * *", "UTC", end="*/2 * * * *"),
        CronWindow("0 8 29 2 *", "UTC", end="0 8 29 2 *"),
    ]
    begun = time.thread_time()

    states = [state(window, at("10:00")) for window in windows]

    assert time.thread_time() - begun < 0.1
    assert 4 == sum(window_state.is_open for window_state in states)


@pytest.mark.parametrize("clock", ["2026-11-23T10:00:00Z", "2026-11-24T08:30:00Z", "2026-11-24T09:00:00Z"])
def test_a_window_opens_again_unless_it_never_opens(clock):
    """The last start of `past` is that of 24 November at 08:00, for an hour."""
    past = CronWindow("0 8 * * *", "UTC", duration=HOUR, only=dates("2026-01-01", "2026-11-24"))
    once = OnceWindow("2026-11-24T08:00", "2026-11-24T09:00", "UTC")
    daily = CronWindow("0 8 * * *", "UTC", duration=HOUR, exclude=dates("2026-01-01", "2027-11-24"))
    is_last = not clock.endswith("T09:00:00Z")

    assert [is_last, is_last, True] == [opens_again(window, at(clock)) for window in (past, once, daily)]
    assert is_last == (not never_opens(past, at(clock)))
