"""cronhpa.core.placeholders: the pods of the next rise, from a node's start-up before it until they are there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import at, behavior, event, queued, rules, schedule, situations, spec
from cronhpa.core import placeholders as placeholders_module
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Withheld
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Scale
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import Record
from cronhpa.core.model.spec import ForecastSettings, Mode, Placeholders, SelectPolicy
from cronhpa.core.placeholders import pods_at_once, pods_to_come, shares
from cronhpa.core.schedules.bounds import resolve_anew

ROOM = Placeholders(max_replicas=50, node_start_up=5 * MINUTE)
NOTHING = Memory()


def day(**fields):
    """20 pods from 08:00 on, with a lead of a minute."""
    return schedule("day", "0 8 * * *", "0 18 * * *", **{"floor": 20, "lead": MINUTE, **fields})


def sale(**fields):
    """An event of the evening that asks for room."""
    return schedule("Event/sale", "0 20 * * *", "0 21 * * *", **{"floor": 30, "placeholders": ROOM, **fields})


def decided(of, clock, current=2, memory=NOTHING, forecast=None):
    """The reconciliation at an instant."""
    observation = queued(10 * current, current=current)
    decision = decide(of, observation, forecast, memory, at(clock))
    after = memory.after(decision, Withheld(), of, observation)
    record = Record(of, observation, forecast, memory, at(clock))
    return Reconciliation(record, decision, after, 1, forecast=forecast)


def missing(clock, replicas=2, of=None, **fields):
    of = of or spec(schedules=(day(),), placeholders=ROOM)
    return pods_to_come(decided(of, clock, current=max(replicas, 1), **fields), replicas, at(clock))


def test_they_come_a_nodes_start_up_before_the_lead_and_go_as_the_pods_come():
    """20 count from 07:59 on; 5 minutes before that 18 are missing beside 2, and none once 20 are there."""
    assert 0 == missing("07:53:59")
    assert 18 == missing("07:54")
    assert 18 == missing("07:59:30")
    assert 8 == missing("07:59:30", replicas=12)
    assert 0 == missing("07:59:30", replicas=20)
    assert 0 == missing("12:00")


def test_a_target_that_does_not_follow_holds_no_nodes_for_the_whole_window():
    """Two pods all day: the rise at 07:59 counts until 08:04, as long after it as before it."""
    assert 18 == missing("08:03:59")
    assert 0 == missing("08:04")


def test_a_long_lead_keeps_them_until_the_start():
    """A lead of an hour, for pods that start one by one: from 06:55 until 08:00."""
    slow = spec(schedules=(day(lead=HOUR),), placeholders=ROOM)

    assert 18 == missing("06:55", of=slow)
    assert 10 == missing("07:59", replicas=10, of=slow)
    assert 0 == missing("08:00", replicas=10, of=slow)


def test_a_window_that_is_shorter_than_a_nodes_start_up_is_not_missed():
    """Two minutes long: 07:59 until 08:02. At 07:58 the floor five minutes later is 2 again."""
    short = spec(schedules=(event("flash", "2026-11-23T08:00", "2026-11-23T08:02", floor=9),), placeholders=ROOM)

    assert 7 == missing("07:58", of=short)
    assert 0 == missing("08:02", of=short)


def test_there_are_no_more_than_the_object_allows():
    few = spec(schedules=(day(),), placeholders=replace(ROOM, max_replicas=3))

    assert 3 == missing("07:58", of=few)


def test_the_settings_ask_for_objects_that_state_nothing():
    """3 by the settings; 50 and none as the object states; an event asks for more, or for less."""
    usual = spec(schedules=(day(),), usual_placeholders=replace(ROOM, max_replicas=3))
    event_of = {count: day(placeholders=replace(ROOM, max_replicas=count)) for count in (2, 9)}

    assert 3 == missing("07:58", of=usual)
    assert 18 == missing("07:58", of=replace(usual, placeholders=ROOM))
    assert 0 == missing("07:58", of=replace(usual, placeholders=replace(ROOM, max_replicas=0)))
    assert 9 == missing("07:58", of=replace(usual, schedules=(event_of[9],)))
    assert 3 == missing("07:58", of=replace(usual, schedules=(event_of[2],)))
    assert 0 == missing("07:58", of=spec(schedules=(event_of[9],), placeholders=replace(ROOM, max_replicas=0)))


@pytest.mark.parametrize(
    "of",
    [
        spec(schedules=(day(),)),
        spec(schedules=(day(),), placeholders=ROOM, mode=Mode.PREVIEW),
        spec(schedules=(day(suspend=True),), placeholders=ROOM),
        spec(maximum=20, placeholders=ROOM),
        # Those of an event that is suspended, or cannot be read, are not the day's.
        spec(schedules=(day(), sale(suspend=True))),
        spec(schedules=(day(), sale(problem="no such calendar"))),
        spec(schedules=(day(), sale(suspend=True), replace(sale(), name="Event/other"))),
    ],
)
def test_where_no_pod_will_be_added_there_is_none(of):
    assert 0 == missing("07:58", of=of)


def at_once(clock, replicas=2, of=None, memory=NOTHING, **fields):
    of = of or spec(schedules=(day(),), placeholders=ROOM, behavior=FAST)
    return pods_at_once(decided(of, clock, current=replicas, memory=memory, **fields), memory, replicas, at(clock))


FAST = behavior(up=rules(("Pods", 100, 15)))


def test_the_room_of_a_rise_is_free_ten_seconds_before_it_until_its_pods_are_there():
    assert 0 == at_once("07:58:49")
    assert 18 == at_once("07:58:50")
    assert 18 == at_once("08:30")  # a step that was delayed: nothing comes back
    assert 8 == at_once("07:59", replicas=12)
    assert 0 == at_once("07:59", replicas=20)


def test_a_rise_in_steps_frees_the_room_of_the_next_one():
    """Two pods a minute; the first two came at 07:59, so that the next may come at 08:00. Without rules: doubled."""
    slow = spec(schedules=(day(),), placeholders=ROOM, behavior=behavior(up=rules(("Pods", 2, 60))))
    after_a_step = NOTHING.scaled(2, 4, at("07:59"), slow.behavior)

    assert 2 == at_once("07:58:50", of=slow)
    assert 0 == at_once("07:59:49", replicas=4, of=slow, memory=after_a_step)
    assert 2 == at_once("07:59:50", replicas=4, of=slow, memory=after_a_step)
    assert 4 == at_once("07:59", replicas=4, of=replace(slow, behavior=None))


def test_the_room_of_a_later_rise_is_kept():
    """9 pods from 07:57 on, 20 from 07:59 on."""
    of = spec(schedules=(day(floor=9, lead=3 * MINUTE), replace(day(), name="more")), placeholders=ROOM, behavior=FAST)

    assert (18, 7) == (missing("07:56:55", of=of), at_once("07:56:55", of=of))
    assert (11, 0) == (missing("07:57:05", replicas=9, of=of), at_once("07:57:05", replicas=9, of=of))


def test_a_scale_up_that_is_disabled_for_metrics_has_room_for_what_a_schedule_asks_for():
    disabled = behavior(up=rules(("Pods", 1, 60), select=SelectPolicy.DISABLED))
    of = spec(schedules=(day(),), placeholders=ROOM, behavior=disabled)

    assert 20 == decided(of, "07:59").decision.desired
    assert (18, 18) == (missing("07:58:55", of=of), at_once("07:58:55", of=of))


@given(situations(timed=True), st.integers(0, 10), st.integers(0, 60))
def test_whatever_a_schedule_adds_finds_its_room_free_up_to_ten_seconds_before(situation, seconds, replicas):
    any_spec, observation, _, before, now = situation
    of = replace(any_spec, metrics=(), forecast=None, fallback=None)
    seen = replace(observation, scale=Scale(replicas, replicas, "1"), readings=())
    decision = decide(of, seen, None, before, now)

    earlier = now - seconds * SECOND
    latest = Reconciliation(Record(of, seen, None, before, earlier), decision, before, 1)
    assert decision.desired <= replicas + pods_at_once(latest, before, replicas, earlier)


def test_a_target_of_another_owner_has_none():
    latest = decided(spec(schedules=(day(),), placeholders=ROOM), "07:58")

    assert 18 == pods_to_come(latest, 2, at("07:58"))
    assert 0 == pods_to_come(replace(latest, owner_problem="HPA shop scales it"), 2, at("07:58"))
    assert 0 == pods_to_come(replace(latest, contested="argocd"), 2, at("07:58"))


def test_a_zero_of_a_person_stays_empty_and_one_of_ours_does_not():
    of = spec(minimum=0, schedules=(day(),), placeholders=ROOM)

    def at_zero(memory):
        observation = queued(0, current=0)
        decision = decide(of, observation, None, memory, at("07:55"))
        latest = Reconciliation(Record(of, observation, None, memory, at("07:55")), decision, memory, 1)
        return pods_to_come(latest, 0, at("07:55"))

    assert 0 == at_zero(Memory(zero=False))
    assert 20 == at_zero(Memory(zero=True))


def test_a_forecast_is_a_rise_too():
    """
    400 are expected from 10:10 on: 40 pods of 10 each. They count from the lead before it, 10:09 on, and have their
    placeholders from five minutes before that.
    """
    of = spec(forecast=ForecastSettings(), placeholders=ROOM)
    load = (20.0, 20.0, 400.0, 400.0, 400.0, 400.0)
    forecast = Forecast("queue", at("09:59"), at("10:00"), 5 * MINUTE, load, 1000.0, "Clock", 90, at("09:59"))
    of_start_up = Memory(start_up=45 * SECOND)  # a lead of a minute

    def coming(clock):
        return missing(clock, of=of, forecast=forecast, memory=of_start_up)

    assert 0 == coming("10:03:59")
    assert 38 == coming("10:04")
    fast = replace(of, behavior=FAST)
    assert 0 == at_once("10:08:49", of=fast, forecast=forecast, memory=of_start_up)
    assert 38 == at_once("10:08:50", of=fast, forecast=forecast, memory=of_start_up)
    shown = spec(forecast=ForecastSettings(mode=Mode.PREVIEW), placeholders=ROOM)
    assert 0 == missing("10:04", of=shown, forecast=forecast, memory=of_start_up)


def test_a_namespace_that_asks_for_everything_leaves_others_their_share():
    """Of 100, two quiet namespaces get all they ask for; the greedy one the rest, in equal parts of its objects."""
    asked = {("a-greedy", "1"): 10_000, ("a-greedy", "2"): 10_000, ("quiet", "shop"): 30, ("silent", "shop"): 9}

    assert {("a-greedy", "1"): 30, ("a-greedy", "2"): 31, ("quiet", "shop"): 30, ("silent", "shop"): 9} == shares(
        asked, 100
    )
    assert asked == shares(asked, 20_039)
    many = {("greedy", str(number)): 1 for number in range(500)}
    assert 5 == shares({**many, ("quiet", "shop"): 5}, 100)["quiet", "shop"]


keys = st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"))


@given(st.dictionaries(keys, st.integers(1, 60)), st.integers(1, 100))
def test_shares_are_within_the_limit_and_use_all_of_it(asked, most):
    given_ = shares(asked, most)

    assert all(0 < given_[key] <= asked[key] for key in given_)
    assert sum(given_.values()) == min(most, sum(asked.values()))


@given(situations(timed=True), st.lists(st.integers(0, 4 * 3600), min_size=2, max_size=6), st.integers(1, 60))
def test_what_is_kept_of_a_look_changes_no_later_one(situation, seconds, minutes):
    """At rising instants, with one spec and with a fresh one for each of them."""
    any_spec, observation, _, before, now = situation
    of = replace(any_spec, placeholders=Placeholders(200, minutes * MINUTE))

    def count(spec_, later):
        decision = decide(spec_, observation, None, before, now)
        memory = before.after(decision, Withheld(), spec_, observation)
        return pods_to_come(
            Reconciliation(Record(spec_, observation, None, before, now), decision, memory, 1), 0, later
        )

    for later in sorted(seconds):
        assert count(replace(of), now + later * SECOND) == count(of, now + later * SECOND)


def test_a_schedule_of_every_other_minute_is_resolved_anew_once_a_minute(monkeypatch):
    """
    Within a node's start-up of an hour it has 60 edges, of which the first 16 count. Found: they were resolved each
    second, 15 ms for an object of 50 schedules.
    """
    resolved = []

    def counted(*given_):
        resolved.append(given_)
        return resolve_anew(*given_)

    monkeypatch.setattr(placeholders_module, "resolve_anew", counted)
    often = schedule("often", "*/2 * * * *", duration=MINUTE, floor=9)
    latest = decided(spec(schedules=(often,), placeholders=replace(ROOM, node_start_up=HOUR)), "07:59:58", current=2)

    missing_at = [pods_to_come(latest, 2, at("07:59:59") + second * SECOND) for second in range(-1, 59)]

    assert [7] * 60 == missing_at
    # Once before 08:00 and once after it: 32. Each second from then on whether the floor rose within an hour: 59.
    assert len(resolved) <= 2 * 16 + 59


@given(situations(), st.integers(0, 60), st.integers(1, 40), st.integers(1, 60))
def test_together_with_the_pods_they_are_never_above_the_highest_floor_to_come(situation, replicas, most, minutes):
    """Never negative, never above the limit; each pod that is added takes the place of one."""
    any_spec, observation, _, before, now = situation
    of = replace(any_spec, placeholders=Placeholders(most, minutes * MINUTE))
    decision = decide(of, observation, None, before, now)
    memory = before.after(decision, Withheld(), of, observation)
    latest = Reconciliation(Record(of, observation, None, before, now), decision, memory, 1)

    count = pods_to_come(latest, replicas, now)

    assert 0 <= count <= most
    fewer = pods_to_come(latest, replicas + 1, now)
    assert count - 1 <= fewer <= count
    if count:
        instants = range(now, now + minutes * MINUTE + 1, 15 * SECOND)
        to_come = [resolve_anew(of, at, memory.start_up, memory.leads, memory.crowd).minimum for at in instants]
        assert replicas + count <= max(to_come)
