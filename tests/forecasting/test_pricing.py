"""A pod is taken when its probability to be needed is worth its cost."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa.forecasting.candidates import CONSTANT_SHARES, COSTS
from cronhpa.forecasting.pricing import constant_replicas, hourly_replicas, provisioned_replicas, spike_replicas
from cronhpa_models.spike_hazard import Spikes

PLENTY = np.array([1e9])


def priced(load, cdf, *, running, cost, ceiling=PLENTY, carried=1.0):
    """One origin."""
    return int(provisioned_replicas(np.array([load]), np.array([cdf]), np.array([running]), carried, ceiling, cost)[0])


def against_spikes(loads, cdf, *, cost, ceiling=PLENTY, carried=1.0):
    """One origin at which ten pods run, a spike of the chance 0.3."""
    spikes = Spikes(np.array([0.3]), np.array([0]), np.array(loads), np.array([cdf]))
    return int(spike_replicas(spikes, np.array([10.0]), carried, ceiling, [cost])[0, 0])


def test_a_pod_is_taken_when_its_chance_is_worth_its_cost():
    """
    10 pods run, 5 load is certain, 20 comes with a chance of 0.2: 20 pods are 10 more than run.

    At a cost of 0.015 a pod those are 0.15 for a chance of 0.2; at 0.025 they cost more than they may save.
    """
    load, cdf = [5.0, 20.0], [0.8, 1.0]

    assert (20, 0) == tuple(priced(load, cdf, running=10.0, cost=cost) for cost in (0.015, 0.025))


def test_several_costs_are_priced_as_each_alone():
    """Two windows of three origins, and a cost of each origin."""
    random = np.random.default_rng(1)
    load, cdf = np.sort(random.gamma(4.0, 3.0, (2, 3, 9))), np.sort(random.random((2, 3, 9)))
    running, costs = np.array([1.0, 8.0, 12.0]), np.array([[0.3, 0.2, 0.1], [0.03, 0.02, 0.01]])

    together = provisioned_replicas(load, cdf, running, 1.0, np.full(3, 30.0), costs[:, None])

    alone = [provisioned_replicas(load, cdf, running, 1.0, np.full(3, 30.0), cost) for cost in costs]
    assert together.any()
    np.testing.assert_array_equal(alone, together)


def test_no_floor_is_above_the_ceiling():
    """500 of load would take 500 pods: 50 is the largest that is believed."""
    assert 50 == priced([5.0, 500.0], [0.0, 1.0], running=1.0, cost=0.0001, ceiling=np.array([50.0]))


def test_a_floor_that_runs_anyway_is_none():
    assert (0, 11) == tuple(priced([11.0], [1.0], running=running, cost=0.01) for running in (11.0, 10.0))


def test_where_nothing_is_known_there_is_no_floor():
    assert 0 == priced([np.nan, np.nan], [0.5, 1.0], running=1.0, cost=0.01)


def test_no_floor_is_above_what_an_autoscaler_may_have():
    """14,000 pods; a plain count of 16 bits would be negative from 32,768 on."""
    assert 14_000 == priced([1.0, 40_000.0], [0.0, 1.0], running=1.0, cost=1e-9)


@given(
    st.lists(st.floats(0.1, 100.0), min_size=1, max_size=12),
    st.integers(1, 50),
    st.floats(0.0001, 0.2),
    st.integers(0, 2**32 - 1),
)
def test_no_other_load_of_the_distribution_is_worth_more(loads, running, cost, seed):
    load = np.sort(np.array(loads))
    cdf = np.cumsum(np.random.default_rng(seed).dirichlet(np.ones(len(load))))

    floor = priced(load, cdf, running=float(running), cost=cost)

    covered = (load <= max(floor, running) + 1e-9).sum()
    worth = (cdf[covered - 1] if covered else 0.0) - cost * max(floor - running, 0)
    best = max(p - cost * max(np.ceil(at - 1e-9) - running, 0) for at, p in zip(load, cdf, strict=True))
    assert worth >= best - 1e-9


def test_a_spike_is_provided_for_while_its_chance_is_worth_the_pods():
    """
    Of spikes half go up to 20, half up to 30, and one comes with 0.3: at 0.01 a pod 0.15 - 0.1 is less than 0.3 - 0.2.

    At 0.02 a pod neither is worth it: 0.15 - 0.2 and 0.3 - 0.4.
    """
    assert (30, 0) == tuple(against_spikes([20.0, 30.0], [0.5, 1.0], cost=cost) for cost in (0.01, 0.02))


def test_of_spikes_most_are_provided_for_where_the_highest_is_rare():
    """0.27 - 0.12 is more than 0.3 - 0.24."""
    assert 20 == against_spikes([20.0, 30.0], [0.9, 1.0], cost=0.012)


def test_spikes_that_take_as_many_pods_count_together():
    """19.2 and 19.8 both take 20: together they are worth 0.3 - 0.2, the first alone 0.06 - 0.2."""
    assert 20 == against_spikes([19.2, 19.8], [0.2, 1.0], cost=0.02)


def test_no_spike_is_provided_for_above_the_ceiling():
    assert 25 == against_spikes([20.0, 30.0], [0.0, 1.0], cost=0.001, ceiling=np.array([25.0]))


def test_a_spike_that_what_runs_carries_asks_for_nothing():
    assert 0 == against_spikes([8.0, 9.0], [0.5, 1.0], cost=0.001)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 60), min_size=10, max_size=200))
def test_a_constant_floor_adds_no_more_than_its_share_and_the_next_higher_one_would(counts):
    reactive = np.array(counts, dtype=np.float64)

    for share, floor in zip(CONSTANT_SHARES, constant_replicas(reactive), strict=True):
        added, more = (np.maximum(floors - reactive, 0).sum() / reactive.sum() for floors in (floor, floor + 1))
        assert added <= share + 1e-9
        assert more > share or floor >= reactive.max() or not share


@pytest.mark.parametrize("most", [1e9, 2e30])
def test_a_spike_of_any_height_takes_no_more_memory(most):
    """1 pod, and 1e9 in one minute, at a target of a thousandth: a list of all counts up to it took 20 GB."""
    reactive = np.ones(2016)
    reactive[1000] = most

    assert 14_000 == max(constant_replicas(reactive))


def hours_of(load, *, steps_per_day=24, mean=2.0):
    """The floors by the hour, by cost, where a pod carries 1 and reactive scaling asks for the load rounded up."""
    load = np.asarray(load, dtype=np.float64)
    reactive = np.maximum(np.ceil(np.nan_to_num(load)), 1.0)
    return dict(zip(COSTS, hourly_replicas(load, reactive, 1.0, mean, steps_per_day), strict=True))


def test_an_hour_that_jumps_has_the_floor_that_its_jumps_need_if_that_is_worth_its_cost():
    """
    Two pods, and six at 06:00. Of the three steps around 06:00 one is short: a floor of six, four pods more in two
    steps of three, avoids a third at a cost of 4 * 2/3 / 2 = 1.33 a unit: it is worth 0.25, and 0.35 it is not.
    """
    day = [2.0] * 6 + [6.0] + [2.0] * 17

    floors = hours_of(day * 7)

    assert [0, 6] == [floors[0.35][6], floors[0.15][6]]
    assert {0} == {floors[0.15][hour] for hour in range(24) if not 5 <= hour <= 7}


def test_a_load_that_rises_slower_than_pods_start_needs_no_floor_by_the_hour():
    assert {0} == set(hours_of([2.0] * 24 * 7)[0.012])


def test_a_load_that_comes_back_after_a_gap_is_no_jump():
    """A gap asks for one pod; the 2 pods behind it are no more than what the hour before the gap had."""
    load = [2.0] * 24 + [np.nan] * 24 + [2.0] * 24

    assert {0} == set(hours_of(load)[0.012])


@settings(max_examples=30)
@given(st.lists(st.floats(0, 50), min_size=48, max_size=240), st.integers(1, 20))
def test_a_lower_cost_never_lowers_a_floor_by_the_hour(load, mean):
    floors = hours_of(load, mean=float(mean))

    assert all(
        one <= other for dear, cheap in pairwise(COSTS) for one, other in zip(floors[dear], floors[cheap], strict=True)
    )
