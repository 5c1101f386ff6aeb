"""
cronhpa.core.schedules.bounds, cronhpa.core.schedules.ranks: who sets the bounds, and what if they contradict.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import at, event, exactly, schedule, spec, specs
from cronhpa.core.model.decision import Edge, Lead, Proposal, Role, Source, Window, WindowState
from cronhpa.core.model.instant import DAY, MINUTE, SECOND
from cronhpa.core.model.spec import Override
from cronhpa.core.schedules import bounds as bounds_module
from cronhpa.core.schedules.bounds import resolve


def bounds(*schedules, minimum=2, maximum=120, override=None, clock="10:00"):
    return resolve(spec(minimum, maximum, schedules=schedules, override=override), at(clock))


def numbers(resolved):
    return (resolved.minimum, resolved.maximum)


def override(until="11:00", **stated):
    return Override(at(until), "INC-4711", **stated)


# --- who wins ----------------------------------------------------------------------------------------------------


def test_with_nothing_open_the_spec_sets_the_bounds():
    resolved = bounds(schedule("night", "0 22 * * *", "0 6 * * *", floor=5))

    assert (2, 120) == numbers(resolved)
    assert ("Spec", "Spec") == (str(resolved.minimum_by), str(resolved.maximum_by))
    assert (None, None) == (resolved.timed_floor, resolved.timed_cap)


def test_an_open_window_raises_and_lowers_each_bound_it_states():
    resolved = bounds(schedule("day", floor=20, cap=80))

    assert (20, 80) == numbers(resolved)
    assert ("Schedule/day", "Schedule/day") == (str(resolved.minimum_by), str(resolved.maximum_by))


def test_an_open_window_may_lower_the_minimum_and_raise_the_maximum_of_the_spec():
    assert (0, 300) == numbers(bounds(schedule("day", floor=0, cap=300)))


def test_a_window_that_states_one_bound_leaves_the_other_alone():
    assert (20, 120) == numbers(bounds(schedule("day", floor=20)))
    assert (2, 80) == numbers(bounds(schedule("day", cap=80)))


def test_a_window_that_states_only_headroom_leaves_both_bounds_alone():
    resolved = bounds(schedule("day", headroom_percent=50))

    assert (2, 120) == numbers(resolved)
    assert (None, None) == (resolved.timed_floor, resolved.timed_cap)
    assert 50 == resolved.headroom_percent


def test_the_largest_headroom_of_the_open_windows_counts():
    open_windows = (schedule("a", headroom_percent=20), schedule("b", headroom_percent=50))
    closed = schedule("c", "0 22 * * *", "0 23 * * *", headroom_percent=90)

    assert 50 == bounds(*open_windows, closed).headroom_percent


def test_replicas_are_both_bounds_at_once():
    resolved = bounds(exactly("night", 0))

    assert (0, 0) == numbers(resolved)
    assert (0, 0) == (resolved.timed_floor, resolved.timed_cap)


def test_at_equal_rank_the_largest_minimum_and_the_smallest_maximum_win():
    resolved = bounds(schedule("a", floor=10, cap=80), schedule("b", floor=20, cap=60))

    assert (20, 60) == numbers(resolved)
    assert ("Schedule/b", "Schedule/b") == (str(resolved.minimum_by), str(resolved.maximum_by))


def test_a_higher_priority_wins_for_each_bound_that_it_states():
    """b outranks a where it states a minimum, also by lowering it; a's maximum stays."""
    resolved = bounds(schedule("a", floor=20, cap=80), schedule("b", floor=5, priority=1))

    assert (5, 80) == numbers(resolved)
    assert ("Schedule/b", "Schedule/a") == (str(resolved.minimum_by), str(resolved.maximum_by))


def test_a_schedule_of_negative_priority_still_outranks_the_spec():
    assert (20, 120) == numbers(bounds(schedule("a", floor=20, priority=-1000)))


def test_at_equal_priority_a_one_off_beats_a_recurring_window():
    resolved = bounds(
        schedule("day", floor=20, cap=80),
        event("sale", "2026-11-23T00:00", "2026-11-24T00:00", floor=10, cap=300),
    )

    assert (10, 300) == numbers(resolved)


def test_a_recurring_window_of_higher_priority_beats_a_one_off():
    resolved = bounds(
        schedule("day", floor=20, priority=1),
        event("sale", "2026-11-23T00:00", "2026-11-24T00:00", floor=10),
    )

    assert 20 == resolved.minimum


def test_an_override_outranks_every_schedule_until_it_expires():
    """It states a minimum only; the schedule's maximum stays. It holds until 11:00 and no nanosecond longer."""
    day = schedule("day", floor=20, cap=80, priority=1000)

    assert (30, 80) == numbers(bounds(day, override=override(floor=30)))
    assert (30, 80) == numbers(bounds(day, override=override(floor=30), clock="10:59:59.999999999"))
    assert (20, 80) == numbers(bounds(day, override=override(floor=30), clock="11:00"))
    assert "Override" == str(bounds(day, override=override(floor=30)).minimum_by)


# --- a minimum above a maximum -----------------------------------------------------------------------------------


def test_a_higher_minimum_raises_the_maximum():
    resolved = bounds(schedule("day", cap=20), override=override(floor=30))

    assert (30, 30) == numbers(resolved)
    assert ("Override", "Override") == (str(resolved.minimum_by), str(resolved.maximum_by))
    assert "" == resolved.conflict


def test_a_schedule_above_the_spec_moves_its_bounds():
    assert (150, 150) == numbers(bounds(schedule("day", floor=150)))
    assert (1, 1) == numbers(bounds(schedule("day", cap=1)))


def test_a_higher_maximum_lowers_the_minimum():
    resolved = bounds(schedule("day", floor=20), override=override(cap=5))

    assert (5, 5) == numbers(resolved)
    assert "" == resolved.conflict


def test_at_equal_rank_the_maximum_wins_and_the_conflict_is_named():
    resolved = bounds(schedule("a", floor=30), schedule("b", cap=20))

    assert (20, 20) == numbers(resolved)
    assert (
        "Schedule/a asks for at least 30, Schedule/b for at most 20, at equal rank: the maximum wins"
        == resolved.conflict
    )


# --- what abstains -----------------------------------------------------------------------------------------------


def test_a_schedule_that_cannot_be_read_abstains_and_the_others_act():
    resolved = bounds(schedule("a", floor=30, problem="start: cannot be read"), schedule("b", floor=20))

    assert (20, 120) == numbers(resolved)
    assert "Schedule/a" == str(resolved.unreadable)
    assert [("a", "Unreadable", "start: cannot be read")] == [
        (abstention.name, abstention.reason, abstention.message) for abstention in resolved.abstentions
    ]


@pytest.mark.parametrize("problem", [None, "exclude.calendars: there is no such calendar"])
def test_a_suspended_schedule_says_nothing_and_blocks_nothing(problem):
    """Also if it cannot be read: whoever suspends it wants his scale-downs back."""
    resolved = bounds(schedule("a", floor=30, suspend=True, problem=problem))

    assert (2, 120) == numbers(resolved)
    assert resolved.unreadable is None
    assert (Window("a", WindowState.SUSPENDED, None),) == resolved.windows
    assert resolved.next_edge is None


# --- messages ------------------------------------------------------------------------------------------------


def test_each_statement_is_told_with_its_end():
    resolved = bounds(schedule("day", floor=20, cap=80), override=override(floor=30))

    assert (
        Proposal(Source.SCHEDULE, "day", Role.FLOOR, 20, at("18:00")),
        Proposal(Source.SCHEDULE, "day", Role.CAP, 80, at("18:00")),
        Proposal(Source.OVERRIDE, "", Role.FLOOR, 30, at("11:00")),
    ) == resolved.proposals


def test_the_next_edge_is_the_earliest_of_all_windows_and_the_override():
    """Open until 18:00; opens at 12:00; the override ends at 11:00."""
    day, noon = schedule("day", floor=20), schedule("noon", "0 12 * * *", "0 13 * * *", floor=30, lead=0)

    assert Edge(at("12:00"), "noon", WindowState.OPEN) == bounds(day, noon).next_edge
    assert Edge(at("18:00"), "day", WindowState.CLOSED) == bounds(day).next_edge
    assert Edge(at("11:00"), "override", WindowState.CLOSED) == bounds(day, noon, override=override(floor=30)).next_edge


# --- what is kept between edges ----------------------------------------------------------------------------------


@given(
    specs(timed=True),
    st.none() | st.sampled_from([5 * SECOND, 10 * MINUTE]),
    st.booleans(),
    st.lists(st.integers(-2 * 24 * 60, 4 * 24 * 60), min_size=2, max_size=8),
)
def test_what_is_kept_is_what_would_be_found_anew(of, start_up, has_leads, minutes):
    """In whichever order instants are asked for, as a clock may step back."""
    leads = resolve(of, at("06:55"), start_up).leads if has_leads else ()

    for instant in (at("10:00") + minute * MINUTE for minute in minutes):
        assert bounds_module.resolve_anew(of, instant, start_up, leads) == resolve(of, instant, start_up, leads)


@given(
    specs(timed=True),
    st.sampled_from([None, 5 * SECOND, 10 * MINUTE]),
    st.lists(st.integers(-90, 900), min_size=2, max_size=60),
)
def test_reconciliation_by_reconciliation_the_bounds_are_what_would_be_found_anew(of, start_up, seconds):
    """
    Each reconciliation remembers the leads of the one before; most are seconds apart, and the clock may step back.
    """
    now, leads = at("06:30"), tuple[Lead, ...]()

    for passed in seconds:
        now += passed * SECOND
        resolved = resolve(of, now, start_up, leads)
        assert bounds_module.resolve_anew(of, now, start_up, leads) == resolved
        leads = resolved.leads


@given(specs(timed=True), st.sampled_from([None, 5 * SECOND, 10 * MINUTE]), st.integers(-2 * 24 * 60, 4 * 24 * 60))
def test_who_asks_with_the_leads_that_were_found_finds_the_same(of, start_up, minutes):
    instant = at("10:00") + minutes * MINUTE
    resolved = bounds_module.resolve_anew(of, instant, start_up, ())

    assert resolved == bounds_module.resolve_anew(of, instant, start_up, resolved.leads)


def test_the_bounds_after_an_edge_are_computed_before_it(monkeypatch):
    """
    A lead of 75 s, from 07:58:45 on; the reconciliations of each 15 s until 07:59:45 compute what holds from 08:00 on.
    """
    of = spec(2, 120, schedules=(schedule("day", floor=3),))
    leads = tuple[Lead, ...]()
    for seconds in range(0, 120, 15):
        leads = resolve(of, at("07:58") + seconds * SECOND, leads=leads).leads
    monkeypatch.setattr(bounds_module, "resolve_anew", None)

    is_open = resolve(of, at("08:00"), leads=leads)

    assert (3, WindowState.OPEN) == (is_open.minimum, is_open.windows[0].state)


def test_bounds_hold_until_the_next_edge_whether_those_after_it_are_computed_or_not():
    of = spec(2, 120, schedules=(schedule("day", floor=3, lead=0),))

    for clock in ("07:00", "07:59:45"):
        _, until = bounds_module.resolve_with_expiry(of, at(clock), None, ())
        assert at("08:00") == until


def test_a_copy_of_a_spec_computes_its_own_bounds():
    of = spec(2, 120, schedules=(schedule("day", floor=20),))

    assert 20 == resolve(of, at("08:00")).minimum
    assert 30 == resolve(replace(of, schedules=(schedule("day", floor=30),)), at("08:00")).minimum


def test_between_edges_nothing_is_worked_out_anew():
    """From 08:00 to 18:00 the bounds are the same object."""
    of = spec(2, 120, schedules=(schedule("day", floor=20),))

    assert resolve(of, at("08:00")) is resolve(of, at("17:59:59.999999999"))
    assert resolve(of, at("18:00")) is not resolve(of, at("17:59"))


def test_a_window_whose_end_is_not_in_sight_is_looked_at_once_a_day():
    """A window renewed each day for ever: its end may become known on any day, a year ahead."""
    of = spec(2, 120, schedules=(schedule("always", duration=DAY, floor=20),))

    assert resolve(of, at("10:00")) is resolve(of, at("23:59"))
    assert resolve(of, at("23:59")) is not resolve(of, at("2026-11-24T00:00:00Z"))
    assert resolve(of, at("23:59")) == resolve(of, at("2026-11-24T00:00:00Z"))
