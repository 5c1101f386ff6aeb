"""Floors in columns: each behaves as an autoscaler would that is alone, and is scored as the protocol says."""

from __future__ import annotations

import numpy as np
import pytest

from cronhpa.forecasting.columns import AutoscalerModel, AverageValue, Utilization, simulate
from forecasting.literal_autoscaler import decided

HOURS = 12
TICKS_PER_MINUTE, TICKS_PER_STEP = 4, 20


def load(*hours):
    """A load for each hour, constant within it."""
    return np.repeat(np.array(hours, dtype=np.float64), 60 * TICKS_PER_MINUTE)


def none(candidates=1):
    return np.zeros((candidates, HOURS * 60), np.int16)


def jump():
    """6 units, from the sixth hour on 12: 10 pods, then 20 at a target of 60 %."""
    return load(*[6] * 6, *[12] * 6)


def test_a_jump_is_short_of_pods_until_new_ones_are_ready():
    """
    10 pods carry 10. The load rises from 6 to 12 in the last tick before the jump: above 10 from 5 s before it on. At a
    tick 30 s after the jump the window holds all of that rise: (45 * 6 + 15 * 9) / 60 = 6.75, of which 0.67 a pod, more
    than 10 % above 0.6. The pods of that tick are Ready 120 s later, and enough: 5 + 30 + 120 s.
    """
    outcomes = simulate(jump(), none(), AutoscalerModel())

    assert 5 + 30 + 120 == pytest.approx(outcomes.under[0].sum(), abs=0.1)


def test_a_floor_that_stands_before_the_jump_avoids_all_of_it():
    floors = none()
    floors[0, 6 * 60 - 5 :] = 12

    outcomes = simulate(jump(), floors, AutoscalerModel())

    assert 0 == outcomes.under.sum()


def test_a_target_in_bytes_is_simulated_as_the_same_one_in_mebibytes():
    """Found: every whole milli-unit near the target was listed, for 1 GiB 2 * 0.1 * 2**30 * 1000 numbers of 8 bytes."""
    mebibytes, gibibytes = (
        simulate(jump(), none(), AutoscalerModel(AverageValue(0.6), milli=milli, is_cpu=False))
        for milli in (2**10 * 1000, 2**30 * 1000)
    )

    np.testing.assert_array_equal(mebibytes.pods, gibibytes.pods)


@pytest.mark.slow
def test_candidates_do_not_see_each_other():
    floors = none(3)
    floors[1, 5 * 60 :] = 15
    together = simulate(jump(), floors, AutoscalerModel())

    for row in range(3):
        alone = simulate(jump(), floors[row : row + 1], AutoscalerModel())
        np.testing.assert_array_equal(alone.pods[0], together.pods[row])
        np.testing.assert_array_equal(alone.under[0], together.under[row])


CPU = AutoscalerModel()
MODELS = {
    "CPU": CPU,
    "quick": AutoscalerModel(start_up_seconds=60),
    "slow": AutoscalerModel(start_up_seconds=240),
    "slower than the initialization period": AutoscalerModel(start_up_seconds=330),
    "another target": AutoscalerModel(goal=Utilization(80), start_up_seconds=105),
    "more than requested": AutoscalerModel(goal=Utilization(125, request=0.4)),
    "an average": AutoscalerModel(goal=AverageValue(0.7)),
    "not CPU": AutoscalerModel(goal=AverageValue(0.7), is_cpu=False),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("wild", [2.0, 40.0], ids=["wild", "calm"])
def test_columns_decide_every_tick_as_decide_does(model, wild):
    """Noise of a minute, twice the load every third hour, and floors at random: after an hour every count is equal."""
    draw, minutes = np.random.default_rng(3), np.arange(5 * 60)
    loads = draw.gamma(wild, 10 / wild, len(minutes)) * np.where(minutes // 60 % 3 == 2, 2, 1)
    demand = np.repeat(loads, TICKS_PER_MINUTE)
    floors = np.where(draw.random(len(minutes)) < 0.2, draw.integers(0, 40, len(minutes)), 0).astype(np.int16)

    outcomes = simulate(demand, floors[None], model)
    expected = decided(demand, floors, model)

    np.testing.assert_allclose(counts_by_step(expected)[12:], outcomes.pods[0, 12:], rtol=1e-6)
    assert expected.score.under_provisioned / 10**9 == pytest.approx(outcomes.under.sum(), rel=0.01)
    unserved = outcomes.unserved.sum() * TICKS_PER_STEP * 15
    assert expected.score.unserved / 10**9 == pytest.approx(unserved, rel=0.01)
    assert expected.score.under_provisioned > 0, "a load that is never short proves nothing"


@pytest.mark.slow
def test_days_side_by_side_are_those_of_one_long_run():
    """Three days in columns, of which each knows two hours of the day before, against one run."""
    draw = np.random.default_rng(7)
    demand = np.repeat(draw.gamma(2.0, 5.0, 3 * 24 * 60), TICKS_PER_MINUTE)
    floors = np.zeros(3 * 24 * 60, np.int16)

    outcomes = simulate(demand, floors[None], CPU)

    np.testing.assert_allclose(counts_by_step(decided(demand, floors, CPU))[12:], outcomes.pods[0, 12:], rtol=1e-6)


def counts_by_step(columns):
    """(steps,): the mean count of each."""
    return columns.counts.reshape(-1, TICKS_PER_STEP).mean(axis=1)
