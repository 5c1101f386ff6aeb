"""cronhpa.core.schedules.windows: open or closed, and until when, across midnights, weekends and clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.schedules.brute_force import Minutes
from core.schedules.every_transition import TEXTS, Text, compared
from core.situations import at
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, format_instant
from cronhpa.core.model.spec import CronWindow, OnceWindow
from cronhpa.core.schedules.windows import occurrence, once, state

OFFICE = CronWindow("0 8 * * mon-fri", "Europe/Berlin", end="0 18 * * *")


def is_open(window, clock):
    return state(window, at(clock)).is_open


def until(window, clock):
    changes = state(window, at(clock)).until
    return None if changes is None else format_instant(changes)


# --- from a start to the first end after it ----------------------------------------------------------------------


def test_office_hours_are_open_from_their_start_and_closed_from_their_end():
    """Monday 23 November 2026, Berlin is at UTC+1: 08:00 is 07:00Z, 18:00 is 17:00Z."""
    assert not is_open(OFFICE, "06:59:59.999999999")
    assert is_open(OFFICE, "07:00")
    assert is_open(OFFICE, "16:59:59.999999999")
    assert not is_open(OFFICE, "17:00")


def test_office_hours_are_closed_all_weekend():
    """The end is daily: Friday's window is closed by Friday's 18:00, and Saturday and Sunday have no start."""
    assert [False, False, False] == [
        is_open(OFFICE, clock) for clock in ("2026-11-27T17:00:00Z", "2026-11-28T12:00:00Z", "2026-11-29T12:00:00Z")
    ]
    assert "2026-11-30T07:00:00Z" == until(OFFICE, "2026-11-27T17:00:00Z")


def test_a_window_says_when_it_changes():
    assert "2026-11-23T17:00:00Z" == until(OFFICE, "10:00")
    assert "2026-11-24T07:00:00Z" == until(OFFICE, "17:00")


def test_a_window_across_midnight_is_open_on_both_sides():
    night = CronWindow("0 22 * * *", "UTC", end="0 6 * * *")

    assert [True, True, False] == [is_open(night, clock) for clock in ("23:00", "2026-11-24T05:59:00Z", "06:00")]
    assert "2026-11-24T06:00:00Z" == until(night, "23:00")


def test_an_end_at_the_instant_of_a_start_does_not_close_it():
    """An end closes a window that began before it: start and end at every full hour is always open."""
    always = CronWindow("0 * * * *", "UTC", end="0 * * * *")

    assert is_open(always, "10:00")
    assert is_open(always, "10:30")


def test_a_window_that_waits_for_years_for_its_start_is_closed():
    leap = CronWindow("0 0 29 2 *", "UTC", duration=DAY)

    assert not is_open(leap, "10:00")
    assert "2028-02-29T00:00:00Z" == until(leap, "10:00")
    assert is_open(leap, "2028-02-29T12:00:00Z")


# --- durations ---------------------------------------------------------------------------------------------------


def test_a_duration_is_elapsed_time():
    """From 22:00 on the eve of the fall change 8 h end at 05:00 of the clock; of the spring change at 07:00."""
    night = CronWindow("0 22 * * *", "Europe/Berlin", duration=8 * HOUR)

    assert "2026-10-25T04:00:00Z" == until(night, "2026-10-24T21:00:00Z")  # 20:00Z + 8 h, 05:00 CET
    assert "2026-03-29T05:00:00Z" == until(night, "2026-03-28T22:00:00Z")  # 21:00Z + 8 h, 07:00 CEST


def test_a_start_within_a_duration_renews_it():
    """Every 20 minutes for 30: open from the first start to 30 minutes after the last, 17:40 + 30 = 18:10."""
    busy = CronWindow("*/20 8-17 * * *", "UTC", duration=30 * MINUTE)

    assert "2026-11-23T18:10:00Z" == until(busy, "08:00")


def test_a_window_renewed_all_day_still_ends_that_day():
    """660 starts, a minute each: open until 18:00 and not a minute longer."""
    busy = CronWindow("* 8-17 * * *", "UTC", duration=MINUTE)

    assert is_open(busy, "17:59")
    assert not is_open(busy, "18:00")
    assert not is_open(busy, "2026-11-23T23:59:00Z")


def test_a_window_whose_ends_are_all_starts_too_still_ends_that_day():
    """Each end from 08:01 to 17:59 is a start as well; the one at 18:00 is not."""
    busy = CronWindow("* 8-17 * * *", "UTC", end="* * * * *")

    assert is_open(busy, "17:59")
    assert not is_open(busy, "18:00")


def test_a_window_that_is_renewed_for_ever_has_no_end_worth_naming():
    always = CronWindow("*/5 * * * *", "UTC", duration=10 * MINUTE)

    assert is_open(always, "10:00")
    assert until(always, "10:00") is None


def test_the_more_starts_a_date_has_the_fewer_dates_are_searched_for_an_end():
    """
    A search must not take long. Each minute of December: its 31 dates are searched, and the last start is at 23:59. All
    the year: the repeated hour of 31 October 2027 is too far away. In it no window starts again: after 02:59, which is
    00:59Z, comes 03:00, which is 02:00Z. Hourly that is found, 90 minutes after 02:00, which is 00:00Z.
    """
    december = CronWindow("* * * 12 *", "UTC", duration=5 * MINUTE)
    always = CronWindow("* * * * *", "Europe/Berlin", duration=5 * MINUTE)
    hourly = CronWindow("0 * * * *", "Europe/Berlin", duration=90 * MINUTE)

    assert "2027-01-01T00:04:00Z" == until(december, "2026-12-01T00:01:00Z")
    assert until(always, "2026-11-28T12:00:00Z") is None
    assert "2027-10-31T01:04:00Z" == until(always, "2027-10-30T12:00:00Z")
    assert "2027-10-31T01:30:00Z" == until(hourly, "2026-11-28T12:00:00Z")


def test_a_window_that_is_renewed_every_minute_stays_open():
    assert is_open(CronWindow("* * * * *", "UTC", duration=2 * MINUTE), "10:00")
    assert is_open(CronWindow("* * * * *", "UTC", end="* * * * *"), "10:00")


# --- clock changes -----------------------------------------------------------------------------------------------


def test_a_window_inside_a_fold_covers_both_of_its_hours():
    """02:00 to 02:30: from 00:00Z to 01:30Z."""
    window = CronWindow("0 2 * * *", "Europe/Berlin", end="30 2 * * *")

    assert "2026-10-25T01:30:00Z" == until(window, "2026-10-25T00:00:00Z")
    assert is_open(window, "2026-10-25T01:29:59Z")


@pytest.mark.parametrize(("start", "end"), [("10 2 * * *", "40 2 * * *"), ("30 2 * * *", "0 3 * * *")])
def test_a_window_inside_a_gap_is_empty(start, end):
    """Both mean 01:00Z, and the end is written later: it closes at once, and opens on the next day."""
    window = CronWindow(start, "Europe/Berlin", end=end)

    assert not is_open(window, "2026-03-29T01:00:00Z")
    assert f"2026-03-30T00:{start[:2]}:00Z" == until(window, "2026-03-29T01:00:00Z")


def test_an_end_inside_a_gap_that_is_written_before_the_start_does_not_close_the_window():
    """02:10 and 02:40 are both 01:00Z; the end is that of the day before."""
    window = CronWindow("40 2 * * *", "Europe/Berlin", end="10 2 * * *")

    assert "2026-03-30T00:10:00Z" == until(window, "2026-03-29T01:00:00Z")


def test_an_end_inside_a_gap_closes_a_window_of_the_day_before_though_another_start_is_inside_as_well():
    """From 22:10; at 01:00Z a start of 02:10 and an end of 02:40 meet."""
    window = CronWindow("10 2,22 * * *", "Europe/Berlin", end="40 2 * * *")

    assert is_open(window, "2026-03-29T00:59:59Z")
    assert not is_open(window, "2026-03-29T01:00:00Z")


def gaps():
    """Of each rule by which clocks were put forward in 2025 or 2026 one zone, and the quarter of an hour of it."""
    gap_by_rule = {}
    for zone in sorted(available_timezones()):
        info = ZoneInfo(zone)
        quarters = [datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(730)]
        offsets = [quarter.astimezone(info).utcoffset() for quarter in quarters]
        for day, before, after in zip(quarters, offsets, offsets[1:], strict=False):
            if after > before:
                at = next(
                    day + number * timedelta(minutes=15)
                    for number in range(97)
                    if (day + number * timedelta(minutes=15)).astimezone(info).utcoffset() == after
                )
                gap_by_rule.setdefault((at, before, after), zone)
    return [(zone, at) for (at, _, _), zone in sorted(gap_by_rule.items())]


@pytest.mark.slow
def test_windows_inside_the_gaps_of_all_zones_are_as_by_definition():
    """Each minute of 36 hours around each gap; `make brute-force` takes all changes until 2040."""
    inside = (
        Text("10 * * * *", "20 * * * *"),
        Text("*/25 * * * *", "5,55 * * * *"),
        Text("45 * * * *", "15 */2 * * *", exclude=(0,)),
    )
    changes = gaps()

    assert len(changes) > 20
    assert [] == [text for zone, at in changes for text in compared(zone, at, inside).differences]


# One change each, and what is rare about it.
CHANGES = [
    ("Europe/Berlin", "2026-03-29T01:00Z"),
    ("Europe/Berlin", "2026-10-25T01:00Z"),
    ("America/New_York", "2026-11-01T06:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00Z"),  # half an hour
    ("Australia/Lord_Howe", "2026-10-03T15:30Z"),
    ("Antarctica/Troll", "2026-03-29T01:00Z"),  # two hours
    ("Africa/Casablanca", "2026-02-15T02:00Z"),  # back for Ramadan
    ("America/Sao_Paulo", "2018-11-04T03:00Z"),  # the gap is at midnight
    ("America/Havana", "2026-11-01T05:00Z"),  # back to midnight
    ("America/Nuuk", "2026-10-25T01:00Z"),  # back from midnight to the evening before
    ("Pacific/Chatham", "2026-04-04T14:00Z"),  # UTC+12:45
    ("Pacific/Apia", "2011-12-30T10:00Z"),  # a whole day is skipped
    ("Asia/Kathmandu", "2026-06-01T00:00Z"),  # no change, UTC+5:45
]


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=lambda case: f"{case[0]} {case[1][:10]}")
def test_every_minute_around_a_clock_change_is_as_by_definition(change):
    """36 hours, each minute of them, for all windows: open or closed, and when that changes."""
    zone, at = change

    comparison = compared(zone, datetime.fromisoformat(at), TEXTS)

    assert () == comparison.differences
    assert len(TEXTS) * 36 * 60 == comparison.instants


def field(low, high, *others):
    """The text of a cron field that brute force reads as well."""
    value = st.integers(low, high).map(str)
    return st.one_of(
        st.just("*"),
        value,
        st.tuples(value, value).map(",".join),
        st.tuples(value, value).map("-".join),
        st.tuples(value, value, st.integers(2, min(9, high)).map(str)).map(
            lambda drawn: f"{drawn[0]}-{drawn[1]}/{drawn[2]}"
        ),
        st.integers(2, min(9, high)).map("*/{}".format),
        *(st.just(other) for other in others),
    )


# Starts within ten days, hours that clock changes touch more often than not.
CRONS = st.tuples(
    field(0, 59),
    st.one_of(field(0, 23), field(0, 3), st.just("23")),
    st.just("*"),
    st.just("*"),
    field(0, 7, "mon-fri", "sat,sun", "fri-mon"),
).map(" ".join)
NEAR = st.lists(st.integers(-2, 1), max_size=2).map(tuple)


@settings(max_examples=40)
@given(
    st.sampled_from(CHANGES), CRONS, st.one_of(CRONS, st.integers(1, 3000)), NEAR, st.one_of(st.none(), NEAR)
)  # fmt: skip
def test_any_window_is_as_by_definition_at_a_clock_change(change, start, closing, exclude, only):
    zone, at = change
    end, minutes = (closing, None) if isinstance(closing, str) else (None, closing)

    comparison = compared(zone, datetime.fromisoformat(at), (Text(start, end, minutes, exclude, only or None),))

    assert () == comparison.differences


# --- occurrences -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "minutes", "clock", "opens", "closes"),
    [
        ("0,30 9-20 * * *", 15, "18:31", "18:30", "18:45"),
        ("0,30 9-20 * * *", 15, "18:29", "18:30", "18:45"),
        ("0 9,10 * * *", 45, "10:01", "10:00", "10:45"),
        ("*/3 * * * *", 1, "10:00", "10:00", "10:01"),
        ("*/20 8-17 * * *", 30, "12:00", "08:00", "18:10"),
    ],
)
def test_an_occurrence_has_its_own_start_though_another_one_ends_shortly_before(start, minutes, clock, opens, closes):
    window = CronWindow(start, "UTC", duration=minutes * MINUTE)

    assert (at(opens), at(closes)) == occurrence(window, at(clock))


def test_the_start_of_an_occurrence_of_weeks_is_taken_to_be_eight_days_before_its_end():
    month = CronWindow("0 0 1 11 *", "UTC", duration=29 * DAY)

    start, end = occurrence(month, at("10:00"))

    assert ("2026-11-30T00:00:00Z", 8 * DAY) == (format_instant(end), end - start - 1)


@settings(max_examples=40)
@given(st.sampled_from(CHANGES), CRONS, st.one_of(CRONS, st.integers(1, 3000)))
def test_any_occurrence_is_the_open_stretch_around_an_instant_or_the_next_one(change, start, closing):
    """Every ninth minute of two days around a clock change, by brute force over 14 days before and 12 after."""
    zone, at = change
    end, minutes = (closing, None) if isinstance(closing, str) else (None, closing)
    middle = datetime.fromisoformat(at)
    by_minute = Minutes(zone, middle - timedelta(days=14), middle + timedelta(days=12))
    is_open = by_minute.open_at(start, end, minutes)
    edges = np.flatnonzero(np.diff(is_open)) + 1
    window = CronWindow(start, zone, end, None if minutes is None else minutes * MINUTE)
    first = 13 * 24 * 60

    for index in range(first, first + 2 * 24 * 60, 9):
        behind = edges[edges > index]
        opens, *later = behind if not is_open[index] else [edges[edges <= index].max(initial=0), *behind]
        if later:
            begin, close = (int(by_minute.instants[edge]) * MINUTE for edge in (opens, later[0]))
            found = occurrence(window, int(by_minute.instants[index]) * MINUTE)
            assert (max(begin, close - 8 * DAY - 1), close) == found, (index, format_instant(close))


# --- planned events ----------------------------------------------------------------------------------------------

BLACK_FRIDAY = OnceWindow("2026-11-27T00:00", "2026-11-28T02:00", "America/New_York")


def test_a_planned_event_is_open_between_its_local_times():
    """New York is at UTC-5: from 05:00Z on the 27th to 07:00Z on the 28th."""
    assert ("2026-11-27T05:00:00Z", "2026-11-28T07:00:00Z") == tuple(map(format_instant, once(BLACK_FRIDAY)))
    assert [False, True, True, False] == [
        is_open(BLACK_FRIDAY, clock)
        for clock in (
            "2026-11-27T04:59:59Z",
            "2026-11-27T05:00:00Z",
            "2026-11-28T06:59:59Z",
            "2026-11-28T07:00:00Z",
        )
    ]


def test_a_planned_event_says_when_it_changes_and_then_nothing_more():
    assert "2026-11-27T05:00:00Z" == until(BLACK_FRIDAY, "10:00")
    assert "2026-11-28T07:00:00Z" == until(BLACK_FRIDAY, "2026-11-27T10:00:00Z")
    assert until(BLACK_FRIDAY, "2026-11-29T10:00:00Z") is None
