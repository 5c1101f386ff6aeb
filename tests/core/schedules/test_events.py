"""core/schedules/events.py and bounds in percent: planned events are schedules of the objects that they pick."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from cronhpa.core.model.instant import HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
from cronhpa.core.model.spec import CronWindow, OnceWindow, Override, Schedule, Spec, TargetRef
from cronhpa.core.schedules import windows
from cronhpa.core.schedules.bounds import resolve, resolve_anew
from cronhpa.core.schedules.events import (
    MAX_EVENT_SCHEDULES,
    asked_of,
    closes_at,
    opened_at,
    phase,
    schedule_name,
    starts,
    taken_over,
    with_events,
)
from cronhpa.core.schedules.ranks import settled_at

NOON = parse_instant("2026-11-27T12:00:00Z")
ALL_DAY = OnceWindow("2026-11-27T00:00", "2026-11-28T00:00", "UTC")
EVENING = OnceWindow("2026-11-27T18:00", "2026-11-27T20:00", "UTC")
SHOP = Spec(TargetRef("apps/v1", "Deployment", "shop"), min_replicas=4, max_replicas=20, namespace="prod")


def sale(*schedules, name="sale", namespace="prod", **fields):
    stated = tuple(one if isinstance(one, EventSchedule) else EventSchedule(one) for one in schedules)
    return PlannedEvent(name, namespace, schedules=stated, **fields)


def during(window=ALL_DAY, **bounds):
    return Schedule("doors", window, **bounds)


def at(spec, now=NOON, **inputs):
    bounds = resolve(spec, now, **inputs)
    return bounds.minimum, bounds.maximum


def test_without_an_event_the_spec_is_the_same_one():
    assert with_events(SHOP, []) is SHOP


def test_a_schedule_of_an_event_acts_as_if_it_were_written_in_the_object():
    spec = with_events(SHOP, [sale(during(floor=12))])

    bounds = resolve(spec, NOON)

    assert (12, "Event/sale") == (bounds.minimum, str(bounds.minimum_by))
    assert ["Event/sale"] == [window.name for window in bounds.windows]


def test_an_event_with_several_schedules_names_each():
    spec = with_events(SHOP, [sale(during(floor=12), replace(during(floor=8), name="night"))])

    assert ["Event/sale/doors", "Event/sale/night"] == [schedule.name for schedule in spec.schedules]


def test_a_cluster_event_of_the_same_name_is_told_from_that_of_the_namespace_and_comes_first():
    spec = with_events(SHOP, [sale(during(floor=12)), sale(during(floor=9), namespace="")])

    assert ["Event/cluster:sale", "Event/sale"] == [schedule.name for schedule in spec.schedules]


def test_the_objects_maximum_stays_a_cap():
    assert (20, 20) == at(with_events(SHOP, [sale(during(floor=50))]))
    assert (20, 20) == at(with_events(SHOP, [sale(during(floor_percent=1000))]))


def test_a_window_of_the_object_that_raises_its_maximum_makes_room_for_the_event():
    """20 by the spec, 30 by the window: of the 50 that are asked for, 30 come, and 20 are missing."""
    wide = replace(SHOP, schedules=(Schedule("wide", ALL_DAY, cap=30),))
    event = sale(during(floor=50))

    assert (30, 30) == at(with_events(wide, [event]))
    assert 20 == asked_of(event, with_events(wide, [event]), NOON, lambda *_: None).short


def test_a_cap_of_a_lower_rank_keeps_nothing_from_the_event():
    """A recurring window caps at 5, which a planned event outranks: its 12 come."""
    daily = CronWindow("0 0 * * *", "UTC", duration=23 * HOUR)
    night = replace(SHOP, schedules=(Schedule("night", daily, cap=5),))
    event = sale(during(floor=12))

    assert (12, 12) == at(with_events(night, [event]))
    assert 0 == asked_of(event, with_events(night, [event]), NOON, lambda *_: None).short


def test_a_floor_in_percent_refers_to_the_counts_of_other_events_too():
    """One event asks for 8, the other for twice what the others ask: 16."""
    events = [sale(during(floor=8), name="a"), sale(during(floor_percent=200), name="b")]

    assert 16 == at(with_events(SHOP, events))[0]


def test_a_plan_is_for_the_next_start_of_each_window():
    event = sale(during(EVENING, floor=9), replace(during(floor=5), name="day"), replace(during(EVENING), name="too"))

    day, evening = (parse_instant(f"2026-11-27T{hour}:00:00Z") for hour in ("00", "18"))

    assert (day, evening) == starts(event, day - HOUR)
    assert (NOON, evening) == starts(event, NOON)
    assert () == starts(event, NOON + 24 * HOUR)


def test_an_event_that_states_a_maximum_raises_it():
    assert (50, 60) == at(with_events(SHOP, [sale(during(floor=50, cap=60))]))
    assert (4, 40) == at(with_events(SHOP, [sale(during(cap_percent=200))]))


def test_a_floor_in_percent_is_that_of_the_others_rounded_up():
    """4 by the spec: 150 % are 6. 5 by a window of its own: 150 % are 7.5, which is 8."""
    event = sale(during(floor_percent=150))
    office = replace(SHOP, schedules=(Schedule("office", ALL_DAY, floor=5),))

    assert 6 == at(with_events(SHOP, [event]))[0]
    assert 8 == at(with_events(office, [event]))[0]


def test_events_in_percent_do_not_add_up():
    """150 % and 200 % of 4: 8, and not 12."""
    events = [sale(during(floor_percent=150)), sale(during(floor_percent=200), name="other")]

    assert 8 == at(with_events(SHOP, events))[0]


def test_an_override_is_among_the_others_and_outranks_the_event():
    by_hand = replace(SHOP, override=Override(until=NOON + HOUR, reason="test", floor=10))

    assert 10 == at(with_events(by_hand, [sale(during(floor_percent=150))]))[0]


def test_a_floor_in_percent_leads_to_the_bounds_at_its_start():
    """At 18:00 a window of its own states 6, so 150 % are 9, which are asked for a start-up and a period before."""
    own = Schedule("evening", EVENING, floor=6, lead=0)
    spec = with_events(replace(SHOP, schedules=(own,)), [sale(during(EVENING, floor_percent=150))])
    start = parse_instant("2026-11-27T18:00:00Z")

    before = at(spec, start - 2 * MINUTE, start_up=60 * SECOND)
    leading = at(spec, start - 1 * MINUTE, start_up=60 * SECOND)

    assert (4, 9, 9) == (before[0], leading[0], at(spec, start)[0])


def test_a_suspended_event_holds_for_nobody():
    assert (4, 20) == at(with_events(SHOP, [sale(during(floor=12), suspend=True)]))


def test_a_suspended_event_is_short_of_nothing():
    """It asks for 50 where 20 is the maximum: short of 30, unless it is suspended."""
    running, suspended = (sale(during(floor=50), suspend=suspend) for suspend in (False, True))

    short = [asked_of(one, with_events(SHOP, [one]), NOON, lambda *_: None).short for one in (running, suspended)]

    assert [30, 0] == short


def test_a_load_asks_for_its_pods_and_at_least_for_the_stated_floor():
    stated = EventSchedule(during(floor=6), expected_load_percent=250)

    assert 6 == at(with_events(SHOP, [sale(stated)]))[0]
    assert 15 == at(with_events(SHOP, [sale(stated)], lambda *_: 15))[0]
    assert 6 == at(with_events(SHOP, [sale(stated)], lambda *_: 2))[0]


def test_a_load_that_was_not_read_yet_asks_for_the_stated_floor_and_scales_nothing_down():
    """What cannot be read blocks a scale-down, as an unreadable schedule of the object does."""
    stated = EventSchedule(during(floor=6), expected_load_percent=250)

    bounds = resolve(with_events(SHOP, [sale(stated)], lambda *_: Absent("NotRead", "not read yet")), NOON)

    assert (6, "Event/sale#usual-load") == (bounds.minimum, str(bounds.unreadable))


def test_what_is_told_of_a_load_never_has_the_name_of_a_schedule():
    """A status with two rows of one name is refused by the API server."""
    names = ("a", "a/usual-load", "usual-load", "usual-load/a", "#usual-load", "a#usual-load")
    stated = [EventSchedule(replace(during(), name=name), expected_load_percent=250) for name in names]
    cluster_events = [sale(stated[0], name=name, namespace="") for name in ("sale", "usual-load")]

    of = with_events(
        SHOP,
        [sale(*stated), sale(stated[0], name="cluster"), *cluster_events],
        lambda *_: Absent("NotRead", "not read yet"),
    )

    assert 2 * (len(names) + 3) == len(of.schedules) == len({one.name for one in of.schedules})


@pytest.mark.parametrize("window", [CronWindow("0 22 * * *", "UTC", end="0 6 * * *"), ALL_DAY, EVENING])
def test_an_occurrence_is_the_same_before_its_start_and_while_it_is_open(window):
    start, end = windows.occurrence(window, NOON - 12 * HOUR - 1) or (0, 0)

    assert start < end
    for at in (start, start + HOUR, end - 1):
        assert (start, end) == windows.occurrence(window, at)


def test_an_object_takes_over_a_limited_number_and_cluster_events_are_not_displaced():
    mine = [sale(during(floor=5), name=f"event-{number:03}") for number in range(MAX_EVENT_SCHEDULES + 10)]

    taken = taken_over([*mine, sale(during(floor=9), name="zz", namespace="")], NOON)

    assert MAX_EVENT_SCHEDULES == len(taken)
    assert "zz" == taken[0].name


def test_an_event_is_taken_over_as_a_whole_or_not_at_all():
    """30 and 30 schedules do not both have room, 20 more have."""
    events = [
        sale(*(replace(during(floor=5), name=f"s{number}") for number in range(count)), name=name)
        for name, count in (("a", 30), ("b", 30), ("c", 20))
    ]

    assert ["a", "c"] == [event.name for event in taken_over(events, NOON)]


def test_events_that_are_over_displace_none_that_come():
    """Nobody deletes them: after a year they are many, and their names may come first."""
    past = OnceWindow("2025-11-27T00:00", "2025-11-28T00:00", "UTC")
    events = [sale(during(past, floor=5), name=f"2025-{number:03}") for number in range(MAX_EVENT_SCHEDULES)]

    assert "2026" == taken_over([*events, sale(during(floor=9), name="2026")], NOON)[0].name


def test_a_schedule_is_no_other_source_to_itself():
    """150 % of the 4 that the spec states are 6: the larger of the two is the schedule's own count, not 150 % of it."""
    by_load = EventSchedule(during(floor_percent=150), expected_load_percent=250)

    assert 8 == at(with_events(SHOP, [sale(during(floor=8, floor_percent=150))]))[0]
    assert 10 == at(with_events(SHOP, [sale(by_load)], lambda *_: 10))[0]
    assert 6 == at(with_events(SHOP, [sale(by_load)], lambda *_: 1))[0]
    assert 6 == at(with_events(SHOP, [sale(by_load)]))[0]


def test_the_schedules_of_an_event_are_no_other_sources_to_each_other():
    """250 % of the 4 that the spec states, and 15 in the evening: not 250 % of 15."""
    evening = replace(during(floor=15), name="evening")

    assert 15 == at(with_events(SHOP, [sale(during(floor_percent=250), evening)]))[0]


@pytest.mark.parametrize(("cap", "highest"), [(30, 30), (60, 40)])
def test_of_a_maximum_and_one_in_percent_the_smaller_one_holds(cap, highest):
    """200 % of 20 are 40."""
    assert highest == at(with_events(SHOP, [sale(during(cap=cap, cap_percent=200))]))[1]


@pytest.mark.parametrize(
    ("own", "stated", "load", "short"),
    [
        # 75 pods by load, 60 are the event's own maximum, 200 % of 20 are 40.
        ((), {"floor": 2, "cap": 60}, 75, 15),
        ((), {"floor": 2, "cap_percent": 200}, 75, 35),
        ((), {"floor_percent": 1500, "cap": 50}, None, 10),
        # A cap of higher priority in the object.
        ((Schedule("freeze", ALL_DAY, cap=6, priority=9),), {"floor": 12}, None, 6),
        # 300 % of the 8 that a window of the object states.
        ((Schedule("office", ALL_DAY, floor=8),), {"floor_percent": 300}, None, 4),
    ],
)
def test_what_any_upper_bound_keeps_from_an_event_is_told(own, stated, load, short):
    event = sale(EventSchedule(during(**stated), None if load is None else 250))
    spec = with_events(replace(SHOP, schedules=own), [event], lambda *_: load)

    assert short == asked_of(event, spec, NOON, lambda *_: load).short


def test_what_an_event_asks_for_in_percent_of_another_event_is_short_by_that_one_too():
    """The other event asks for 8 of 20, this one for 300 % of it, 24: short of 4."""
    events = [sale(during(floor=8), name="a"), sale(during(floor_percent=300), name="b")]

    assert 4 == asked_of(events[1], with_events(SHOP, events), NOON, lambda *_: None).short


def test_a_load_above_the_events_own_maximum_contradicts_nothing():
    event = sale(EventSchedule(during(floor=2, cap=60), 250))

    bounds = resolve(with_events(SHOP, [event], lambda *_: 75), NOON)

    assert (60, 60, "") == (bounds.minimum, bounds.maximum, bounds.conflict)


@pytest.mark.parametrize(("minimum", "is_nothing"), [(0, True), (1, False)])
def test_percent_of_nothing_is_told(minimum, is_nothing):
    event, shop = sale(during(floor_percent=300)), replace(SHOP, min_replicas=minimum)

    assert is_nothing is asked_of(event, with_events(shop, [event]), NOON, lambda *_: None).percent_of_nothing


some_windows = st.builds(
    lambda start, minutes: CronWindow(f"{start % 60} {start // 60 % 24} * * *", "UTC", duration=minutes * MINUTE),
    st.integers(0, 1439),
    st.integers(1, 1200),
)
percents = st.one_of(st.none(), st.integers(1, 400))
counts = st.one_of(st.none(), st.integers(0, 30))


@st.composite
def schedules(draw, name, relative):
    floor, cap = draw(counts), draw(counts)
    if floor is not None and cap is not None:
        floor, cap = sorted((floor, cap))
    stated = {"floor_percent": draw(percents), "cap_percent": draw(percents)} if relative else {}
    return Schedule(name, draw(some_windows), floor=floor, cap=cap, priority=draw(st.integers(-1, 1)), **stated)


@pytest.mark.parametrize("percent", [1, 50, 100, 150])
@given(own=st.lists(schedules("own", relative=False), max_size=2), now=st.integers(0, 1439))
def test_a_floor_in_percent_is_by_hand_what_the_others_settle_times_the_percentage(percent, own, now):
    named = tuple(replace(schedule, name=f"own-{index}") for index, schedule in enumerate(own))
    spec = replace(SHOP, schedules=named)
    now = NOON + now * MINUTE
    event = sale(Schedule("x", OnceWindow("2026-11-01T00:00", "2027-01-01T00:00", "UTC"), floor_percent=percent,
                          priority=5))  # fmt: skip

    others = settled_at(spec, now)
    by_hand = min((percent * others.minimum.number + 99) // 100, max(SHOP.max_replicas, others.maximum.number))

    assert by_hand == settled_at(with_events(spec, [event]), now).low.number


@given(
    own=st.lists(schedules("own", relative=False), max_size=2),
    of_events=st.lists(schedules("event", relative=True), min_size=1, max_size=3),
    minutes=st.integers(0, 1439),
)
def test_bounds_are_those_of_settled_at_where_nothing_leads_and_constant_up_to_the_next_edge(own, of_events, minutes):
    named = [replace(schedule, name=f"own-{index}", lead=0) for index, schedule in enumerate(own)]
    events = [sale(replace(one, lead=0), name=f"e{index}") for index, one in enumerate(of_events)]
    spec = with_events(replace(SHOP, schedules=tuple(named)), events)
    now = NOON + minutes * MINUTE

    bounds, settled = resolve_anew(spec, now, None, ()), settled_at(spec, now)

    assert (settled.minimum.number, settled.maximum.number) == (bounds.minimum, bounds.maximum)
    assert bounds.next_edge is not None
    last = resolve_anew(spec, bounds.next_edge.at - 1, None, ())
    assert (bounds.minimum, bounds.maximum) == (last.minimum, last.maximum)


@given(
    own=st.lists(schedules("own", relative=False), max_size=2),
    of_events=st.lists(schedules("event", relative=True), min_size=1, max_size=3),
    load=st.one_of(st.none(), st.integers(0, 100)),
    minutes=st.integers(0, 1439),
)
def test_the_count_of_an_event_and_what_it_is_short_of_are_its_wish_where_nothing_outranks_it(
    own, of_events, load, minutes
):
    named = [replace(schedule, name=f"own-{index}", priority=-1) for index, schedule in enumerate(own)]
    others = [sale(replace(one, priority=-1), name=f"e{index}") for index, one in enumerate(of_events)]
    event = sale(
        EventSchedule(during(OnceWindow("2026-11-01T00:00", "2027-01-01T00:00", "UTC"), floor=7, priority=5), 1)
    )
    spec = with_events(replace(SHOP, schedules=tuple(named)), [*others, event], lambda *_: load)
    now = NOON + minutes * MINUTE

    asked = asked_of(event, spec, now, lambda *_: load)

    assert max(7, load or 0) == asked.replicas + asked.short
    assert schedule_name(event, event.schedules[0].schedule) == settled_at(spec, now).low.by.name


@given(own=st.lists(some_windows, min_size=1, max_size=3), minutes=st.integers(0, 1439), later=st.integers(0, 3000))
def test_what_was_open_closed_when_no_window_was_open_any_more_minute_by_minute(own, minutes, later):
    """opened_at and closes_at against a walk through the minutes."""
    event = sale(*(replace(during(window, floor=3), name=f"w{index}") for index, window in enumerate(own)))
    at, now = NOON + minutes * MINUTE, NOON + (minutes + later) * MINUTE

    def is_open(instant):
        return any(windows.state(window, instant).is_open for window in own)

    assume(is_open(at))
    walked = next((instant for instant in range(at, now, MINUTE) if not is_open(instant)), now)

    assert walked == closes_at(event, at, now)
    opened = opened_at(event, at)
    assert opened <= at
    assert any(windows.state(window, opened).is_open for window in own)
    assert all(is_open(instant) for instant in range(opened, at, MINUTE))
    assert phase(event, at).is_open
