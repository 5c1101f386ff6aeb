"""cronhpa.simulation.target: pods that take time to start, and what the metrics API says of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa.core.model.instant import DAY, MINUTE, SECOND
from cronhpa.simulation.load import Load, Shape
from cronhpa.simulation.score import ScoreAccumulator
from cronhpa.simulation.target import Environment, SimulatedTarget

SLOW = Environment(capacity=1.0, start_up=2 * MINUTE)


def target(replicas=2, load=6.0, environment=SLOW, now=0):
    """`load`: a number, or points."""
    return SimulatedTarget(environment, load if isinstance(load, Load) else Load([(0, load)]), replicas, now)


def steps(*points):
    """points: (second, load) that holds until the next."""
    return Load([(second * SECOND, value) for second, value in points], shape=Shape.STEPS, gap_max=DAY)


def phases(of):
    return [(pod.phase, pod.ready) for pod in of.pods]


def values(of):
    """Samples in the order of the pods, in units; None where there is none."""
    samples = of.samples()
    return [samples[pod.name].value / 1000 if pod.name in samples else None for pod in of.pods]


def test_pods_run_and_are_not_ready_until_start_up_later():
    of = target(1)
    of.scale(2)

    of.advance(2 * MINUTE - 1)
    assert [("Running", "True"), ("Running", "False")] == phases(of)
    of.advance(2 * MINUTE)
    assert [("Running", "True"), ("Running", "True")] == phases(of)
    youngest = of.pods[-1]
    assert (0, 2 * MINUTE) == (youngest.created, youngest.ready_since)


def test_of_pods_that_must_go_the_unready_go_first_and_then_the_youngest():
    of = target(2)
    of.scale(4)
    of.advance(MINUTE)
    of.scale(5)
    of.advance(2 * MINUTE)
    names = [pod.name for pod in of.pods]
    assert 4 == of.ready

    of.scale(3)

    assert names[:3] == [pod.name for pod in of.pods]
    assert (3, 3) == (of.ready, of.replicas)


def test_a_pod_that_was_deleted_while_it_started_never_turns_ready():
    of = target(1)
    of.scale(3)
    of.advance(MINUTE)
    of.scale(1)
    of.advance(10 * MINUTE)

    assert [("Running", "True")] == phases(of)


def test_the_load_is_shared_by_the_ready_pods_and_seen_averaged_and_late():
    """30 s after a step from 6 to 12 the window of [-60 s, 0 s] before it is still what is seen: 6 over 2 pods."""
    of = target(2, steps((0, 6.0), (600, 12.0)))

    of.advance(630 * SECOND)
    assert [3.0, 3.0] == values(of)
    of.advance(660 * SECOND)  # the window is half before and half behind the step: (6 + 12) / 2 / 2
    assert [4.5, 4.5] == values(of)
    of.advance(690 * SECOND)
    assert [6.0, 6.0] == values(of)


def test_a_new_pod_has_no_sample_until_it_was_there_for_ten_seconds_when_measured():
    """Created at 0 s and measured 30 s late: the first sample is seen at 40 s, covers 10 s and holds nothing."""
    of = target(1, 6.0, now=-10 * MINUTE)
    of.advance(0)
    of.scale(2)

    of.advance(39 * SECOND)
    assert [6.0, None] == values(of)
    of.advance(40 * SECOND)
    assert [6.0, 0.0] == values(of)
    sample = of.samples()[of.pods[-1].name]
    assert (10 * SECOND, 10 * SECOND) == (sample.at, sample.window)


def test_all_windows_together_hold_the_load_also_where_a_pod_turned_ready_within_them():
    """Ready at 120 s; at 180 s the window is [90, 150]: half of it alone with 6, half with 3 each: 4.5 + 1.5 = 6."""
    of = target(1, 6.0)
    of.scale(2)
    of.advance(180 * SECOND)

    assert [4.5, 1.5] == values(of)


def test_a_pod_is_measured_above_what_it_can_carry():
    of = target(1, 6.0)
    of.advance(5 * MINUTE)

    assert [6.0] == values(of)


def test_a_window_that_touches_an_unknown_load_has_no_sample():
    points = [(minute * MINUTE, 6.0) for minute in range(11)] + [(60 * MINUTE, 6.0), (70 * MINUTE, 6.0)]
    of = target(2, Load(points))

    of.advance(10 * MINUTE)
    assert [3.0, 3.0] == values(of)
    of.advance(11 * MINUTE)
    assert ([None, None], None) == (values(of), of.total())
    of.advance(60 * MINUTE + 80 * SECOND)
    assert ([None, None], None) == (values(of), of.total())
    of.advance(60 * MINUTE + 90 * SECOND)
    assert ([3.0, 3.0], 6000) == (values(of), of.total())


def test_nobody_ready_serves_nothing_and_all_that_is_asked_for_goes_unserved():
    of = target(0, 6.0)
    accumulator = ScoreAccumulator(1.0)
    of.scale(3)

    of.advance(10 * MINUTE, accumulator)

    score = accumulator.score()
    assert 10 == score.under_provisioned_minutes  # 2 min with none of 6, then with 3 of 6
    assert 2 * 6 + 8 * 3 == pytest.approx(score.unserved_hours * 60)
    assert 30 == pytest.approx(score.pod_hours * 60)


def test_the_whole_load_is_what_an_external_metric_states():
    of = target(2, Load([(0, 0.0), (10 * MINUTE, 10.0)]))
    of.advance(5 * MINUTE)

    # Seen 30 s late over 60 s: the middle of the window is 4 minutes after the begin.
    assert 4000 == of.total()


moves = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 12)), min_size=1, max_size=10)


@given(moves, st.integers(0, 300))
def test_the_counts_always_add_up_and_pods_are_in_the_order_of_their_age(moves, start_up):
    of = target(3, 6.0, Environment(capacity=1.0, start_up=start_up * SECOND))
    accumulator = ScoreAccumulator(1.0)
    paid = 0
    for seconds, replicas in moves:
        paid += of.replicas * seconds
        of.advance(of.now + seconds * SECOND, accumulator)
        of.scale(replicas)

        assert replicas == of.replicas == len(of.pods)
        assert of.ready == sum(pod.ready == "True" for pod in of.pods)
        assert all((pod.ready == "True") == (pod.created + start_up * SECOND <= of.now) for pod in of.pods)
        created = [pod.created for pod in of.pods]
        assert sorted(created) == created
    assert paid == accumulator.score().pod_time / SECOND


@settings(max_examples=30)
@given(moves, st.lists(st.floats(0, 100), min_size=5, max_size=5))
def test_samples_are_the_mean_share_counted_second_by_second(moves, values):
    """A second log, written second by second, of what each ready pod did."""
    load = steps(*((600 * i, value) for i, value in enumerate(values)))
    of = target(3, load)
    did: dict[int, dict[str, float]] = {}
    for seconds, replicas in moves:
        for _ in range(seconds):
            ready = [pod.name for pod in of.pods if pod.ready == "True"]
            share = load.at(of.now) / len(ready) if ready else 0.0
            did[of.now // SECOND] = {pod.name: share * (pod.name in ready) for pod in of.pods}
            of.advance(of.now + SECOND)
        for name, sample in of.samples().items():
            end, length = sample.at // SECOND, sample.window // SECOND
            usages = [did[second].get(name, math.nan) for second in range(end - length, end) if second in did]
            if len(usages) == length:
                assert sample.value / 1000 == pytest.approx(sum(usages) / length, abs=0.001)
        of.scale(replicas)
