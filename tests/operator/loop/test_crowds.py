"""Objects that start together are counted, and the crowds of before are measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lives import Life, cronhpa, deployment, timeline, until
from model_api import ModelApi
from msgspec.structs import replace
from virtual_time import live

from core.situations import NOW, pod, schedule, spec
from cronhpa.core.model.decision import Decision, DecisionKind, Window, WindowState
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import POD_RATE_UNKNOWN, Crowd
from cronhpa.operator.loop.crowds import Crowds

START = NOW + 30 * MINUTE
LATER = NOW + 2 * MINUTE
DAY = spec(schedules=(schedule("day", "30 10 * * *", "0 18 * * *", floor=4),))


def decided(state=WindowState.CLOSED, *, start=START, instant=NOW, current=2, desired=2):
    window = Window("day", state, start)
    return Decision(
        at=instant,
        kind=DecisionKind.COMPUTED,
        current=current,
        desired=desired,
        minimum=2,
        maximum=10,
        windows=(window,),
    )


def fleet(objects, crowds=None, **fields):
    """Objects that add 2 pods each at START."""
    crowds = crowds or Crowds()
    for number in range(objects):
        crowds.note_decision(("prod", f"app-{number}"), DAY, decided(**fields), Memory(), scales=False)
    return crowds


def started(crowds, objects, delay_s, start=START):
    """They ask for 2 pods each 30 s ahead. A pod alone takes 10 s, and the last pods are Ready `delay_s` later."""
    asked_at = start - 30 * SECOND
    for number in range(objects):
        key = ("prod", f"app-{number}")
        leads = decided(WindowState.LEADING, start=start, instant=asked_at, desired=4)
        crowds.note_decision(key, DAY, leads, Memory(start_up=10 * SECOND), scales=True)
    for number in range(objects):
        delay = delay_s * (number + 1) // objects
        ready = asked_at + (9 + delay) * SECOND
        pods = [replace(pod(f"new-{index}"), created=asked_at, ready_since=ready) for index in range(2)]
        crowds.note_pods(("prod", f"app-{number}"), pods, start + MINUTE)


def test_the_pods_of_all_objects_that_start_together_are_one_crowd():
    crowds = fleet(100)

    assert Crowd(START, 200, 100, POD_RATE_UNKNOWN) == crowds.crowd_of(("prod", "app-7"), LATER)


def test_floors_in_percent_are_in_the_crowd_as_the_counts_that_they_come_to():
    """200 % of the 2 of the spec are 4: 2 more for each of 50 objects."""
    crowds = Crowds()
    twice = spec(schedules=(replace(DAY.schedules[0], floor=None, floor_percent=200),))
    for number in range(50):
        crowds.note_decision(("prod", f"app-{number}"), twice, decided(), Memory(), scales=False)

    assert 100 == crowds.crowd_of(("prod", "app-0"), LATER).pods


def test_an_object_alone_and_one_without_schedules_delay_nothing():
    crowds = fleet(1)
    crowds.note_decision(("prod", "plain"), spec(), replace(decided(), windows=()), Memory(), scales=False)

    assert 0 == crowds.crowd_of(("prod", "app-0"), LATER).delay(START)
    assert crowds.crowd_of(("prod", "plain"), LATER) is None


def test_a_new_process_believes_the_remembered_crowds_until_all_objects_were_decided():
    crowds = fleet(100)

    assert crowds.crowd_of(("prod", "app-7"), NOW + MINUTE - 1) is None
    assert crowds.crowd_of(("prod", "app-7"), NOW + MINUTE) is not None


def test_a_clock_that_is_set_back_makes_no_new_process():
    """Found: for the hours by which it was set back no start had a crowd."""
    assert fleet(100).crowd_of(("prod", "app-7"), NOW - 3 * HOUR) is not None


def test_from_its_start_on_a_crowd_is_as_it_was_remembered():
    """Objects leave it one by one then: each would have another crowd, and compute its bounds anew at the edge."""
    crowds = fleet(100)

    assert crowds.crowd_of(("prod", "app-7"), START - 1) is not None
    assert crowds.crowd_of(("prod", "app-7"), START) is None


def test_a_start_further_away_than_a_day_has_no_crowd_yet():
    """Whoever comes or goes meanwhile would change what is written to a thousand statuses."""
    a_day_before = START - 24 * 60 * MINUTE
    crowds = fleet(1000, instant=a_day_before - MINUTE)

    assert crowds.crowd_of(("prod", "app-0"), a_day_before - 1) is None
    assert 1000 == crowds.crowd_of(("prod", "app-0"), a_day_before).objects


def test_whoever_is_deleted_or_starts_at_another_time_leaves_the_crowd():
    crowds = fleet(100)
    crowds.forget(("prod", "app-0"))
    crowds.note_decision(("prod", "app-1"), DAY, decided(start=START + MINUTE), Memory(), scales=False)

    assert (196, 98) == (
        crowds.crowd_of(("prod", "app-7"), LATER).pods,
        crowds.crowd_of(("prod", "app-7"), LATER).objects,
    )
    assert (2, 1) == (crowds.crowd_of(("prod", "app-1"), LATER).pods, crowds.crowd_of(("prod", "app-1"), LATER).objects)


def test_a_crowd_stays_the_same_while_its_delay_does():
    """200 and 202 pods at 20 a second: 10 s, and 10.1 s, which is 15 s; 202 and 204 are the same crowd."""
    crowds = fleet(101)
    before = crowds.crowd_of(("prod", "app-7"), LATER)
    fleet(102, crowds)

    assert 15 * SECOND == before.delay(START)
    assert crowds.crowd_of(("prod", "app-7"), LATER) is before


def test_the_rate_of_a_crowd_is_that_of_its_first_nine_tenths():
    """180 of 200 pods were Ready 18 s after a pod alone would have been: 10 a second."""
    crowds = fleet(100)
    started(crowds, 100, 20)

    assert 600 == crowds.pods_per_minute


def test_the_steps_that_the_policies_allow_are_not_the_crowds():
    """
    From 2 to 10 by the default policies: 4, 8 and 10 at 0, 15 and 30 s, which a lead has already. 800 pods in all; the
    last of 90 % are Ready 18 s after those of an object alone would be: 720 pods in 18 s are 2,400 a minute.
    """
    crowds = fleet(100)
    asked_at = START - MINUTE
    rise = spec(schedules=(schedule("day", "30 10 * * *", "0 18 * * *", floor=10),))
    for number in range(100):
        leads = replace(decided(WindowState.LEADING, instant=asked_at, desired=4), minimum=10)
        crowds.note_decision(("prod", f"app-{number}"), rise, leads, Memory(start_up=10 * SECOND), scales=True)
    for number in range(100):
        ready = asked_at + (30 + 9 + 20 * (number + 1) // 100) * SECOND
        pods = [replace(pod(f"new-{index}"), created=asked_at, ready_since=ready) for index in range(8)]
        crowds.note_pods(("prod", f"app-{number}"), pods, START + MINUTE)

    assert 2400 == crowds.pods_per_minute


def test_a_tenth_that_is_never_ready_changes_nothing():
    crowds = fleet(100)
    started(crowds, 100, 20)
    slow = fleet(100)
    for number in range(90, 100):
        leads = decided(WindowState.LEADING, instant=START - 30 * SECOND, desired=4)
        slow.note_decision(("prod", f"app-{number}"), DAY, leads, Memory(), scales=True)
    started(slow, 90, 18)

    assert 600 == crowds.pods_per_minute == slow.pods_per_minute


def test_a_crowd_of_less_than_half_the_size_says_nothing_about_a_large_one():
    crowds = fleet(100)
    started(crowds, 100, 20)
    fleet(40, crowds, start=START + 60 * MINUTE)
    started(crowds, 40, 5, start=START + 60 * MINUTE)

    assert 600 == crowds.pods_per_minute


def test_after_a_restart_the_median_of_the_remembered_rates_counts():
    """One object of a tenant who wrote its own status does not."""
    crowds = Crowds()
    for rate in (600, 600, 600, 1):
        crowds.remember(Memory(crowd=Crowd(START, 200, 100, rate)))

    assert 600 == crowds.pods_per_minute


def test_a_thousand_remembered_rates_are_kept_until_a_crowd_is_measured():
    """A replica reads those of all objects again at each of its terms."""
    crowds = fleet(100)
    for rate in [900] * 1000 + [1] * 5000:
        crowds.remember(Memory(crowd=Crowd(START, 200, 100, rate)))
    before = crowds.pods_per_minute
    started(crowds, 100, 20)

    assert (900, 600) == (before, crowds.pods_per_minute)


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 10**6))
def test_no_crowd_delays_by_more_than_two_minutes_and_none_at_another_start(pods, objects, rate):
    crowd = Crowd(START, pods, objects, rate)

    assert 0 <= crowd.delay(START) <= 2 * MINUTE
    assert 0 == crowd.delay(START + 1)


@pytest.mark.parametrize("objects", [1, 60])
def test_objects_that_start_together_ask_earlier_by_what_their_crowd_takes(objects):
    """
    60 objects of 2 more pods: 120 at 20 a second are 6 s, which is 10 s in steps of 5 s. Pods take 39 s, 40 at most; a
    period of 15 s. One object alone asks 55 s ahead of 7:10:00.
    """

    async def scenario():
        api = ModelApi()
        api.start_up = 39.0
        for number in range(objects):
            deployment(api, name=f"shop-{number}", replicas=1)
            day = {"name": "day", "start": "10 7 * * *", "end": "0 18 * * *", "minReplicas": 3}
            cronhpa(api, name=f"shop-{number}", metrics=None, maxReplicas=50, schedules=[day])
        async with Life(api):
            await until(547)
        return {second for number in range(objects) for second, _, _ in timeline(api, f"prod/shop-{number}")}

    assert live(scenario) == {1: {545}, 60: {535}}[objects]


def test_an_object_whose_decision_stands_asks_earlier_once_others_join_its_start():
    """
    Ten objects from the beginning, 20 pods: each would ask 55 s ahead. Fifty more come two minutes before the start:
    all ask 65 s ahead, as if they had been there before.

    Found: the decisions of the ten stood, for up to five minutes, by the crowd that they were made with.
    """

    async def scenario():
        api = ModelApi()
        api.start_up = 39.0
        day = {"name": "day", "start": "10 7 * * *", "end": "0 18 * * *", "minReplicas": 3}
        for number in range(60):
            deployment(api, name=f"shop-{number}", replicas=1)
            if number < 10:
                cronhpa(api, name=f"shop-{number}", metrics=None, maxReplicas=50, schedules=[day])
        async with Life(api, check_standing=False):
            await until(480)
            for number in range(10, 60):
                cronhpa(api, name=f"shop-{number}", metrics=None, maxReplicas=50, schedules=[day])
            await until(547)
        return {second for number in range(10) for second, _, _ in timeline(api, f"prod/shop-{number}")}

    assert {535} == live(scenario)
