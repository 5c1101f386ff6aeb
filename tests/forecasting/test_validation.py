"""A choice is validated by the decisions of the object itself."""

import msgspec
import numpy as np
import pytest

from cronhpa.core.instant import DAY
from cronhpa.core.spec import ExternalMetric, MetricTarget
from cronhpa.forecasting.evaluation import RUN_UP_STEPS, past_day
from cronhpa.forecasting.fitted_models import KnownLoad
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.validation import validate
from cronhpa.forecasting.workload import workload_of
from forecasting.made_loads import (
    DAY_MINUTES,
    MIDNIGHT,
    SPEC,
    WEB,
    half_past_nine,
    step_maxima,
)

RUN_UP = RUN_UP_STEPS * 5


def day_of(minutes, *, by_minute=True):
    return past_day(KnownLoad(step_maxima(minutes), minutes if by_minute else None), 1)


def floors(begin=0, end=0, replicas=34):
    """In minutes of the day."""
    found = np.zeros(RUN_UP + DAY_MINUTES, np.int16)
    found[RUN_UP + begin : RUN_UP + end] = replicas
    return found


def effect(asked, target=WEB, minutes=None, **rest):
    day = day_of(half_past_nine(3) if minutes is None else minutes, **rest)
    return validate(target, workload_of(WEB), day, MIDNIGHT, asked)


def capped(replicas):
    return msgspec.structs.replace(WEB, spec=msgspec.structs.replace(SPEC, max_replicas=replicas))


def test_no_floor_changes_nothing():
    """The jump of 9:30 is short for some minutes of the one day, with a floor or without."""
    found = effect(floors())

    assert (DAY, 0.0, 0.0) == (found.span, found.avoided, found.extra)
    assert 2 < found.minutes < 5


def test_a_floor_over_the_jump_avoids_all_of_its_minutes_for_its_pods():
    """24 pods more than the ten that run, from 9:20 until the jump or until stabilization lets go of them."""
    found = effect(floors(560, 580))

    assert found.minutes == found.avoided
    assert 24 * 10 / 60 < found.extra < 24 * 25 / 60


def test_the_bounds_of_the_object_hold():
    """Ten pods are the most: they run anyway."""
    found = effect(floors(560, 580), capped(10))

    assert 0.0 == found.avoided == found.extra
    assert 6.0 <= found.minutes


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
