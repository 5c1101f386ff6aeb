"""A choice is validated by the decisions of the object itself."""

import msgspec
import numpy as np
import pytest

from cronhpa.core.model.instant import DAY, SECOND
from cronhpa.core.model.spec import (
    Behavior,
    ControllerOptions,
    CronWindow,
    ExternalMetric,
    ForecastSettings,
    MetricTarget,
    ScalingRules,
    Schedule,
)
from cronhpa.forecasting.evaluation import RUN_UP_STEPS, past_day, score
from cronhpa.forecasting.fitted_models import KnownLoad
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.validation import effect_by_columns, validate
from cronhpa.forecasting.workload import workload_of
from forecasting.made_loads import (
    DAY_MINUTES,
    MIDNIGHT,
    SPEC,
    WEB,
    every_four_hours,
    half_past_nine,
    step_maxima,
)

RUN_UP = RUN_UP_STEPS * 5


def day_of(minutes, *, by_minute=True):
    return past_day(KnownLoad(step_maxima(minutes), minutes if by_minute else None), 1)


def floors(begin=0, end=0, replicas=34):
    """In minutes of the day."""
    counts = np.zeros(RUN_UP + DAY_MINUTES, np.int16)
    counts[RUN_UP + begin : RUN_UP + end] = replicas
    return counts


def effect(asked, target=WEB, minutes=None, **rest):
    day = day_of(half_past_nine(3) if minutes is None else minutes, **rest)
    return validate(target, workload_of(WEB), day, MIDNIGHT, asked)


def capped(replicas):
    return msgspec.structs.replace(WEB, spec=msgspec.structs.replace(SPEC, max_replicas=replicas))


def test_no_floor_changes_nothing():
    """The jump of 9:30 is short for some minutes of the one day, with a floor or without."""
    measured_effect = effect(floors())

    assert (DAY, 0.0, 0.0) == (measured_effect.span, measured_effect.avoided, measured_effect.extra)
    assert 2 < measured_effect.minutes < 5


def test_a_floor_over_the_jump_avoids_all_of_its_minutes_for_its_pods():
    """24 pods more than the ten that run, from 9:20 until the jump or until stabilization lets go of them."""
    measured_effect = effect(floors(560, 580))

    assert measured_effect.minutes == measured_effect.avoided
    assert 24 * 10 / 60 < measured_effect.extra < 24 * 25 / 60


def test_the_bounds_of_the_object_hold():
    """Ten pods are the most: they run anyway."""
    measured_effect = effect(floors(560, 580), capped(10))

    assert 0.0 == measured_effect.avoided == measured_effect.extra
    assert 6.0 <= measured_effect.minutes


@pytest.mark.parametrize("by_minute", [True, False], ids=["minutes", "points"])
def test_a_floor_in_force_a_start_up_before_the_jump_is_in_time_and_one_after_it_is_not(by_minute):
    """A floor is known when its minute, or step, is over: it is asked for in the next."""
    early, late = (effect(floors(begin, 600), by_minute=by_minute) for begin in (560, 575))

    assert early.minutes == early.avoided > late.avoided


@pytest.mark.parametrize(("by_minute", "known_after"), [(True, 1), (False, 6)], ids=["minutes", "points"])
def test_a_floor_of_the_run_up_is_in_force_in_the_day_where_it_is_known_no_earlier(by_minute, known_after):
    """The last minute before midnight is over at midnight, a minute of a step with the reconcile after its step."""
    within, before = (
        effect(floors(-known_after - back, -known_after - back + 1), by_minute=by_minute).extra for back in (0, 1)
    )

    assert within > 0.0 == before


def test_where_nothing_of_the_load_or_of_a_pod_is_known_there_is_no_effect():
    unknown = np.append(half_past_nine(2), np.full(2 * DAY_MINUTES, np.nan))
    total = ExternalMetric("cpu", MetricTarget("Value", value=1000))
    other = ForecastTarget(WEB.series, msgspec.structs.replace(SPEC, metrics=(total,)), request=1000)

    assert effect(floors(), minutes=unknown) is None
    assert effect(floors(), other) is None


def test_an_hour_of_gaps_holds_what_was_known_last():
    minutes = half_past_nine(3)
    minutes[2 * DAY_MINUTES + 600 : 2 * DAY_MINUTES + 660] = np.nan

    assert effect(floors()) == effect(floors(), minutes=minutes)


def by_columns(target, asked, minutes=None):
    """What the vectorized autoscaler says of floors, and what the decisions do."""
    day = day_of(half_past_nine(3) if minutes is None else minutes)
    scores = score(day, np.stack([floors(), asked]), workload_of(WEB))
    return effect_by_columns(target, day, scores, 1), validate(WEB, workload_of(WEB), day, MIDNIGHT, asked)


@pytest.mark.parametrize("minutes", [half_past_nine(3), every_four_hours(3)], ids=["a spike", "noise"])
def test_where_an_object_has_nothing_of_its_own_the_vectorized_autoscaler_says_what_the_decisions_do(minutes):
    said, decided = by_columns(WEB, floors(230, 600, 24), minutes)

    assert decided.minutes > decided.avoided > 0
    assert said.span == decided.span
    for name in ("minutes", "avoided"):
        assert getattr(said, name) == pytest.approx(getattr(decided, name), abs=1.0)
    assert said.pod_hours == pytest.approx(decided.pod_hours, rel=0.01)
    assert said.extra == pytest.approx(decided.extra, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    "own",
    [
        {"min_replicas": 11},
        {"max_replicas": 49},
        {"forecast": ForecastSettings(max_floor=33)},
        {"options": ControllerOptions(tolerance=0.2)},
        {"schedules": (Schedule("lunch", CronWindow("0 12 * * *", "UTC", end="0 13 * * *"), floor=1),)},
        {"behavior": Behavior(ScalingRules(()), ScalingRules(()))},
        {"metrics": (ExternalMetric("cpu", MetricTarget("AverageValue", average_value=600)),)},
    ],
    ids=lambda own: next(iter(own)),
)
def test_where_something_of_the_objects_own_may_count_the_decisions_are_asked(own):
    """Ten pods are the fewest of the day, 50 the most, and 34 are asked for."""
    target = msgspec.structs.replace(WEB, spec=msgspec.structs.replace(SPEC, **own))

    assert by_columns(target, floors(560, 580))[0] is None
    assert by_columns(WEB, floors(560, 580))[0] is not None


def test_bounds_that_are_just_met_and_another_period_between_reconciliations_change_nothing():
    spec = msgspec.structs.replace(
        SPEC, min_replicas=10, max_replicas=50, options=ControllerOptions(sync_period=30 * SECOND)
    )

    said, _ = by_columns(msgspec.structs.replace(WEB, spec=spec), floors(560, 580))

    assert said is not None
