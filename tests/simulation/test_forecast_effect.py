"""Whether a forecast is worth what it costs, by the decisions themselves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import NOW, at, cpu, forecast, queue, schedule, spec
from cronhpa.core.model.decision import Source
from cronhpa.core.model.forecast import TrackRecord
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import Behavior, ForecastSettings, Policy, ScalingRules, Span
from cronhpa.simulation.forecast_effect import ForecastEffect, asking_for, measure_effect
from cronhpa.simulation.load import Load, Shape
from cronhpa.simulation.run import run
from cronhpa.simulation.target import Environment

ONE_CORE = Environment(capacity=1.0, requests={"cpu": 1000}, start_up=2 * MINUTE)
FORECAST = spec(minimum=1, metrics=(cpu(),), forecast=ForecastSettings())
# 6 cores, for an hour each day from 11:00 on 12.
RUSH = Load(
    [
        (at("00:00") + day * DAY + hour * HOUR, 12.0 if hour == 11 else 6.0)
        for day in range(-9, 2)
        for hour in range(24)
    ],
    shape=Shape.STEPS,
    gap_max=HOUR,
)


def knowing(factor=1.0):
    """Forecasts by somebody who knows the load, times a factor."""

    def forecasts(now):
        start = now - now % (5 * MINUTE)
        load = [factor * RUSH.at(start + k * 5 * MINUTE) for k in range(12)]
        return forecast(*load, metric="cpu", issued_at=now, start=start)

    return forecasts


def last(span):
    return Span(NOW - span, NOW)


def by_whole_runs(of, load, environment, forecasts, span, period):
    """The same from two runs from end to end."""
    full = replace(of, options=replace(of.options, sync_period=period))
    without = run(replace(full, forecast=None), load, environment, span).score
    with_it = run(full, load, environment, span, forecasts=forecasts).score
    return ForecastEffect(
        without.span,
        without.under_provisioned_minutes,
        without.under_provisioned_minutes - with_it.under_provisioned_minutes,
        without.pod_hours,
        with_it.pod_hours - without.pod_hours,
    )


SLOW_UP = ScalingRules((Policy("Pods", 1, 5 * MINUTE),), stabilization_window=0)
SLOW_DOWN = ScalingRules((Policy("Percent", 10, 2 * MINUTE),), stabilization_window=10 * MINUTE)
QUICK = ScalingRules((Policy("Percent", 100, 15 * SECOND), Policy("Pods", 4, 15 * SECOND)))


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 25), min_size=4, max_size=24),
    st.lists(st.floats(0.5, 20), min_size=2, max_size=8),
    st.sampled_from([None, Behavior(SLOW_UP, QUICK), Behavior(QUICK, SLOW_DOWN)]),
    st.sampled_from([(), (schedule("rush", "30 10 * * *", "0 12 * * *", floor=9),)]),
)
def test_what_differs_is_what_whole_runs_differ_by(floors, load, behavior, schedules):
    """Floors of ten minutes, loads of half an hour; whatever the policies, the windows and the schedules."""
    of = replace(FORECAST, behavior=behavior, schedules=schedules, max_replicas=18)
    day = Load([(at("09:00") + i * 30 * MINUTE, value) for i, value in enumerate(load)], shape=Shape.STEPS, gap_max=DAY)
    span = Span(at("09:00"), at("13:00"))
    forecasts = asking_for([floor for floor in floors for _ in range(10)], of, ONE_CORE, span.begin)

    measured_effect = measure_effect(of, day, ONE_CORE, forecasts, span, sync_period=MINUTE)

    whole = by_whole_runs(of, day, ONE_CORE, forecasts, span, MINUTE)
    assert pytest.approx((whole.minutes, whole.avoided, whole.pod_hours, whole.extra), abs=1e-9) == (
        measured_effect.minutes,
        measured_effect.avoided,
        measured_effect.pod_hours,
        measured_effect.extra,
    )


@pytest.mark.slow
def test_a_forecast_that_knows_takes_every_minute_away():
    """
    Two rises from 6 to 12 cores, each short for 2.75 min without a forecast (see test_run): 5.5 min. With one, 14
    pods stand 135 s ahead of each, where the reactive 10 are raised to 18 some minutes later.
    """
    measured_effect = measure_effect(FORECAST, RUSH, ONE_CORE, knowing(), last(2 * DAY))

    assert 2 * 2.75 == measured_effect.minutes
    assert measured_effect.minutes == measured_effect.avoided
    assert 0 < measured_effect.extra_percent < 1
    assert measured_effect.pays(budget_percent=1)
    assert 2 * DAY == measured_effect.span


def test_a_forecast_that_exaggerates_does_not_pay():
    """Twice the load: 12 / 0.9 = 14 pods all day, 27 in the rush."""
    measured_effect = measure_effect(FORECAST, RUSH, ONE_CORE, knowing(2.0), last(DAY), sync_period=MINUTE)

    assert measured_effect.minutes == measured_effect.avoided
    assert 30 < measured_effect.extra_percent < 60
    assert not measured_effect.pays(budget_percent=5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "forecasts", [lambda _: None, lambda _: Absent("Learning", "not yet"), knowing(0.1)], ids=["none", "absent", "low"]
)
def test_a_forecast_that_says_nothing_changes_nothing(forecasts):
    measured_effect = measure_effect(FORECAST, RUSH, ONE_CORE, forecasts, last(DAY))

    assert (0, 0) == (measured_effect.avoided, measured_effect.extra)
    assert 2.75 == measured_effect.minutes
    assert not measured_effect.pays(budget_percent=5)


def test_a_forecast_that_may_not_raise_gains_nothing():
    """A maximum of 10, which the load of 6 cores needs anyway: all 60 min of the rush are short, whatever is asked."""
    measured_effect = measure_effect(
        replace(FORECAST, max_replicas=10), RUSH, ONE_CORE, knowing(), last(DAY), sync_period=MINUTE
    )

    assert (60, 0, 0) == (measured_effect.minutes, measured_effect.avoided, measured_effect.extra)
    assert not measured_effect.pays(budget_percent=5)


def test_the_schedules_are_on_both_sides():
    """With a floor of 13 from 10:30 on the rise is covered: nothing is left for a forecast to gain."""
    early = schedule("rush", "30 10 * * *", "0 12 * * *", floor=13)

    measured_effect = measure_effect(
        replace(FORECAST, schedules=(early,)), RUSH, ONE_CORE, knowing(), last(DAY), sync_period=MINUTE
    )

    assert 0 == measured_effect.minutes
    assert not measured_effect.pays(budget_percent=5)


def test_what_cannot_be_confirmed_is_refused():
    with pytest.raises(ValueError, match="no effect to measure"):
        measure_effect(spec(metrics=(queue(),)), RUSH, ONE_CORE, knowing(), last(DAY))


def test_floors_in_pods_are_asked_for_minute_by_minute():
    """Floors of 0, 15 and 12 for a minute each, from one minute in on; 10 pods carry the load."""
    floors_asked = []
    forecasts = asking_for([0, 15, 12], FORECAST, ONE_CORE, NOW + MINUTE)

    run(
        FORECAST, Load([(NOW, 6.0)]), ONE_CORE, Span(NOW, NOW + 6 * MINUTE), forecasts=forecasts,
        watch=lambda _, decision: floors_asked.append(asked(decision)),
    )  # fmt: skip

    assert [None] * 4 + [0] * 4 + [15] * 4 + [12] * 4 + [None] * 8 == floors_asked


def asked(decision):
    """What the forecast asks for; None where it abstains."""
    return next((proposal.replicas for proposal in decision.proposals if proposal.source is Source.FORECAST), None)


def test_a_floor_in_pods_needs_a_target_that_tells_the_load_of_one():
    with pytest.raises(ValueError, match="request"):
        asking_for([1], FORECAST, Environment(capacity=1.0), NOW)


def test_confirmations_of_several_days_are_told_as_one_track_record():
    """Of 40 and 20 min 30 and 12 are avoided, with 2 and 4 pod-hours more than 100 and 140: 6 of 240 are 2.5 %."""
    total_effect = ForecastEffect(DAY, 40, 30, 100, 2) + ForecastEffect(DAY, 20, 12, 140, 4)

    assert TrackRecord(avoided=42, of=60, extra_percent=2.5, days=2) == total_effect.track_record
