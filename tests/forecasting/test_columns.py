"""Floors in columns: each behaves as an autoscaler would that is alone, and is scored as the protocol says."""

from itertools import pairwise

import numpy as np
import pytest

from cronhpa.forecasting.columns import (
    AutoscalerModel,
    simulate,
)

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


def mean_load(demand, begin, end):
    """Of a load that is linear between ticks, the mean between two times in ticks: trapezoids, cut at both ends."""
    if end <= begin:
        return demand[0]

    def at(time):
        below = int(time)
        above = min(below + 1, len(demand) - 1)
        return demand[below] + (demand[above] - demand[below]) * (time - below)

    cuts = [begin, *range(int(begin) + 1, int(np.ceil(end))), end]
    area = sum((right - left) * (at(left) + at(right)) / 2 for left, right in pairwise(cuts))
    return area / (end - begin)


def proposal(metric, served_by, measured, current, world):
    """What upstream asks for, with a usage for each pod: utilization is cut off to whole percent of the request."""
    goal = world.percent or world.target
    request = world.target / world.percent if world.percent else 1
    each = metric / max(served_by, 1) / request

    def usage_of(pods):
        mean = sum(pods) / len(pods)
        return int(mean + 1e-4) if world.percent else mean

    pods = [each] * measured
    ratio = usage_of(pods) / goal
    if ratio > 1 and measured < current:
        pods += [0.0] * (current - measured)
        if usage_of(pods) < goal:
            return current
        ratio = usage_of(pods) / goal
    if abs(ratio - 1) <= world.tolerance + 1e-6:
        return current
    return max(1, int(np.ceil(ratio * len(pods) - 1e-4)))


def literal(demand, floors, world):
    """
    The same protocol pod by pod, in plain loops: (replicas, ready) of every tick.

    Two hours of the first load and floor come first. A load is served by the pods that were Ready when the window of
    the metric ended; a pod is measured once it was Ready in all of a window, or is Ready and older than 300 s.
    """
    tick_seconds = world.tick_seconds
    start_up, delay, window = (
        seconds / tick_seconds for seconds in (world.start_up_seconds, world.delay_seconds, world.window_seconds)
    )
    measured_after = min(start_up + window + delay, max(300 / tick_seconds, start_up))
    long_ago = -1_000_000
    first = -2 * 60 * TICKS_PER_MINUTE
    pods = [long_ago] * max(1, int(np.ceil(demand[0] / world.target - 1e-6)))
    ran, proposals, counts, ready = {}, [], [], []
    for tick in range(first, len(demand)):
        ended = max(tick - delay, 0)
        metric = mean_load(demand, max(ended - window, 0), ended)
        current = len(pods)
        served_by = sum(born + start_up <= tick - delay for born in ran.get(tick - delay - 1, pods))
        measured = sum(tick - born >= measured_after for born in pods)
        wanted = proposal(metric, served_by, measured, current, world)
        minute = int(max((tick - delay) // TICKS_PER_MINUTE, 0))
        merged = max(wanted, int(floors[minute]), 1)
        proposals.append(merged)
        highest = max(proposals[-(world.stabilization_seconds // tick_seconds) :])
        desired = max(merged, min(current, highest))
        desired = min(desired, max(2 * current, current + 4))
        # The youngest go first.
        pods = (pods + [tick] * (desired - current))[:desired]
        ran[tick] = pods
        counts.append(desired)
        ready.append(sum(tick - born >= start_up for born in pods))
    return np.array(counts)[-first:], np.array(ready)[-first:]


def test_a_jump_is_short_of_pods_until_new_ones_are_ready():
    """
    10 pods carry 10. The jump is in the mean from 45 s on (one tick of four: 7.5, outside of 10 %), and complete 45 s
    later; the first pods asked for are ready after 120 s: 13 at 165 s, which is more than 12.
    """
    outcomes = simulate(jump(), none(), AutoscalerModel())

    assert 165 - 15 <= outcomes.under[0].sum() <= 165 + 15


def test_a_floor_that_stands_before_the_jump_avoids_all_of_it():
    floors = none()
    floors[0, 6 * 60 - 5 :] = 12

    outcomes = simulate(jump(), floors, AutoscalerModel())

    assert 0 == outcomes.under.sum()


def test_candidates_do_not_see_each_other():
    floors = none(3)
    floors[1, 5 * 60 :] = 15
    together = simulate(jump(), floors, AutoscalerModel())

    for row in range(3):
        alone = simulate(jump(), floors[row : row + 1], AutoscalerModel())
        np.testing.assert_array_equal(alone.pods[0], together.pods[row])
        np.testing.assert_array_equal(alone.under[0], together.under[row])


@pytest.mark.parametrize("seed", range(4))
def test_columns_do_what_a_literal_autoscaler_does_pod_by_pod(seed):
    draw = np.random.default_rng(seed)
    demand = np.repeat(draw.gamma(2.0, 5.0, HOURS * 60), TICKS_PER_MINUTE)
    floors = np.where(draw.random(HOURS * 60) < 0.2, draw.integers(0, 40, HOURS * 60), 0).astype(np.int16)
    world = AutoscalerModel(
        start_up_seconds=[60, 120, 240, 105][seed],
        target=[0.6, 0.8, 0.6, 0.5][seed],
        percent=[60, 80, None, 50][seed],
    )

    outcomes = simulate(demand, floors[None], world)
    counts, ready = literal(demand, floors, world)

    # Each tick is scored by the load in its middle.
    demand = (demand + np.append(demand[1:], demand[-1])) / 2
    steps = (-1, TICKS_PER_STEP)
    np.testing.assert_allclose(counts.reshape(steps).mean(axis=1), outcomes.pods[0])
    np.testing.assert_array_equal((demand > ready).reshape(steps).sum(axis=1) * 15, outcomes.under[0])
    short = np.maximum(demand - ready, 0).reshape(steps).mean(axis=1)
    np.testing.assert_allclose(short, outcomes.unserved[0], atol=1e-4)


def test_days_side_by_side_are_those_of_one_long_run():
    """Three days in columns, of which each knows two hours of the day before, against one literal run."""
    draw = np.random.default_rng(7)
    demand = np.repeat(draw.gamma(2.0, 5.0, 3 * 24 * 60), TICKS_PER_MINUTE)
    floors = np.zeros(3 * 24 * 60, np.int16)

    outcomes = simulate(demand, floors[None], AutoscalerModel())
    counts, _ = literal(demand, floors, AutoscalerModel())

    np.testing.assert_allclose(counts.reshape(-1, TICKS_PER_STEP).mean(axis=1), outcomes.pods[0])
