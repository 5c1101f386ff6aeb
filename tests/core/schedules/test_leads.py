"""Capacity is asked for ahead of a window's start: for how long, by what, and what may not be changed so early."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import (
    NOW,
    at,
    begun_leads,
    behavior,
    event,
    exactly,
    overrides,
    queued,
    rules,
    schedule,
    schedules,
    spec,
)
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import (
    Ahead,
    Edge,
    Lead,
    Proposal,
    Role,
    Source,
    Window,
    WindowState,
    Withheld,
    Yielding,
)
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Crowd
from cronhpa.core.model.spec import CronWindow, Override
from cronhpa.core.reasons import proposal_reason
from cronhpa.core.schedules.bounds import resolve
from cronhpa.core.schedules.leads import urgent_edge
from cronhpa.core.schedules.ranks import settled_at


def day(floor=20, **fields):
    return schedule("day", "0 8 * * *", "0 18 * * *", floor=floor, **fields)


def bounds(*windows, clock, start_up=None, leads=(), **fields):
    return resolve(spec(schedules=windows, **fields), at(clock), start_up, leads)


def numbers(resolved):
    return (resolved.minimum, resolved.maximum)


# --- for how long ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start_up", "fields", "seconds"),
    [
        (None, {}, 120),  # 60 until it is known, a period of 15, and 4, 8, 16, 32 in 45
        (90 * SECOND, {}, 150),
        (90 * SECOND, {"behavior": behavior()}, 135),  # 90, 15, and 6, 12, 24 in 30
        (90 * SECOND, {"behavior": behavior(up=rules(("Pods", 6, 60)))}, 225),  # 90, 15, and 8, 14, 20 in 120
        (90 * SECOND, {"minimum": 20}, None),  # nothing rises
        (90 * SECOND, {"minimum": 14}, 105),  # 14 becomes 20 in one reconciliation
    ],
)
def test_a_measured_lead_is_start_up_and_a_reconciliation_and_the_rise_from_the_bound_before(start_up, fields, seconds):
    if seconds is None:
        assert WindowState.CLOSED == bounds(day(), clock="07:59:59", start_up=start_up, **fields).windows[0].state
        return
    begin = at("08:00") - seconds * SECOND
    of = spec(schedules=(day(),), **fields)

    before, leading = resolve(of, begin - 1, start_up), resolve(of, begin, start_up)

    assert WindowState.CLOSED == before.windows[0].state
    assert Edge(begin, "day", WindowState.LEADING) == before.next_edge
    assert Window("day", WindowState.LEADING, at("08:00"), seconds * SECOND) == leading.windows[0]
    assert (20, 120) == numbers(leading)


def test_a_stated_lead_is_neither_measured_nor_remembered():
    window = day(lead=10 * MINUTE)

    assert (2, 120) == numbers(bounds(window, clock="07:49:59", start_up=HOUR))
    leading = bounds(window, clock="07:50", start_up=HOUR)
    assert (20, 120) == numbers(leading)
    assert () == leading.leads


def test_a_lead_of_nothing_is_none():
    resolved = bounds(day(lead=0), clock="07:59:59.999999999")

    assert (2, 120) == numbers(resolved)
    assert Edge(at("08:00"), "day", WindowState.OPEN) == resolved.next_edge


def test_a_lead_that_has_begun_stays_as_it_was():
    """
    It began 120 s ahead, at 07:58. Pods are known to be Ready after 10 s then, for which 70 s were enough; and in
    another life after 10 minutes.
    """
    begun = (Lead("day", at("08:00"), 120 * SECOND),)

    for start_up in (10 * SECOND, 600 * SECOND):
        resolved = bounds(day(), clock="07:58:10", start_up=start_up, leads=begun)
        assert (20, 120) == numbers(resolved)
        assert begun == resolved.leads
    assert (2, 120) == numbers(bounds(day(), clock="07:58:10", start_up=10 * SECOND))


@pytest.mark.parametrize(
    ("windows", "period", "urgent"),
    [
        ((day(),), 15 * SECOND, None),
        ((day(cap=30),), 15 * SECOND, at("08:00")),  # a cap holds from the start on
        ((day(lead=0),), 15 * SECOND, at("08:00")),  # nothing counts before the start
        ((day(), schedule("sale", "0 8 * * *", "0 9 * * *", floor=4, lead=0)), 15 * SECOND, at("08:00")),
        ((day(),), 5 * MINUTE, at("08:00")),  # whoever looks at it would wait for five minutes
    ],
)
def test_a_start_at_which_no_bound_changes_is_not_urgent(windows, period, urgent):
    """Of 10,000 objects that shared a start, those that it scaled down waited for 8,000 that it left as they were."""
    of = spec(schedules=windows, options=replace(spec().options, sync_period=period))

    decision = decide(of, queued(20, current=20), None, Memory(), at("07:59"))

    assert at("08:00") == decision.next_edge.at
    assert urgent == urgent_edge(of, decision)


def test_the_begin_of_a_lead_and_the_end_of_a_window_are_urgent():
    of = spec(schedules=(day(),))

    during = decide(of, queued(20, current=20), None, Memory(), at("17:59"))
    ahead = decide(of, queued(2, current=2), None, Memory(), at("07:50"))

    assert at("18:00") == urgent_edge(of, during)
    assert WindowState.LEADING == ahead.next_edge.state
    assert ahead.next_edge.at == urgent_edge(of, ahead)


def test_a_lead_is_forgotten_when_its_window_has_opened_or_starts_at_another_time():
    begun = (Lead("day", at("08:00"), 120 * SECOND), Lead("gone", at("08:00"), 120 * SECOND))

    assert () == bounds(day(), clock="08:00", leads=begun).leads
    later = schedule("day", "0 9 * * *", "0 18 * * *", floor=20)
    assert () == bounds(later, clock="07:59", leads=begun).leads


def test_a_reconciliation_remembers_the_leads_that_have_begun():
    of, now = spec(schedules=(day(),)), at("07:59")
    decision = decide(of, queued(0, current=2), None, Memory(), now)

    memory = Memory().after(decision, Withheld(), of, queued(0, current=2))

    assert (Lead("day", at("08:00"), 120 * SECOND),) == memory.leads


def test_a_window_that_is_closed_for_weeks_is_seen_coming():
    """It opens on 24 December: the next edge of all is the begin of its lead."""
    christmas = event("christmas", "2026-12-24T08:00", "2026-12-27T00:00", floor=20)

    resolved = bounds(christmas, clock="10:00")

    assert Edge(at("2026-12-24T07:58:00Z"), "christmas", WindowState.LEADING) == resolved.next_edge
    assert WindowState.LEADING == bounds(christmas, clock="2026-12-24T07:58:00Z").windows[0].state


def test_a_lead_longer_than_the_pause_fills_it():
    """Closed from 18:00 to 08:00, asked for 15 h ahead: it never goes down."""
    window = day(lead=15 * HOUR)

    assert WindowState.OPEN == bounds(window, clock="17:59:59").windows[0].state
    assert WindowState.LEADING == bounds(window, clock="18:00").windows[0].state


# --- what leads --------------------------------------------------------------------------------------------------


def test_an_exact_count_leads_by_what_it_raises_alone():
    """Exactly 10 from 08:00 on: 10 at least before, and no fewer than there are."""
    resolved = bounds(schedule("exact", floor=10, cap=10), clock="07:59")

    assert (10, 120) == numbers(resolved)


def test_what_lowers_waits_for_its_start():
    """A zero, a cap and a lower minimum take nothing away from what comes before them."""
    for window in (exactly("night", 0), schedule("cap", cap=1), schedule("less", floor=1)):
        resolved = bounds(replace(window, lead=10 * MINUTE), clock="07:59")
        assert (2, 120) == numbers(resolved)
        assert WindowState.CLOSED == resolved.windows[0].state
        assert Edge(at("08:00"), window.name, WindowState.OPEN) == resolved.next_edge


def test_headroom_leads_by_start_up_and_a_reconciliation():
    """How far it makes the replicas rise depends on the load, so no ramp is counted: 75 s."""
    rush = schedule("rush", headroom_percent=50)

    assert 0 == bounds(rush, clock="07:58:44").headroom_percent
    assert 50 == bounds(rush, clock="07:58:45").headroom_percent


def test_a_lead_never_lowers_a_floor_that_is_in_force_before_it():
    """The early shift has 50 until 08:00; the day, of higher priority, 20 from then on."""
    early = schedule("early", "0 6 * * *", "0 8 * * *", floor=50)

    assert 50 == bounds(early, day(priority=5, lead=HOUR), clock="07:30").minimum
    assert 20 == bounds(early, day(priority=5, lead=HOUR), clock="08:00").minimum


def test_a_lead_rises_from_the_bound_just_before_the_start_and_not_from_that_of_now():
    """40 until 07:59, 2 for a minute, 20 from 08:00: the rise is from 2, 45 s, and 40 holds until 07:59."""
    early = schedule("early", "0 6 * * *", "59 7 * * *", floor=40)

    resolved = bounds(early, day(), clock="07:58")

    assert 120 * SECOND == resolved.windows[1].lead
    assert 40 == resolved.minimum
    assert 20 == bounds(early, day(), clock="07:59", leads=resolved.leads).minimum


def test_a_schedule_that_is_outranked_at_its_start_does_not_lead():
    """A freeze with 3 is open from 07:00 to 09:00 and of higher rank: 20 would be raised for nothing."""
    freeze = schedule("freeze", "0 7 * * *", "0 9 * * *", floor=3, priority=1)

    resolved = bounds(freeze, day(lead=10 * MINUTE), clock="07:59")

    assert 3 == resolved.minimum == bounds(freeze, day(lead=10 * MINUTE), clock="08:00").minimum
    assert WindowState.CLOSED == resolved.windows[1].state


def test_a_lead_asks_for_no_more_than_a_cap_leaves_at_its_start():
    """The cap of 10 is open from 07:00 to 09:00, at equal rank."""
    cap = schedule("cap", "0 7 * * *", "0 9 * * *", cap=10)

    assert (10, 10) == numbers(bounds(cap, day(lead=10 * MINUTE), clock="07:59"))


def test_neither_suspended_nor_unreadable_schedules_lead():
    for window in (day(suspend=True), day(problem="start: cannot be read")):
        assert 2 == bounds(window, clock="07:59").minimum


def test_a_window_that_closes_into_its_next_lead_is_said_to_lead_then():
    """Open from 8:00 to 18:00 each day, asked for 14 h ahead, from 18:00 on; with 13 h it is closed for an hour."""
    for lead, state in ((14 * HOUR, WindowState.LEADING), (13 * HOUR, WindowState.CLOSED)):
        now, then = (bounds(day(lead=lead), clock=clock) for clock in ("17:00", "18:00"))

        assert Edge(at("18:00"), "day", state) == now.next_edge
        assert state == then.windows[0].state


# --- what stands in its way --------------------------------------------------------------------------------------


def night(cap=5, end="0 8 * * *", **fields):
    return schedule("night", "0 22 * * *", end, cap=cap, **fields)


def test_a_cap_that_closes_at_the_start_does_not_block_the_lead():
    before, leading = (bounds(night(), day(), clock=clock) for clock in ("07:57:59", "07:58"))

    assert (2, 5) == numbers(before)
    assert (20, 20) == numbers(leading)
    assert "" == leading.conflict
    assert Proposal(Source.SCHEDULE, "night", Role.CAP, 20, at("08:00"), Yielding(5)) in leading.proposals


def test_a_cap_yields_no_more_than_what_leads_needs():
    """A maintenance of at most 5 until 08:00: the pods of 08:00 are started, and metrics get none beside them."""
    decision = decide(
        spec(schedules=(night(), day())), queued(1000, current=20), None, Memory(start_up=60 * SECOND), at("07:59")
    )

    assert (20, 20) == (decision.minimum, decision.maximum)
    assert 20 == decision.desired


def test_a_cap_that_allows_what_leads_is_left_alone():
    resolved = bounds(night(cap=30), day(), clock="07:58")

    assert (20, 30) == numbers(resolved)
    assert Proposal(Source.SCHEDULE, "night", Role.CAP, 30, at("08:00")) in resolved.proposals


def test_a_cap_does_not_yield_to_what_is_of_lower_rank_because_it_yields_to_something_else():
    """`day` gets its 20; the 50 of `low` would wait for the cap's end alone."""
    low = schedule("low", "0 8 * * *", "0 18 * * *", floor=50, priority=-1)

    assert (20, 20) == numbers(bounds(night(), day(), low, clock="07:58"))


def test_a_zero_that_ends_at_the_start_is_left_in_time():
    """From nothing with doubling, four at least: 4, 8, 16, 32 in 45 s."""
    asleep = replace(night(), floor=0, cap=0)

    resolved = bounds(asleep, day(), clock="07:58")

    assert (20, 20) == numbers(resolved)
    assert Lead("day", at("08:00"), 120 * SECOND) in resolved.leads


def test_a_cap_of_higher_priority_holds_until_it_closes():
    assert (5, 5) == numbers(bounds(night(priority=1), day(), clock="07:58"))


def test_a_cap_that_closes_later_holds():
    """Open until 08:01 and of equal rank: it wins, before the start as after it."""
    late = night(end="1 8 * * *")

    assert (5, 5) == numbers(bounds(late, day(), clock="07:59")) == numbers(bounds(late, day(), clock="08:00"))


def test_a_floor_of_higher_priority_that_closes_at_the_start_does_not_block_the_lead():
    """At least 3 until 08:00 says nothing against 20."""
    freeze = schedule("freeze", "0 7 * * *", "0 8 * * *", floor=3, priority=1)

    assert 20 == bounds(freeze, day(), clock="07:59").minimum


def test_a_window_that_allows_more_than_the_spec_allows_it_until_it_closes():
    """What leads must not take the 300 of a sale away before its end; nor is its cap told as in the way."""
    sale = schedule("sale", "0 6 * * *", "0 8 * * *", cap=300)

    resolved = bounds(sale, day(), clock="07:59")

    assert (20, 300) == numbers(resolved)
    assert "Schedule/sale" == str(resolved.maximum_by)
    assert Proposal(Source.SCHEDULE, "sale", Role.CAP, 300, at("08:00")) in resolved.proposals


def test_a_lead_below_a_cap_that_something_higher_overrules_lowers_nothing():
    """At least 40 by hand beats at most 30; the 20 000 of what comes would not, and must not bring the 30 back."""
    freeze = night(cap=30)
    override = Override(at("08:00"), "INC-4711", floor=40)

    resolved = bounds(freeze, day(floor=20_000, priority=-1), clock="07:59", override=override)

    assert (40, 40) == numbers(resolved)
    assert "Override" == str(resolved.minimum_by)


def test_of_two_leads_the_larger_does_not_hide_the_one_that_beats_a_cap():
    """`large` yields to the cap of 10, which is open until it starts; `first` is of higher rank than the cap."""
    cap = schedule("cap", "0 6 * * *", "0 9 * * *", cap=10)
    first = schedule("first", "0 8 * * *", "0 9 * * *", floor=20, priority=1)
    large = schedule("large", "0 9 * * *", "0 18 * * *", floor=50, priority=-1, lead=2 * HOUR)

    assert (20, 20) == numbers(bounds(cap, first, large, clock="07:59:50"))
    assert (20, 20) == numbers(bounds(cap, first, large, clock="08:00"))


def test_an_override_stands_above_a_lead():
    cap = Override(at("11:00"), "INC-4711", cap=5)
    floor = Override(at("11:00"), "INC-4711", floor=30)

    assert (5, 5) == numbers(bounds(day(lead=HOUR), clock="07:58", override=cap))
    assert (30, 120) == numbers(bounds(day(lead=HOUR), clock="07:58", override=floor))


def test_a_lead_above_the_maximum_of_the_spec_moves_it_as_the_window_will():
    resolved = bounds(day(floor=150), clock="07:59")

    assert (150, 150) == numbers(resolved) == numbers(bounds(day(floor=150), clock="08:00"))


def test_a_lead_says_who_it_is_and_until_when():
    assert (
        Proposal(Source.SCHEDULE, "day", Role.FLOOR, 20, None, Ahead(at("08:00"), 2 * MINUTE))
        in bounds(day(), clock="07:59").proposals
    )


# --- whatever the schedules --------------------------------------------------------------------------------------

# Of any windows, or of two that meet: what closes at 10:00 stands in the way of what opens then.
meeting = st.builds(
    replace,
    schedules(),
    window=st.sampled_from(
        [CronWindow("0 6 * * *", "UTC", end="0 10 * * *"), CronWindow("0 10 * * *", "UTC", end="0 18 * * *")]
    ),
    lead=st.just(HOUR),
    suspend=st.just(False),
    problem=st.none(),
)
several = st.one_of(
    [
        st.lists(windows, min_size=least, max_size=4, unique_by=lambda window: window.name).map(tuple)
        for windows, least in ((schedules(), 1), (meeting, 2))
    ]
)
# Any time of three days, and as often within a lead to where one window closes and another opens.
instants = st.integers(-DAY // SECOND, DAY // SECOND).map(lambda seconds: NOW + seconds * SECOND) | st.sampled_from(
    [at("07:59:50"), at("09:30")]
)
start_ups = st.none() | st.integers(0, 3600).map(lambda seconds: seconds * SECOND)


@given(several, st.none() | overrides(), instants, start_ups, begun_leads)
def test_a_lead_only_ever_raises(windows, override, now, start_up, leads):
    leading = spec(schedules=windows, override=override)
    punctual = replace(leading, schedules=tuple(replace(window, lead=0) for window in windows))

    resolved, plain = resolve(leading, now, start_up, leads), resolve(punctual, now)

    assert resolved.minimum >= plain.minimum
    assert resolved.maximum >= plain.maximum
    assert resolved.headroom_percent >= plain.headroom_percent


@given(several, st.none() | overrides(), instants, start_ups, begun_leads)
def test_a_lead_once_begun_leads_on_until_its_start(windows, override, now, start_up, leads):
    """Whatever is learned of the start-up meanwhile: at any instant up to its start it still leads."""
    of = spec(schedules=windows, override=override)
    begun = resolve(of, now, start_up, leads)

    for lead in begun.leads:
        for later in (now, (now + lead.start) // 2, lead.start - 1):
            resolved = resolve(of, later, SECOND, begun.leads)
            assert lead in resolved.leads


@given(several, instants)
def test_what_a_start_brings_is_asked_for_just_before_it(windows, now):
    """Each leads by an hour and nothing caps: where the minimum of a start is of what opens, it is there already."""
    of = spec(schedules=tuple(replace(window, cap=None, lead=HOUR) for window in windows))
    edge = resolve(of, now).next_edge
    start = now if edge is None else edge.at
    after = settled_at(of, start).low.proposal
    opens = [
        window.name for window in resolve(of, start - 1).windows if window.changes == start and window.state != "Open"
    ]

    assert after.name not in opens or resolve(of, start - 1).minimum >= after.replicas


# --- crowds ------------------------------------------------------------------------------------------------------

START = at("08:00")


def crowd(pods=1000, objects=500, pods_per_minute=2400, start=START):
    return Crowd(start, pods, objects, pods_per_minute)


@pytest.mark.parametrize(
    ("seen", "seconds"),
    [
        (None, 75),  # 60 s for a pod, a period of 15 s
        (crowd(), 100),  # 1,000 pods at 40 a second: 25 s
        (crowd(pods=1001), 105),  # 25.02 s, in steps of 5 s
        (crowd(pods_per_minute=1), 195),  # two minutes at most
        (crowd(objects=1), 75),
        (crowd(pods=49), 75),
        (crowd(start=START + MINUTE), 75),  # that of another start
    ],
)
def test_a_crowd_makes_the_lead_longer_by_its_pods_at_the_rate_of_former_crowds(seen, seconds):
    begin = START - seconds * SECOND

    before, then = (resolve(spec(schedules=(day(floor=4),)), instant, None, (), seen) for instant in (begin - 1, begin))

    assert (WindowState.CLOSED, begin) == (before.windows[0].state, before.next_edge.at)
    assert Window("day", WindowState.LEADING, START, seconds * SECOND) == then.windows[0]


def test_a_lead_that_has_begun_keeps_its_length_when_its_crowd_goes():
    begun = (Lead("day", START, 100 * SECOND),)

    assert begun == resolve(spec(schedules=(day(floor=4),)), START - 90 * SECOND, None, begun, None).leads


def test_a_reconciliation_remembers_the_crowd_that_it_saw_and_one_that_saw_none_keeps_it():
    situation = spec(schedules=(day(floor=4),))
    observation = replace(queued(0, current=2), crowd=crowd())
    decision = decide(situation, observation, None, Memory(), START - HOUR)
    memory = Memory().after(decision, Withheld(), situation, observation)

    assert crowd() == memory.crowd == memory.crowd_after(replace(observation, crowd=None))
    assert memory.crowd_after(replace(observation, crowd=crowd(objects=1))) is None


def test_a_lead_names_its_crowd():
    """100 s are 60 s for a pod, 15 s for a period and 25 s for the crowd."""
    situation = spec(schedules=(day(floor=4),))

    floor = resolve(situation, START - 90 * SECOND, None, (), crowd()).proposals[0]

    text = (
        "100 s ahead of its start at 2026-11-23T08:00:00Z (+25 s: 1,000 pods of 500 objects start then, 2,400 a minute)"
    )
    assert text == proposal_reason(floor)
