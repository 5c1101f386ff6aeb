"""A forecast as the decision takes it, from the floors of a policy at one origin."""

import msgspec
import numpy as np
import pytest

from cronhpa.core.model.forecast import TrackRecord
from cronhpa.core.model.instant import MINUTE
from cronhpa.forecasting.candidates import Candidate
from cronhpa.forecasting.choice import Choice
from cronhpa.forecasting.fitted_models import ModelStates
from cronhpa.forecasting.forecast import forecast_of
from cronhpa.forecasting.policy import FittedPolicy
from cronhpa.forecasting.provisioning import Provisioned
from forecasting.made_loads import MIDNIGHT, PODS

FITTED = FittedPolicy(
    workload=PODS,
    choice=Choice(Candidate("Clock", 0.25, 0.0), 8.0, 10.0, 1.5, 7),
    models=ModelStates({}, b""),
    constants=(0,) * 9,
    by_hour=((0,) * 24,) * 12,
    mean_replicas=10.0,
    week_max=30.0,
    tail=b"",
    days=b"",
    variants=("Clock",),
    expected_percent=1.5,
    spec="",
    ignored=b"",
)
PROVISIONED = Provisioned(
    np.array([[0, 34, 0], [0, 40, 0]]),
    np.array([[6.0, 30.5, np.nan], [7.0, 35.5, np.nan]]),
    np.array([[0.9, 0.954, 0.0], [0.8, 0.9, 0.0]]),
    np.array([33.0, 36.0, 33.0]),
    (
        (np.array([[0, 30, 0], [0, 35, 0]]), np.array([[6.0, 26.9, np.nan], [7.0, 31.4, np.nan]])),
        (np.array([[0, 0, 0], [0, 0, 0]]), np.array([[6.0, 5.0, np.nan], [7.0, 5.5, np.nan]])),
    ),
)


def issued(place=1, *, fitted=FITTED, by_minute=True, excess=None, at=MIDNIGHT + 2 * MINUTE):
    return forecast_of(
        "cpu",
        fitted,
        PROVISIONED,
        place,
        issued_at=at,
        trained_until=MIDNIGHT - 5 * MINUTE,
        by_minute=by_minute,
        excess=excess,
    )


def test_it_says_when_and_from_what_it_was_made():
    made = issued()

    assert ("cpu", "Clock", 95, None) == (made.metric, made.model, made.quantile_percent, made.coverage_percent)
    assert (MIDNIGHT + 2 * MINUTE, MIDNIGHT, 5 * MINUTE) == (made.issued_at, made.start, made.step)
    assert (MIDNIGHT - 5 * MINUTE, 36.0) == (made.trained_until, made.ceiling)
    assert TrackRecord(8.0, 10.0, 1.5, 7) == made.track_record


@pytest.mark.parametrize(("by_minute", "steps"), [(True, 2), (False, 1)], ids=["minutes", "steps"])
def test_the_near_load_holds_until_a_later_forecast_can_and_the_far_one_from_then_on(by_minute, steps):
    """By the minute the next five minutes end within the next step; the rest is as far as slow pods are led."""
    load = issued(by_minute=by_minute).load

    assert (30.5,) * steps == load[:steps]
    assert {35.5} == set(load[steps:])
    assert 4 + PODS.far_steps == len(load)


def test_slow_pods_are_told_of_more_steps():
    slow = msgspec.structs.replace(FITTED, workload=msgspec.structs.replace(PODS, start_up_seconds=900))

    assert 3 == len(issued(fitted=slow).load) - len(issued().load)


def test_where_nothing_can_be_said_there_is_no_forecast():
    assert issued(2) is None


def test_its_coverage_is_the_level_with_the_excess_of_the_last_day():
    """95.4 % less seven are 88."""
    assert 88 == issued(excess=-0.07).coverage_percent


def test_near_its_budget_it_has_the_loads_of_dearer_pods():
    """Laid over the same steps as its own loads: near, near, far, far. No pod is asked for at twice that cost."""
    made = issued()

    assert [(26.9, 26.9, 31.4, 31.4), (0.0, 0.0, 0.0, 0.0)] == [load[:4] for load in made.loads_by_budget_level]
    assert {len(made.load)} == {len(load) for load in made.loads_by_budget_level}


def test_a_load_that_the_running_pods_carry_is_expected_and_no_pod_is_asked_for_it():
    """No floor at the first origin, where 6 and 7 are expected; 34 and 40 pods at the second."""
    assert ((6.0, 6.0, 7.0, 7.0), (0.0,) * 4) == (issued(0).load[:4], issued(0).provisioned_load[:4])
    assert issued(1).load == issued(1).provisioned_load
