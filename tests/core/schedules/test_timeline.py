"""The bounds over a span of time: stretches that say what `resolve` says, and marks for what is to come."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from core.situations import DOWN, NOW, UP, at, event, overrides, schedule, schedules, spec
from cronhpa.core.model.decision import Lead
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, format_instant, to_datetime
from cronhpa.core.model.spec import Behavior, CronWindow, DateRange, Days, Holidays, Override, Schedule
from cronhpa.core.schedules.bounds import resolve
from cronhpa.core.schedules.timeline import MarkKind, WindowInterval, clock_changes, timeline, window_intervals


def told(line):
    """Each segment as (hours since NOW, minimum, maximum)."""
    return [((segment.start - NOW) / HOUR, segment.minimum, segment.maximum) for segment in line.segments]


def marks(line, kind):
    return [(format_instant(mark.start), mark.text) for mark in line.marks if mark.kind is kind]


# --- what always holds -------------------------------------------------------------------------------------------


def claimed(segment):
    return (
        segment.minimum, segment.maximum, segment.minimum_by, segment.maximum_by, segment.headroom_percent,
        segment.conflict, tuple(name for name in segment.open if name != "override"), segment.leading,
    )  # fmt: skip


def resolved(of, instant, start_up):
    held = resolve(of, instant, start_up)
    named = [tuple(window.name for window in held.windows if window.state == state) for state in ("Open", "Leading")]
    return (
        held.minimum, held.maximum, held.minimum_by, held.maximum_by, held.headroom_percent, held.conflict,
        *named,
    )  # fmt: skip


@given(
    st.lists(schedules(), max_size=4, unique_by=lambda drawn: drawn.name),
    st.none() | overrides(),
    st.none() | st.sampled_from([0, 90 * SECOND, 30 * MINUTE]),
    st.integers(-3 * DAY, 3 * DAY),
    st.integers(1, 20 * DAY),
    st.data(),
)
def test_a_timeline_says_at_every_instant_what_the_bounds_are(found, override, start_up, begins, length, data):
    """At both sides of each edge, and somewhere in between; from any nanosecond, over both sides of NOW."""
    of = spec(schedules=tuple(found), override=override)
    start = NOW + begins

    line = timeline(of, start, start + length, start_up=start_up)

    assert (line.start, line.end) == (line.segments[0].start, line.segments[-1].end) == (start, start + length)
    assert all(one.end == other.start for one, other in pairwise(line.segments))
    for segment in line.segments:
        inside = data.draw(st.integers(segment.start, segment.end - 1))
        for instant in (segment.start, inside, segment.end - 1):
            assert claimed(segment) == resolved(of, instant, start_up)


@given(st.lists(schedules(), max_size=4, unique_by=lambda drawn: drawn.name))
def test_a_timeline_has_no_edge_at_which_nothing_changes(found):
    line = timeline(spec(schedules=tuple(found)), NOW, NOW + 3 * DAY)

    assert all(claimed(one) != claimed(other) for one, other in pairwise(line.segments))


# --- segments ----------------------------------------------------------------------------------------------------


def test_a_day_falls_into_before_within_and_after_its_window():
    """From 10:00 on Monday: the window is open until 18:00 (8 h), opens again 14 h later, at 22 h."""
    line = timeline(spec(schedules=(schedule("day", floor=20, cap=80, lead=0),)), NOW, NOW + DAY)

    assert [(0, 20, 80), (8, 2, 120), (22, 20, 80)] == told(line)
    assert [("day",), (), ("day",)] == [segment.open for segment in line.segments]


def test_without_schedules_the_spec_holds_throughout():
    line = timeline(spec(), NOW, NOW + 365 * DAY)

    assert [(0, 2, 120)] == told(line)
    assert () == line.marks


def test_an_override_is_a_window_of_its_own_until_it_ends():
    line = timeline(spec(override=Override(at("11:00"), "INC-4711", floor=30)), NOW, NOW + DAY)

    assert [(0, 30, 120), (1, 2, 120)] == told(line)
    assert [("override",), ()] == [segment.open for segment in line.segments]


def test_a_window_that_renews_itself_for_weeks_ends_when_it_ends():
    """Every minute of January for an hour and a minute: the end is named only on its day, 1 February 00:01."""
    january = schedule("january", "0 * * jan *", duration=61 * MINUTE, floor=20)
    start = at("2027-01-05T00:00:00Z")

    line = timeline(spec(schedules=(january,)), start, start + 60 * DAY)

    assert ["2027-01-05T00:00:00Z", "2027-02-01T00:01:00Z"] == [
        format_instant(segment.start) for segment in line.segments
    ]


def test_a_timeline_with_too_much_to_tell_is_cut_and_says_so(monkeypatch):
    """Open every other minute: 50 segments are 50 minutes."""
    monkeypatch.setattr("cronhpa.core.schedules.timeline.INTERVALS_MAX", 50)
    busy = schedule("busy", "*/2 * * * *", duration=MINUTE, floor=20)

    line = timeline(spec(schedules=(busy,)), NOW, NOW + DAY)

    assert line.is_cut
    assert 50 == len(line.segments)
    assert NOW + 50 * MINUTE == line.end == line.segments[-1].end


def test_a_timeline_with_just_as_much_as_it_holds_is_whole(monkeypatch):
    monkeypatch.setattr("cronhpa.core.schedules.timeline.INTERVALS_MAX", 3)

    line = timeline(spec(schedules=(schedule("day", floor=20, lead=0),)), NOW, NOW + DAY)

    assert (False, 3, NOW + DAY) == (line.is_cut, len(line.segments), line.end)


def test_the_windows_of_each_schedule_are_told_apart_from_what_they_do():
    """Two windows overlap from 12:00 to 13:00, and the first goes on."""
    line = timeline(
        spec(schedules=(schedule("day"), schedule("noon", "0 12 * * *", "0 13 * * *"))), NOW, NOW + 12 * HOUR
    )

    assert [
        WindowInterval("day", NOW, at("18:00"), leads=False),
        WindowInterval("noon", at("12:00"), at("13:00"), leads=False),
    ] == window_intervals(line)


def test_a_lead_is_told_apart_from_the_window_that_it_leads_to():
    """A lead of ten minutes before 12:00: its floor counts, its window is not open."""
    noon = schedule("noon", "0 12 * * *", "0 13 * * *", floor=20, lead=10 * MINUTE)
    line = timeline(spec(schedules=(noon,)), NOW, NOW + 4 * HOUR)

    assert [
        ("10:00", 2, (), ()), ("11:50", 20, (), ("noon",)), ("12:00", 20, ("noon",), ()), ("13:00", 2, (), ()),
    ] == [
        (format_instant(segment.start)[11:16], segment.minimum, segment.open, segment.leading)
        for segment in line.segments
    ]  # fmt: skip
    assert [
        WindowInterval("noon", at("11:50"), at("12:00"), leads=True),
        WindowInterval("noon", at("12:00"), at("13:00"), leads=False),
    ] == window_intervals(line)


def test_a_lead_that_has_begun_keeps_its_length_and_later_ones_follow_from_the_start_up():
    """
    It began 30 minutes before 10:10. Measured, it takes 10 min for a pod, 15 s for a reconciliation, 30 s for 2, 6, 12,
    20.
    """
    noon = schedule("noon", "10 10 * * *", duration=HOUR, floor=20)
    of = spec(schedules=(noon,), behavior=Behavior(UP, DOWN))

    line = timeline(of, NOW, NOW + 36 * HOUR, start_up=10 * MINUTE, leads=(Lead("noon", at("10:10"), 30 * MINUTE),))

    led = [segment for segment in line.segments if segment.leading]
    assert [at("10:00"), at("10:10") + DAY - 10 * MINUTE - 45 * SECOND] == [segment.start for segment in led]


# --- marks -------------------------------------------------------------------------------------------------------


def test_a_contradiction_is_one_mark_as_long_as_it_lasts():
    """At 11:00 a floor of 20 meets a cap of 10 until 12:00; a third window at 11:30 changes nothing of it."""
    line = timeline(
        spec(
            schedules=(
                schedule("day", floor=20),
                schedule("quiet", "0 11 * * *", "0 12 * * *", cap=10),
                schedule("other", "30 11 * * *", "0 13 * * *", headroom_percent=10),
            )
        ),
        NOW,
        NOW + DAY,
    )

    (conflict,) = line.conflicts
    assert (at("11:00"), at("12:00")) == (conflict.start, conflict.end)
    assert "Schedule/day asks for at least 20, Schedule/quiet for at most 10" in conflict.text


def test_a_clock_change_of_each_zone_in_use_is_marked_once():
    """Berlin goes back on 25 October 2026 at 01:00Z, New York on 1 November at 06:00Z; UTC never."""
    day = schedule("day", zone="America/New_York", floor=20)
    line = timeline(
        spec(schedules=(day,)), at("2026-10-20T00:00:00Z"), at("2026-11-10T00:00:00Z"), zones=["Europe/Berlin", "UTC"]
    )

    assert [
        ("2026-10-25T01:00:00Z", "Europe/Berlin: the clocks go from 03:00 to 02:00"),
        ("2026-11-01T06:00:00Z", "America/New_York: the clocks go from 02:00 to 01:00"),
    ] == marks(line, MarkKind.CLOCK_CHANGE)


def test_an_edge_that_the_clocks_skip_or_repeat_is_named_with_what_becomes_of_it():
    night = schedule("night", "30 2 * * *", "0 6 * * *", zone="Europe/Berlin", floor=20)
    line = timeline(spec(schedules=(night,)), at("2026-10-20T00:00:00Z"), at("2027-03-30T00:00:00Z"))

    autumn, spring = (text for _, text in marks(line, MarkKind.CLOCK_CHANGE))
    assert autumn.endswith("03:00 to 02:00; an edge of night comes twice: a start is the first, an end the second")
    assert spring.endswith("02:00 to 03:00; an edge of night is skipped and moves to 03:00")
    assert [("night",), ("night",)] == [mark.schedules for mark in line.marks]


def test_a_planned_event_that_begins_in_the_skipped_hour_is_named_too():
    sale = event("sale", "2027-03-28T02:15", "2027-03-29T00:00", zone="Europe/Berlin", floor=20)
    line = timeline(spec(schedules=(sale,)), at("2027-03-01T00:00:00Z"), at("2027-04-01T00:00:00Z"))

    assert [("sale",)] == [mark.schedules for mark in line.marks]


def test_the_half_hour_of_lord_howe_is_found_to_the_second():
    """It goes from UTC+10:30 to UTC+11 on 4 October 2026 at 02:00, which is 15:30Z on the 3rd."""
    (change,) = clock_changes("Australia/Lord_Howe", at("2026-09-01T00:00:00Z"), at("2026-11-01T00:00:00Z"))

    assert "2026-10-03T15:30:00Z" == format_instant(change.at)
    assert ("02:00", "02:30") == (f"{change.before:%H:%M}", f"{change.after:%H:%M}")
    assert change.is_gap


def test_a_schedule_that_cannot_be_read_is_marked_at_the_beginning():
    line = timeline(spec(schedules=(schedule("broken", problem="start: it has six fields"),)), NOW, NOW + DAY)

    assert [("2026-11-23T10:00:00Z", "broken cannot be read: start: it has six fields")] == marks(
        line, MarkKind.UNREADABLE
    )


# --- exceptions --------------------------------------------------------------------------------------------------

BAVARIA = Days(holidays=(Holidays("DE", "BY"),))
WINTER = {"start": at("2026-12-21T00:00:00Z"), "end": at("2027-01-08T00:00:00Z")}


def working(**days):
    window = CronWindow("0 8 * * mon-fri", "Europe/Berlin", end="0 18 * * *", **days)
    return spec(schedules=(Schedule("day", window, floor=20),))


def test_a_day_on_which_a_window_does_not_open_is_marked_with_what_names_it():
    """Christmas Day 2026 is a Friday; the 26th a Saturday without a start, of which nothing is to be told."""
    line = timeline(working(exclude=BAVARIA), **WINTER)

    assert [
        ("2026-12-25T07:00:00Z", "day does not open: Christmas Day (DE-BY)"),
        ("2027-01-01T07:00:00Z", "day does not open: New Year's Day (DE-BY)"),
        ("2027-01-06T07:00:00Z", "day does not open: Epiphany (DE-BY)"),
    ] == marks(line, MarkKind.EXCLUDED)
    assert all(mark.schedules == ("day",) for mark in line.marks)


def test_days_that_follow_each_other_are_one_mark():
    """Of 27 to 31 December Monday to Thursday have starts."""
    closed = Days(ranges=(DateRange(date(2026, 12, 27), date(2026, 12, 31)),))

    (mark,) = timeline(working(exclude=closed), **WINTER).marks

    assert "day does not open until Thu 2026-12-31: 2026-12-27 to 2026-12-31" == mark.text
    assert (at("2026-12-28T07:00:00Z"), at("2026-12-31T07:00:00Z")) == (mark.start, mark.end)


def test_the_days_on_which_alone_a_window_opens_are_marked_and_those_that_exclude_takes_out_of_them():
    only = Days(ranges=(DateRange(date(2026, 12, 24), date(2026, 12, 28)),))

    line = timeline(working(only=only, exclude=BAVARIA), **WINTER)

    assert [
        ("2026-12-24T07:00:00Z", "day opens: 2026-12-24 to 2026-12-28"),
        ("2026-12-28T07:00:00Z", "day opens: 2026-12-24 to 2026-12-28"),
    ] == marks(line, MarkKind.INCLUDED)
    assert "day does not open: Christmas Day (DE-BY)" == marks(line, MarkKind.EXCLUDED)[0][1]
    assert [("2026-12-24", "2026-12-24"), ("2026-12-28", "2026-12-28")] == [
        (format_instant(interval.start)[:10], format_instant(interval.end)[:10])
        for interval in window_intervals(line)
        if not interval.leads
    ]


@given(st.integers(0, 500), st.integers(1, 60))
def test_a_window_opens_on_just_the_days_with_starts_that_are_not_marked(begins, days):
    start = at("2026-01-01T00:00:00Z") + begins * DAY
    line = timeline(working(exclude=BAVARIA), start, start + days * DAY)

    marked = {to_datetime(at).date() for mark in line.marks for at in (mark.start, mark.end) if at and mark.schedules}
    opened = {to_datetime(interval.start).date() for interval in window_intervals(line) if not interval.leads}
    dates = (to_datetime(start).date() + timedelta(days=number) for number in range(days))

    assert {day for day in dates if day.isoweekday() <= 5} == opened | marked
    assert set() == opened & marked


def test_a_window_that_starts_again_before_it_is_over_is_told_and_is_no_conflict_with_others():
    """Every hour for 90 minutes: it never closes, which nobody writes on purpose."""
    renewed = schedule("renewed", "0 * * * *", duration=90 * MINUTE, floor=20)

    line = timeline(spec(schedules=(renewed,)), NOW, NOW + DAY)

    (mark,) = line.marks
    assert (MarkKind.SELF_CONFLICT, NOW) == (mark.kind, mark.start)
    assert mark.text.startswith("Schedule/renewed starts again before its 90 minutes are over")
    assert () == line.conflicts
    assert not line.is_consistent


def test_a_window_that_its_exceptions_leave_no_day_is_told():
    """The 27th of December alone, a Sunday, of a window that opens on working days."""
    sunday = Days(ranges=(DateRange(date(2026, 12, 27), date(2026, 12, 27)),))

    (mark,) = timeline(working(only=sunday), **WINTER).marks

    assert MarkKind.SELF_CONFLICT is mark.kind
    assert "Schedule/day never opens" in mark.text
