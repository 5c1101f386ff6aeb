"""Stabilization windows, rate policies and the way to bounds: `spec.behavior`, and its absence."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import NOW, behavior, joined, recommended, rises, rules
from cronhpa.core.behavior import (
    RAMP_MAX,
    Limits,
    approach,
    default_ramp,
    limit_down,
    limit_up,
    normalize,
    ramp,
    stabilize,
)
from cronhpa.core.model.decision import Recommendation, Rule, Step
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.memory import Memory, ScaleEvent
from cronhpa.core.model.spec import ControllerOptions, SelectPolicy

OPTIONS = ControllerOptions()


@pytest.fixture(autouse=True)
def nothing_worked_out_before():
    """A ramp that another test has asked for would be told from the cache, whatever the code says now."""
    default_ramp.cache_clear()


def metric_limits(minimum=1, maximum=1000):
    return Limits(minimum, maximum)


def timed(minimum=1, maximum=1000, floor=None, cap=None):
    return Limits(minimum, maximum, floor, cap, timed=True)


def normalized(number, current, limits, of, options, memory, now):
    """The count and the steps, without their causes, where the metrics ask for `number`."""
    count, steps = normalize(Recommendation(number, now, number), current, limits, of, options, memory)
    return count, tuple(replace(step, cause=None) for step in steps)


def stabilized(number, current, recommendations, of, options, now):
    return stabilize(Recommendation(number, now, number), current, recommendations, of, options)


def went(change, *, seconds_ago):
    return ScaleEvent(change, NOW - seconds_ago * SECOND)


# --- stabilization -----------------------------------------------------------------------------------------------


def test_scale_down_waits_for_the_highest_recent_recommendation():
    """Inside the 300 s window the highest recommendation wins (autoscaling/v2, scaleDown)."""
    memory = joined(recommended(8, "09:58"), recommended(5, "09:59"))

    number, steps = normalized(3, 8, metric_limits(), behavior(), OPTIONS, memory, NOW)

    assert 8 == number
    assert (Step(Rule.SCALE_DOWN_STABILIZED, 3, 8),) == steps


def test_scale_up_waits_for_the_lowest_recent_recommendation():
    """Up window 120 s: of 12 now and 6 a minute ago the 6 may be had."""
    up = rules(("Pods", 100, 15), window=120 * SECOND)

    number, steps = normalized(12, 4, metric_limits(), behavior(up=up), OPTIONS, recommended(6, "09:59"), NOW)

    assert 6 == number
    assert (Step(Rule.SCALE_UP_STABILIZED, 12, 6),) == steps


def test_a_recommendation_as_old_as_the_window_counts_without_a_behavior_and_not_with_one():
    """Upstream skips what is before now - window without a behavior, and takes what is after it with one."""
    memory = recommended(8, "09:55")

    assert 8 == stabilized(3, 8, memory.recommendations, None, OPTIONS, NOW)
    assert 3 == stabilized(3, 8, memory.recommendations, behavior(), OPTIONS, NOW)


def test_without_a_behavior_only_the_way_down_is_stabilized():
    memory = joined(recommended(5, "09:59"), recommended(20, "09:50"))

    assert 12 == stabilized(12, 5, memory.recommendations, None, OPTIONS, NOW)


def test_the_downscale_flag_counts_in_whole_seconds_where_a_behavior_leaves_its_window_open():
    """A flag of 1.5 s is 1 s with a behavior: a recommendation 1.2 s old is out of it, and inside without."""
    options = ControllerOptions(downscale_stabilization=1_500_000_000)
    memory = recommended(8, "09:59:58.800")

    assert 3 == stabilized(3, 8, memory.recommendations, behavior(), options, NOW)
    assert 8 == stabilized(3, 8, memory.recommendations, None, options, NOW)


def test_the_down_window_lowers_what_the_up_window_has_raised():
    """Current 6, now 4; up window: lowest of 4 and 5 = 4; down window: highest of 4 and 5 = 5; 6 is lowered to 5."""
    both = behavior(up=rules(("Pods", 4, 15), window=MINUTE), down=rules(("Percent", 100, 15), window=MINUTE))

    assert 5 == stabilized(4, 6, recommended(5, "09:59:30").recommendations, both, OPTIONS, NOW)


# --- policies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "current", "limit"),
    [
        (("Pods", 4, 15), 10, 14),
        (("Percent", 100, 15), 10, 20),
        (("Percent", 10, 15), 1, 2),  # 1.1 rounds up
        (("Percent", 10, 15), 50, 56),  # 50 * 1.1 = 55.00000000000001 in floats
        (("Percent", 10, 15), 100, 111),  # 100 * 1.1 = 110.00000000000001
        (("Percent", 2**31 - 1, 15), 2**31 - 1, 2**31 - 1),
        (("Pods", 2**31 - 1, 15), 5, 2**31 - 1),
    ],
)
def test_scale_up_policies_allow(policy, current, limit):
    assert limit == limit_up(behavior(up=rules(policy)), current, Memory(), NOW)


@pytest.mark.parametrize(
    ("policy", "current", "limit"),
    [
        (("Pods", 4, 15), 10, 6),
        (("Percent", 10, 15), 1, 0),
        (("Percent", 90, 15), 10, 0),  # 10 * (1 - 0.9) = 0.9999999999999998, truncated
        (("Percent", 80, 15), 10, 1),  # 10 * (1 - 0.8) = 1.9999999999999996
        (("Percent", 80, 15), 5, 0),  # 5 * (1 - 0.8) = 0.9999999999999998
    ],
)
def test_scale_down_policies_allow(policy, current, limit):
    assert limit == limit_down(behavior(down=rules(policy)), current, Memory(), NOW)


@pytest.mark.parametrize(
    ("select", "up", "down"), [(SelectPolicy.MAX, 20, 5), (SelectPolicy.MIN, 12, 8), (SelectPolicy.DISABLED, 10, 10)]
)
def test_of_several_policies_the_most_the_least_or_none_is_allowed(select, up, down):
    """From 10: up +2 pods = 12 or +100 % = 20; down -2 pods = 8 or -50 % = 5."""
    both = behavior(
        up=rules(("Pods", 2, 15), ("Percent", 100, 15), select=select),
        down=rules(("Pods", 2, 15), ("Percent", 50, 15), select=select),
    )

    assert (up, down) == (limit_up(both, 10, Memory(), NOW), limit_down(both, 10, Memory(), NOW))


def test_what_came_and_went_within_the_period_is_counted_from_its_beginning():
    """Now 10; 4 came 30 s ago and 1 went 40 s ago: it began at 10 - 4 + 1 = 7, so +4 is 11 and -4 is 3."""
    memory = Memory(scale_ups=(went(4, seconds_ago=30),), scale_downs=(went(1, seconds_ago=40),))
    both = behavior(up=rules(("Pods", 4, 60)), down=rules(("Pods", 4, 60)))

    assert 11 == limit_up(both, 10, memory, NOW)
    assert 3 == limit_down(both, 10, memory, NOW)


def test_an_event_as_old_as_the_period_counts_no_more():
    memory = Memory(scale_ups=(went(4, seconds_ago=60),))

    assert 14 == limit_up(behavior(up=rules(("Pods", 4, 60))), 10, memory, NOW)


def test_a_period_that_is_spent_does_not_force_the_other_direction():
    """8 came within the minute of a policy of 4: 18 - 8 + 4 = 14 is below the current 18, which stays."""
    memory = Memory(scale_ups=(went(8, seconds_ago=30),))

    number, steps = normalized(25, 18, metric_limits(), behavior(up=rules(("Pods", 4, 60))), OPTIONS, memory, NOW)

    assert 18 == number
    assert (Step(Rule.SCALE_UP_LIMIT, 25, 18),) == steps


def test_a_period_of_removals_that_is_spent_does_not_force_the_other_direction():
    """8 went within the minute of a policy of 4: 10 + 8 - 4 = 14 is above the current 10, which stays."""
    memory = Memory(scale_downs=(went(8, seconds_ago=30),))
    slow = behavior(down=rules(("Pods", 4, 60), window=0))

    number, steps = normalized(3, 10, metric_limits(), slow, OPTIONS, memory, NOW)

    assert 10 == number
    assert (Step(Rule.SCALE_DOWN_LIMIT, 3, 10),) == steps


def test_the_way_down_ends_at_the_rate_of_the_policies():
    """-4 of 10 is 6."""
    slow = behavior(down=rules(("Pods", 4, 60), window=0))

    assert (6, (Step(Rule.SCALE_DOWN_LIMIT, 3, 6),)) == normalized(3, 10, metric_limits(), slow, OPTIONS, Memory(), NOW)
    assert (8, ()) == normalized(8, 10, metric_limits(), slow, OPTIONS, Memory(), NOW)


def test_where_the_policies_end_at_a_bound_the_bound_is_named():
    """From 10 +4 is 14 and -4 is 6; a maximum of 14 and a minimum of 6 are as near (upstream's strict comparisons)."""
    slow = behavior(up=rules(("Pods", 4, 60), window=0), down=rules(("Pods", 4, 60), window=0))
    limits = metric_limits(6, 14)

    assert (14, (Step(Rule.TOO_MANY_REPLICAS, 20, 14),)) == normalized(20, 10, limits, slow, OPTIONS, Memory(), NOW)
    assert (6, (Step(Rule.TOO_FEW_REPLICAS, 3, 6),)) == normalized(3, 10, limits, slow, OPTIONS, Memory(), NOW)


def test_a_count_that_stays_is_not_held_against_the_bounds():
    """Upstream's rules ask for a change; a count outside the bounds jumps to them before any metric is looked at."""
    assert (50, ()) == normalized(50, 50, metric_limits(maximum=20), behavior(), OPTIONS, Memory(), NOW)
    assert (1, ()) == normalized(1, 1, metric_limits(minimum=2), behavior(), OPTIONS, Memory(), NOW)


def test_a_disabled_direction_keeps_a_zero():
    """Nothing states a floor: neither the metric's 5 nor a single pod."""
    assert 0 == normalized(5, 0, metric_limits(0), behavior(up=DISABLED), OPTIONS, Memory(), NOW)[0]


# --- how long a floor takes --------------------------------------------------------------------------------------


def risen(of, start, goal, period, *, offset=0, until=2000):
    """
    What really happens, reconciliation by reconciliation: the instants, from the first one on, at which a floor of
    `goal` has the count it has. The first reconciliation is at 0; the others come on a grid that is `offset` off it.
    """
    options = ControllerOptions(sync_period=period)
    limits = timed(minimum=goal, maximum=max(goal, start), floor=goal)
    reconciliations = [0, *(at for at in range(offset, until * period, period) if at > 0)]
    count, memory, path = start, Memory(), []
    for at in reconciliations[:until]:
        number, _ = normalized(goal, count, limits, of, options, memory, NOW + at)
        memory = memory.scaled(count, number, NOW + at, of)
        count = number
        path.append((at, count))
        if count >= goal:
            break
    return path


@pytest.mark.parametrize(
    ("of", "seconds"),
    [
        (None, 45),  # 4, 8, 16, 32: doubled at each reconciliation, four at least
        (behavior(), 30),  # +4 or +100 %: 6, 12, 20
        (behavior(up=rules(("Pods", 4, 60))), 240),  # 6, 10, 14, 18, 20
        (behavior(up=rules(("Pods", 4, 50))), 240),  # the reconciliations at which 50 s have passed: 60, 120, ...
        (behavior(up=rules(("Pods", 1, 15), ("Percent", 100, 60))), 135),  # 4, 5, 6, 7, 8, 10, 12, 14, 16, 20
        (
            behavior(up=rules(("Pods", 1, 15), ("Percent", 100, 60), select=SelectPolicy.MIN)),
            285,
        ),  # 3, 4, -, -, 5, 6, 7 ...
        (behavior(up=rules(("Pods", 100, 1800))), 0),
        (behavior(up=rules(("Pods", 1, 15), select=SelectPolicy.DISABLED)), 0),  # Disabled never blocks a floor
    ],
)
def test_a_ramp_is_the_time_from_the_first_reconciliation_to_the_last_pod(of, seconds):
    """From 2 to 20 with a reconciliation each 15 s."""
    assert seconds * SECOND == ramp(of, 2, 20, 15 * SECOND) == risen(of, 2, 20, 15 * SECOND)[-1][0]


def test_a_ramp_from_zero_begins_with_one_pod_by_percent():
    """1, then nothing until its period is over, then 2, 4, 8: a reconciliation and a period of 15 s."""
    percent = behavior(up=rules(("Percent", 100, 15)))

    assert 45 * SECOND == ramp(percent, 0, 8, 15 * SECOND)


def test_there_is_no_ramp_where_nothing_rises():
    assert 0 == ramp(None, 20, 20, 15 * SECOND) == ramp(behavior(), 20, 5, 15 * SECOND)


rising = rises(90)
sync_periods = st.sampled_from([1, 7, 15, 30]).map(lambda seconds: seconds * SECOND)


@given(st.none() | rising, st.integers(0, 30), st.integers(0, 60), sync_periods)
def test_a_ramp_is_what_the_policies_really_take(of, start, rise, period):
    path = risen(of, start, start + rise, period)

    assert (ramp(of, start, start + rise, period), start + rise) == path[-1]


@given(st.none() | rising, st.integers(0, 30), st.integers(1, 60), sync_periods, st.integers(1, 29))
def test_reconciliations_that_come_at_other_times_reach_it_a_period_later_at_the_most(of, start, rise, period, offset):
    """A lead begins between two reconciliations of its namespace's grid, and a reconciliation of its own comes then."""
    path = risen(of, start, start + rise, period, offset=offset * SECOND % period)

    assert path[-1][0] <= ramp(of, start, start + rise, period) + period


@given(rising, st.integers(0, 30), st.integers(0, 30), st.integers(1, 60), sync_periods)
def test_a_rise_from_fewer_pods_never_takes_less(of, one, other, goal, period):
    assert ramp(of, max(one, other), goal, period) <= ramp(of, min(one, other), goal, period)


NEVER_THERE = pytest.mark.parametrize(
    "up",
    [
        rules(("Pods", 1, 1800)),  # 48 pods a day
        rules(("Percent", 1, 1800)),  # one pod each half hour up to 100
        rules(*[("Pods", 1, 1 + index) for index in range(30)], select=SelectPolicy.MIN),  # 30 policies to look at
        rules(("Pods", 1, 1), ("Percent", 1, 1800)),  # 1800 pods within the longer period
    ],
)


@NEVER_THERE
def test_a_rate_that_never_gets_there_takes_the_longest_that_anybody_waits(up):
    """A million pods: a day."""
    assert RAMP_MAX == ramp(behavior(up=up), 0, 10**6, SECOND)


@NEVER_THERE
def test_a_rate_that_never_gets_there_is_worked_out_at_once(up):
    """50 ms are the longest that the others wait."""
    begun = time.thread_time()

    ramp(behavior(up=up), 0, 10**6, SECOND)

    assert time.thread_time() - begun < 0.05


@pytest.mark.parametrize("start", [0, 1000])
def test_what_is_not_walked_to_the_end_is_taken_at_the_rate_so_far(start):
    """A pod a second for 20,000 s: the first 10,000 are walked. Whole nanoseconds, as everywhere."""
    counts = ramp(behavior(up=rules(("Pods", 1, 1))), start, start + 20_000, SECOND)

    assert isinstance(counts, int)
    assert 20_000 * SECOND == pytest.approx(counts, abs=2 * SECOND)


# --- without a behavior ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("current", "limit"), [(1, 4), (2, 4), (3, 6), (10, 20)])
def test_without_a_behavior_the_count_doubles_at_most_or_reaches_four(current, limit):
    number, steps = normalized(500, current, metric_limits(), None, OPTIONS, Memory(), NOW)

    assert limit == number
    assert (Step(Rule.SCALE_UP_LIMIT, 500, limit),) == steps


def test_without_a_behavior_the_maximum_is_named_where_it_is_the_nearer_limit():
    number, steps = normalized(500, 10, metric_limits(maximum=15), None, OPTIONS, Memory(), NOW)

    assert 15 == number
    assert [Rule.TOO_MANY_REPLICAS] == [step.rule for step in steps]


def test_without_a_behavior_the_maximum_is_named_where_it_is_as_near_as_the_rate():
    """Twice 10 is the maximum of 20."""
    number, steps = normalized(500, 10, metric_limits(maximum=20), None, OPTIONS, Memory(), NOW)

    assert (20, (Step(Rule.TOO_MANY_REPLICAS, 500, 20),)) == (number, steps)


def test_without_a_behavior_the_rate_holds_for_the_minimum_itself_and_not_for_what_is_below_it():
    """From 1 at most 4. Upstream compares with the minimum first, and strictly."""
    assert 4 == normalized(10, 1, metric_limits(minimum=10), None, OPTIONS, Memory(), NOW)[0]
    assert 10 == normalized(9, 1, metric_limits(minimum=10), None, OPTIONS, Memory(), NOW)[0]


def test_without_a_behavior_there_is_no_rate_on_the_way_down():
    number, steps = normalized(1, 500, metric_limits(minimum=2), None, OPTIONS, Memory(), NOW)

    assert 2 == number
    assert (Step(Rule.TOO_FEW_REPLICAS, 1, 2),) == steps


# --- floors, caps and the way to bounds --------------------------------------------------------------------------


def test_a_floor_holds_whatever_the_stabilization_says():
    """The up window knows a recommendation of 3, but a schedule is not noise."""
    up = rules(("Pods", 100, 15), window=5 * MINUTE)

    number, steps = normalized(
        20, 10, timed(minimum=20, floor=20), behavior(up=up), OPTIONS, recommended(3, "09:59"), NOW
    )

    assert 20 == number
    assert () == steps


def test_a_cap_holds_whatever_the_stabilization_says():
    number, steps = normalized(5, 50, timed(maximum=5, cap=5), None, OPTIONS, recommended(50, "09:59"), NOW)

    assert 5 == number
    assert () == steps


def test_a_cap_lowers_what_the_stabilization_holds():
    """5 are asked for now and 50 a minute ago; the cap of 20 lets 20 of them stay."""
    number, steps = normalized(5, 50, timed(maximum=20, cap=20), None, OPTIONS, recommended(50, "09:59"), NOW)

    assert 20 == number
    assert [Step(Rule.SCALE_DOWN_STABILIZED, 5, 50), Step(Rule.CAP, 50, 20)] == list(steps)


def test_a_floor_raises_what_the_window_up_keeps_back():
    """30 are asked for now and 3 a minute ago: 10 stay, of which the floor of 20 makes 20."""
    up = rules(("Pods", 100, 15), window=5 * MINUTE)

    number, steps = normalized(
        30, 10, timed(minimum=20, floor=20), behavior(up=up), OPTIONS, recommended(3, "09:59"), NOW
    )

    assert 20 == number
    assert [Step(Rule.SCALE_UP_STABILIZED, 30, 10), Step(Rule.FLOOR, 10, 20)] == list(steps)


def test_a_floor_is_approached_at_the_rate_of_the_policies():
    """+100 % of 10 is 20 and +4 is 14; the floor of 60 is still on the way."""
    number, steps = normalized(60, 10, timed(minimum=60, floor=60), behavior(), OPTIONS, Memory(), NOW)

    assert 20 == number
    assert (Step(Rule.SCALE_UP_LIMIT, 60, 20),) == steps


def test_a_floor_is_approached_at_the_default_rate_without_a_behavior():
    number, _ = normalized(60, 10, timed(minimum=60, floor=60), None, OPTIONS, Memory(), NOW)

    assert 20 == number


def test_a_cap_is_approached_at_the_rate_of_the_policies():
    """-10 % of 50 is 45."""
    slow = behavior(down=rules(("Percent", 10, 60), window=0))

    number, steps = normalized(5, 50, timed(maximum=5, cap=5), slow, OPTIONS, Memory(), NOW)

    assert 45 == number
    assert (Step(Rule.SCALE_DOWN_LIMIT, 5, 45),) == steps


DISABLED = rules(("Percent", 100, 15), select=SelectPolicy.DISABLED, window=0)


def test_disabled_never_blocks_a_floor():
    """Disabled stops metrics, not people: 10 rises to the floor of 60 at once, and not to the metric's 80."""
    limits = timed(minimum=60, floor=60)

    assert 60 == normalized(60, 10, limits, behavior(up=DISABLED), OPTIONS, Memory(), NOW)[0]
    assert 60 == normalized(80, 10, limits, behavior(up=DISABLED), OPTIONS, Memory(), NOW)[0]


def test_disabled_never_blocks_a_cap():
    limits = timed(maximum=20, cap=20)

    assert 20 == normalized(20, 50, limits, behavior(down=DISABLED), OPTIONS, Memory(), NOW)[0]
    assert 20 == normalized(3, 50, limits, behavior(down=DISABLED), OPTIONS, Memory(), NOW)[0]


def test_disabled_stops_metrics_within_the_bounds():
    assert 10 == normalized(30, 10, timed(), behavior(up=DISABLED), OPTIONS, Memory(), NOW)[0]
    assert 30 == normalized(10, 30, timed(), behavior(down=DISABLED), OPTIONS, Memory(), NOW)[0]


def test_disabled_lets_the_bounds_and_what_is_stated_beside_them_be_reached():
    """From 10: the spec's minimum of 40 without a floor, and a forecast's floor of 60 above that minimum."""
    up = behavior(up=DISABLED)

    assert 40 == normalized(80, 10, timed(minimum=40), up, OPTIONS, Memory(), NOW)[0]
    assert 60 == normalized(80, 10, timed(minimum=40, floor=60), up, OPTIONS, Memory(), NOW)[0]


def test_disabled_lets_the_nearer_of_a_cap_and_the_maximum_be_reached():
    """From 50: the spec's maximum of 40, and a cap of 20 below it, or of 45 above it."""
    down = behavior(down=DISABLED)

    assert 40 == normalized(3, 50, timed(maximum=40), down, OPTIONS, Memory(), NOW)[0]
    assert 20 == normalized(3, 50, timed(maximum=40, cap=20), down, OPTIONS, Memory(), NOW)[0]
    assert 40 == normalized(3, 50, timed(maximum=40, cap=45), down, OPTIONS, Memory(), NOW)[0]


def test_disabled_keeps_a_zero_where_schedules_exist():
    assert 0 == normalized(5, 0, timed(minimum=0), behavior(up=DISABLED), OPTIONS, Memory(), NOW)[0]


def test_a_period_that_is_spent_forces_nobody_down_where_schedules_exist():
    """8 came within the minute of a policy of 4: 18 - 8 + 4 = 14 is below the current 18, which stays."""
    memory = Memory(scale_ups=(went(8, seconds_ago=30),))

    assert 18 == normalized(25, 18, timed(), behavior(up=rules(("Pods", 4, 60))), OPTIONS, memory, NOW)[0]


def test_where_schedules_exist_a_bound_is_named_before_the_way_to_it():
    """From 10 to a minimum of 40 or a maximum of 4: +100 % is 20; down 100 % at once."""
    up, up_steps = normalized(30, 10, timed(minimum=40), behavior(), OPTIONS, Memory(), NOW)
    down, down_steps = normalized(9, 10, timed(maximum=4), behavior(), OPTIONS, Memory(), NOW)

    assert (20, (Step(Rule.TOO_FEW_REPLICAS, 30, 40), Step(Rule.SCALE_UP_LIMIT, 40, 20))) == (up, up_steps)
    assert (4, (Step(Rule.TOO_MANY_REPLICAS, 9, 4),)) == (down, down_steps)


def test_disabled_does_not_block_the_floor_of_a_forecast_without_schedules():
    limits = Limits(2, 100, floor=30)

    assert 30 == normalized(30, 10, limits, behavior(up=DISABLED), OPTIONS, Memory(), NOW)[0]


def test_a_percent_policy_leaves_zero_with_one_pod():
    """
    100 % of nothing is nothing: by the policy alone a night's zero would last for ever.

    1 at once, and from the next period on 2, 4, 8.
    """
    percent = behavior(up=rules(("Percent", 100, 15)))

    assert (Rule.SCALE_UP_LIMIT, 1) == approach(20, 0, timed(minimum=20, floor=20), percent, Memory(), NOW)


def test_a_target_above_the_bounds_comes_down_at_the_rate_of_the_policies_where_schedules_set_them():
    slow = behavior(down=rules(("Pods", 1, 60), window=0))

    assert 49 == normalized(50, 50, timed(maximum=20), slow, OPTIONS, Memory(), NOW)[0]
