"""What a load is to the pods of an object: how many it takes, when they are ready, and when they are too few."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.spec import ExternalMetric, MetricTarget, ResourceMetric
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.workload import (
    HELD_MINUTES,
    backtests_agree,
    held_replicas,
    reactive_replicas,
    reactive_replicas_of_several,
    shortages,
    workload_of,
)
from forecasting.made_loads import PODS, SPEC, WEB, half_past_nine


def slow(seconds):
    return msgspec.structs.replace(PODS, start_up_seconds=seconds)


def with_metric(metric, request=None):
    return ForecastTarget(WEB.series, msgspec.structs.replace(SPEC, metrics=(metric,)), request=request)


def test_a_load_is_short_from_its_jump_until_pods_that_the_metric_asked_for_are_ready():
    """They are asked for by 9:30 and 60 s, the mean's middle and its delay, and ready 120 s later: three minutes."""
    short = shortages(half_past_nine(2), PODS)

    assert [570, 571, 572, 2010, 2011, 2012] == np.flatnonzero(short).tolist()


def test_half_of_the_tolerance_counts_as_missing():
    """Nine pods run for 8.7 at a target of 1: enough for 8.5 * 1.05 = 8.925, too few for 8.7 * 1.05 = 9.135."""
    tight = msgspec.structs.replace(PODS, target=1.0)

    shortages_at_end = [shortages(np.append(np.full(60, 8.7), load), tight)[-1] for load in (8.5, 8.7)]

    assert [False, True] == shortages_at_end


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(0, 8))
def test_held_replicas_are_the_highest_of_the_stabilization_window_that_ended_so_long_ago(counts, late):
    """The first count stands for all before it."""
    before = [counts[0]] * (late + HELD_MINUTES) + counts

    held = held_replicas(np.array(counts, dtype=np.float64), late)

    assert [max(before[i : i + HELD_MINUTES + 1]) for i in range(len(counts))] == held.tolist()


def test_an_unknown_load_and_none_ask_for_one_replica():
    assert [1.0, 1.0, 10.0, 11.0] == reactive_replicas(np.array([np.nan, 0.0, 6.0, 6.01]), PODS).tolist()


def test_the_loads_of_several_objects_ask_for_what_each_asks_for_alone():
    """6.01 at a target of 0.6 are 11 pods, at a target of 2.5 three."""
    large = msgspec.structs.replace(PODS, target=2.5)
    loads = [np.array([6.0, 6.01]), np.zeros(0), np.array([6.01])]

    several = reactive_replicas_of_several(loads, [PODS, PODS, large])

    assert [[10.0, 11.0], [], [3.0]] == [instants.tolist() for instants in several]
    assert [] == reactive_replicas_of_several([], [])


@pytest.mark.parametrize(("start_up", "expected"), [(60, 3), (120, 2), (240, 0)], ids=["1 min", "2 min", "4 min"])
def test_slow_pods_are_asked_for_earlier_in_a_step(start_up, expected):
    """The minute from which on a pod would be ready for the step after the next only: delay + minutes + start-up."""
    assert expected == next(minute for minute in range(9) if slow(start_up).needs_far(minute))


@pytest.mark.parametrize(
    ("start_up", "lead", "far", "by_minute"),
    [(60, 2, 2, (1,)), (120, 3, 2, (1,)), (270, 5, 2, (1,)), (271, 6, 3, (1, 3)), (900, 16, 5, (1, 5))],
)
def test_windows_reach_as_far_as_a_pod_takes(start_up, lead, far, by_minute):
    """30 s of delay and 270 s are a step: one second more, and a pod asked for after a minute is late for the next."""
    workload = slow(start_up)

    assert (lead, far, by_minute) == (workload.lead_minutes, workload.far_steps, workload.windows(by_minute=True))
    assert (1, far) == workload.windows(by_minute=False)


def test_a_pod_of_utilization_is_scaled_for_its_request():
    """60 % of two cores are scaled for, 90 % are planned with, all are too few above two."""
    workload = workload_of(msgspec.structs.replace(WEB, request=2000))

    assert (1.2, 1.8, 2.0) == pytest.approx((workload.target, workload.carried, workload.capacity))
    assert 5.0 == workload.budget_percent


def test_pods_that_are_known_to_start_slower_are_waited_for_longer():
    slower, faster = (workload_of(msgspec.structs.replace(WEB, start_up=s * SECOND)) for s in (300, 60))

    assert 240 == slower.start_up_seconds - faster.start_up_seconds


def test_a_load_above_what_a_pod_may_carry_is_scaled_for_where_the_target_is_that_high():
    """At 95 % no less can be planned with than what is scaled for."""
    workload = workload_of(
        with_metric(ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=95)), request=1000)
    )

    assert (0.95, 0.95, 1.0) == pytest.approx((workload.target, workload.carried, workload.capacity))


@pytest.mark.parametrize(
    "target",
    [
        with_metric(ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=60))),
        with_metric(ResourceMetric("memory", MetricTarget("Utilization", average_utilization=60)), request=1000),
        with_metric(ExternalMetric("cpu", MetricTarget("Value", value=1000))),
        ForecastTarget(WEB.series, msgspec.structs.replace(SPEC, metrics=()), request=1000),
        ForecastTarget(WEB.series, msgspec.structs.replace(SPEC, forecast=None), request=1000),
    ],
    ids=["no request", "another metric", "no share of a pod", "no metric", "no forecast"],
)
def test_where_the_load_of_a_pod_is_not_known_there_is_no_workload(target):
    assert workload_of(target) is None


def test_the_share_of_a_pod_of_an_external_metric_is_its_target():
    assert (
        1.0 == workload_of(with_metric(ExternalMetric("cpu", MetricTarget("AverageValue", average_value=1000)))).target
    )


@pytest.mark.parametrize(
    ("changes", "agree"),
    [
        ({"budget_percent": 50.0}, True),
        ({"start_up_seconds": 140}, True),
        ({"start_up_seconds": 141}, False),
        ({"carried": 0.91}, False),
        ({"tolerance": 0.2}, False),
    ],
)
def test_a_backtest_holds_for_another_budget_and_a_start_up_of_about_as_long(changes, agree):
    assert agree is backtests_agree(PODS, msgspec.structs.replace(PODS, **changes))
