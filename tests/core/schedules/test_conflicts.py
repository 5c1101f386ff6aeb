"""Schedules that contradict each other: found before they meet, told with both names, when, and which one wins."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.situations import NOW, at, event, exactly, schedule, schedules, spec
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.core.model.spec import CronWindow, Days, Holidays, Override, Schedule
from cronhpa.core.schedules.bounds import resolve
from cronhpa.core.schedules.conflicts import conflicts


def told(*windows, clock="10:00", **fields):
    return [str(conflict) for conflict in conflicts(spec(schedules=windows, **fields), at(clock))]


DAY_20 = schedule("day", floor=20)  # 08:00 to 18:00
QUIET = schedule("quiet", "0 12 * * *", "0 13 * * *", cap=10)
CONTRADICTION = "Schedule/day asks for at least 20, Schedule/quiet for at most 10, at equal rank: the maximum wins"


def test_windows_that_go_together_say_nothing():
    night = Schedule("night", CronWindow("0 22 * * *", "UTC", "0 6 * * *"), floor=0, cap=0)

    assert [] == told(DAY_20, night)
    assert [] == told(schedule("day", floor=20, cap=80), schedule("noon", "0 12 * * *", "0 13 * * *", floor=30))


def test_a_contradiction_is_told_before_it_comes_and_while_it_lasts():
    coming = f"from 2026-11-23T12:00:00Z until 2026-11-23T13:00:00Z {CONTRADICTION}"

    assert [coming] == told(DAY_20, QUIET)
    assert [f"until 2026-11-23T13:00:00Z {CONTRADICTION}"] == told(DAY_20, QUIET, clock="12:00")
    assert [coming.replace("-23T", "-24T")] == told(DAY_20, QUIET, clock="13:00")


def test_a_contradiction_is_found_in_the_next_window_of_either():
    """The day is closed at 07:00 and the maintenance weeks away; within it, at 08:00, the day begins."""
    maintenance = event("maintenance", "2026-12-20T00:00", "2026-12-21T00:00", cap=3)

    (contradiction,) = told(DAY_20, maintenance, clock="07:00")

    assert contradiction == (
        "from 2026-12-20T08:00:00Z until 2026-12-20T18:00:00Z Schedule/day asks for at least 20, "
        "Schedule/maintenance for at most 3: Schedule/maintenance is of higher rank and wins"
    )


def test_a_contradiction_knows_its_schedules_whatever_they_are_called():
    of_both = conflicts(spec(schedules=(schedule("the day, at least", floor=20), QUIET)), at("10:00"))
    of_one = conflicts(spec(schedules=(schedule("far: too many", floor=900),)), at("10:00"))

    assert [("the day, at least", "quiet")] == [one.sources for one in of_both]
    assert [("far: too many", "")] == [one.sources for one in of_one]


def test_two_exact_counts_contradict_each_other():
    assert [
        (
            "until 2026-11-23T18:00:00Z Schedule/b asks for at least 5, Schedule/a for at most 3, "
            "at equal rank: the maximum wins"
        )
    ] == told(exactly("a", 3), exactly("b", 5))


def test_a_floor_above_the_maximum_of_the_spec_is_told():
    """The replicas are pinned to 150 while it is open: no metric can move them."""
    assert [
        (
            "until 2026-11-23T18:00:00Z Schedule/day asks for at least 150, Spec for at most 120: "
            "Schedule/day is of higher rank and wins"
        )
    ] == told(schedule("day", floor=150))
    assert [] == told(schedule("day", floor=150, cap=300))


def test_a_cap_below_the_minimum_of_the_spec_is_told():
    assert [
        (
            "from 2026-11-23T12:00:00Z until 2026-11-23T13:00:00Z Spec asks for at least 15, "
            "Schedule/quiet for at most 10: Schedule/quiet is of higher rank and wins"
        )
    ] == told(QUIET, minimum=15)


def test_an_override_contradicts_what_it_likes():
    assert [] == told(DAY_20, override=Override(at("11:00"), "INC-4711", cap=5))


def test_what_is_suspended_or_unreadable_contradicts_nobody():
    assert [] == told(DAY_20, schedule("quiet", cap=10, suspend=True), schedule("odd", cap=1, problem="end: ..."))


def test_the_same_contradiction_has_the_same_words_each_time():
    now, later = (conflicts(spec(schedules=(DAY_20, QUIET)), at(clock)) for clock in ("10:00", "12:30"))

    assert now[0].text == later[0].text


def test_a_window_longer_than_the_time_between_its_starts_is_told():
    """Hourly for 90 minutes never closes; hourly for an hour, and daily for a day, are meant to go on."""
    hourly = schedule("hourly", "0 * * * *", duration=90 * MINUTE, floor=3)

    assert [
        "Schedule/hourly starts again before its 90 minutes are over: it stays open from one start into the next"
    ] == told(hourly)
    assert [] == told(schedule("hourly", "0 * * * *", duration=HOUR, floor=3))
    assert [] == told(schedule("daily", "@daily", duration=DAY, floor=3))


def test_a_window_whose_ends_are_all_starts_is_told():
    """An end closes what began before it: 08:00 to 08:00 goes on for ever, 08:00 to 08:01 does not."""
    text = "Schedule/day is not known to close: each end that was looked at comes at the instant of a start"
    assert [text] == told(schedule("day", "0 8 * * *", "0 8 * * *", floor=3))
    assert [] == told(schedule("day", "0 8 * * *", "1 8 * * *", floor=3))


def test_of_a_window_that_closes_after_all_ends_that_are_looked_at_it_is_not_told_that_it_never_does():
    """
    With a start each minute, but in October, 33 dates of ends are looked at; it closes on 1 October. Found: it was told
    that each of its ends comes at the instant of a start.
    """
    (text,) = told(schedule("day", "* * * 1-9,11,12 *", "0 0 * * *", floor=3))

    assert "is not known to close: each end that was looked at" in text


def test_a_window_whose_exceptions_leave_no_start_is_told():
    window = CronWindow("0 8 24 12 *", "UTC", duration=HOUR, exclude=Days(holidays=(Holidays("CZ"),)))

    assert ["Schedule/eve never opens: exclude and only leave it no start"] == told(Schedule("eve", window, floor=9))


def test_many_schedules_that_contradict_each_other_are_a_matter_of_milliseconds():
    """25 floors over 25 caps, each with an hour of its own: all pairs do. The days they fall on are known already."""
    hours = [f"{minute} {hour} * * *" for minute in (0, 30) for hour in range(13)][:25]
    floors = [schedule(f"floor-{i}", text, duration=DAY // 2, floor=50 + i) for i, text in enumerate(hours)]
    caps = [schedule(f"cap-{i}", text, duration=DAY // 2, cap=10 + i) for i, text in enumerate(hours)]
    of = spec(schedules=(*floors, *caps))
    conflicts(of, NOW)

    begun = time.thread_time()
    contradictions = conflicts(of, NOW + SECOND)

    assert 10 == len(contradictions)
    assert time.thread_time() - begun < 0.1


several = st.lists(schedules(), min_size=1, max_size=4, unique_by=lambda drawn: drawn.name).map(tuple)


@given(several, st.integers(-DAY // SECOND, DAY // SECOND).map(lambda seconds: NOW + seconds * SECOND))
def test_what_is_told_is_so_and_what_holds_now_is_told(windows, now):
    of = spec(schedules=windows)

    contradictions = conflicts(of, now)

    for contradiction in contradictions:
        if contradiction.reason != "Contradiction":
            continue
        assert resolve(of, now if contradiction.start is None else contradiction.start).conflict == contradiction.text
    assert resolve(of, now).conflict in {"", *(stated.text for stated in contradictions if stated.start is None)}


@pytest.mark.parametrize("clock", ["00:00", "07:59:59", "12:00", "13:00", "18:00"])
def test_a_contradiction_of_every_day_is_always_told(clock):
    assert 1 == len(told(DAY_20, QUIET, clock=clock))
