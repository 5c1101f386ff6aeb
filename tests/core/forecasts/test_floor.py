"""A forecast of load becomes a floor of replicas, or abstains and says why."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from core.situations import NOW, cpu, forecast, queue, queued, seen, spec
from cronhpa.core.forecasts.floor import forecast_metric, load_of, predict
from cronhpa.core.model.decision import Abstention, ExpectedLoad, FloorLimit, Proposal, Role, Source
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.memory import Memory, lead_time
from cronhpa.core.model.observation import Absent, PodCounts, ScalarReading
from cronhpa.core.model.spec import (
    ControllerOptions,
    ExternalMetric,
    ForecastSettings,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    TargetRef,
)


def averaging(milli):
    return PodsMetric("requests", MetricTarget("AverageValue", average_value=milli))


REQUESTS = averaging(50_000)


def floor(load, *, metric=REQUESTS, headroom=0, memory=None, observation=None, **settings):
    """What a forecast of `load` for all steps asks for; with 50 a pod, and 45 = 50 * 0.9 below the target."""
    told = load if not isinstance(load, (int, float)) else forecast(load, load, load, metric=metric.name)
    return predict(
        spec(metrics=(metric,), forecast=ForecastSettings(**settings)),
        observation or queued(0, current=5),
        told,
        memory or Memory(),
        headroom,
        NOW,
    )


def reason(answer):
    assert isinstance(answer, Abstention)
    return answer.reason


def test_the_floor_is_the_load_over_what_a_pod_may_carry_rounded_up():
    """1255 / 50 = 25.1. Nine tenths of a capacity of 50 is below the target of 50, which stays."""
    answer = floor(1255)

    expected = ExpectedLoad(1255, NOW, 50, FloorLimit.COST, percent=5)
    assert Proposal(Source.FORECAST, "requests", Role.FLOOR, 26, basis=expected) == answer


def test_the_reason_names_the_step_of_the_largest_load_and_how_likely_it_is():
    """A minute a step and 75 s ahead: the second step has the most, and is reached with 83 %."""
    told = forecast(100, 1700, 900, metric="requests", step=MINUTE, quantiles=(95, 17, 50))

    answer = floor(told)

    assert ExpectedLoad(1700, NOW + MINUTE, 50, FloorLimit.COST, percent=83) == answer.basis


@pytest.mark.parametrize(
    ("told", "limit", "percent", "replicas"),
    [
        (forecast(1255, 1255, metric="requests"), FloorLimit.COST, 5, 26),
        (forecast(1255, 1255, metric="requests", budget_level=1), FloorLimit.BUDGET, None, 26),
        (forecast(1255, 1255, metric="requests", ceiling=1000), FloorLimit.CEILING, 5, 20),
        (forecast(5000, 5000, metric="requests"), FloorLimit.MAX_FLOOR, 5, 50),
    ],
)
def test_the_reason_names_what_keeps_the_floor_from_being_larger(told, limit, percent, replicas):
    """50 a pod. Past the budget other loads are asked for, of which no quantile is known."""
    answer = floor(told, max_floor=50)

    assert (limit, percent, replicas) == (answer.basis.limit, answer.basis.percent, answer.replicas)


def test_an_expected_load_that_no_pod_is_asked_for_makes_no_floor():
    """26 pods would carry 1255. Nothing is asked for now, and 26 pods where the lead time touches the next step."""
    none = replace(forecast(1255, 1255, 1255, metric="requests"), provisioned_load=(0.0, 0.0, 0.0))
    later = replace(none, provisioned_load=(0.0, 1255.0, 1255.0), start=NOW - 4 * MINUTE)

    assert (0, ExpectedLoad(1255, NOW, 50, FloorLimit.COST, percent=5)) == (floor(none).replicas, floor(none).basis)
    assert 26 == floor(later).replicas


def test_a_pod_may_carry_nine_tenths_of_its_capacity_where_that_is_more_than_its_target():
    """200 % of 50 is 100, of which 90: 1255 / 90 = 13.9."""
    assert 14 == floor(1255, pod_capacity_percent=200).replicas


def test_a_pod_with_a_utilization_target_may_carry_nine_tenths_of_its_request():
    """Target 60 % of a request of 2 cores is 1.2; nine tenths of 2 are 1.8: 9 cores / 1.8 = 5."""
    observation = seen(current=5, request_per_pod={"cpu": 2000})

    assert 5 == floor(9, metric=cpu(60), observation=observation).replicas


def test_a_pod_may_carry_never_less_than_its_target():
    """95 % of 2 cores is 1.9, more than nine tenths of them: 9 / 1.9 = 4.7."""
    observation = seen(current=5, request_per_pod={"cpu": 2000})

    assert 5 == floor(9, metric=cpu(95), observation=observation).replicas
    assert 6 == floor(9.6, metric=cpu(95), observation=observation).replicas


def test_the_request_is_remembered_while_there_is_no_pod_to_ask():
    assert (
        5
        == floor(9, metric=cpu(60), observation=seen(current=0), memory=Memory(request_per_pod={"cpu": 2000})).replicas
    )


def test_without_any_request_the_forecast_abstains():
    assert "NoPodLoad" == reason(floor(9, metric=cpu(60)))


def test_the_lead_time_is_the_start_up_and_one_reconciliation():
    """60 s while unknown + 15 s; once learned 120 s + 15 s."""
    assert 75 * SECOND == lead_time(None, ControllerOptions())
    assert 135 * SECOND == lead_time(120 * SECOND, ControllerOptions())


def test_the_largest_load_of_the_steps_that_touch_the_lead_time_counts():
    """Steps of a minute: 75 s touch the first and the second of them, not the third; 150 s touch it too."""
    told = forecast(50, 200, 400, 800, metric="requests", step=MINUTE)

    assert 4 == floor(told).replicas
    assert 8 == floor(told, memory=Memory(start_up=135 * SECOND)).replicas


def test_no_more_is_believed_than_the_ceiling():
    """Of 5000 only 1.1 times the largest of last week, 1100: 1100 / 50 = 22."""
    assert 22 == floor(forecast(5000, metric="requests", ceiling=1100)).replicas


def test_headroom_is_added_after_the_ceiling():
    """1100 * 1.5 / 50 = 33."""
    assert 33 == floor(forecast(5000, metric="requests", ceiling=1100), headroom=50).replicas


def test_the_floor_is_at_most_what_the_user_allows():
    assert 20 == floor(1255, max_floor=20).replicas


def test_a_forecast_older_than_a_quarter_of_an_hour_abstains():
    """15 minutes is the last age that counts."""
    minutes = (15 * MINUTE, 15 * MINUTE + 1)
    answers = [floor(forecast(100, 100, metric="requests", issued_at=NOW - age)) for age in minutes]

    assert 2 == answers[0].replicas
    assert "Stale" == reason(answers[1])


@pytest.mark.parametrize("start", [NOW + 1, NOW - 10 * MINUTE])
def test_a_forecast_that_does_not_cover_the_lead_time_abstains(start):
    assert "Stale" == reason(floor(forecast(100, metric="requests", start=start, step=5 * MINUTE)))


@pytest.mark.parametrize("load", [(math.nan, 5.0), (5.0, math.nan), (5.0, math.inf), (-1.0, -1.0), (5.0, -1.0)])
def test_an_absurd_forecast_abstains(load):
    """Also where one step of several is absurd: the largest of 5 and NaN is either, by the order they come in."""
    assert "Absurd" == reason(floor(forecast(*load, metric="requests", step=MINUTE, ceiling=100)))


@pytest.mark.parametrize("ceiling", [math.nan, math.inf, -1.0])
def test_an_absurd_ceiling_abstains(ceiling):
    assert "Absurd" == reason(floor(forecast(5, metric="requests", ceiling=ceiling)))


def test_a_forecast_of_no_step_abstains():
    assert "Absurd" == reason(floor(forecast(5, metric="requests", step=0)))


def test_a_load_beyond_all_numbers_asks_for_as_much_as_there_is():
    """1e308 and half of it again is infinite; it ends at the largest count there is."""
    assert 2**31 - 1 == floor(1e308, headroom=1000).replicas
    assert 2**31 - 1 == floor(1e308, metric=averaging(1)).replicas


def test_a_target_of_nothing_carries_nothing():
    """The API server refuses it; were it there, dividing by it would ask for all the pods in the world."""
    assert "NoPodLoad" == reason(floor(100, metric=averaging(0)))


@pytest.mark.parametrize("told", [None, Absent("Learning", "1 of 2 days")])
def test_a_forecast_that_is_not_there_abstains(told):
    assert "Learning" == reason(floor(told))


def test_no_forecast_is_asked_for():
    assert predict(spec(), queued(0, current=5), forecast(100), Memory(), 0, NOW) is None


def outside(target, kind=ExternalMetric, **fields):
    return kind("jobs", target, **fields)


AVERAGE, VALUE = (MetricTarget("AverageValue", average_value=50_000), MetricTarget("Value", value=50_000))
INGRESS = {"kind": ObjectMetric, "described": TargetRef("networking.k8s.io/v1", "Ingress", "shop")}


@pytest.mark.parametrize("metric", [outside(AVERAGE), outside(AVERAGE, **INGRESS)], ids=["External", "Object"])
def test_what_pods_share_of_another_source_is_a_load(metric):
    """1255 jobs at 50 a pod: 25.1."""
    assert 26 == floor(1255, metric=metric).replicas
    assert "Learning" == reason(floor(None, metric=metric))


@pytest.mark.parametrize("metric", [outside(VALUE), outside(VALUE, **INGRESS)], ids=["External", "Object"])
def test_a_value_target_is_no_load(metric):
    """Half of the queue may be for one of ten pods: nobody says. Nobody learns it, however long one waits."""
    assert "NoPodLoad" == reason(floor(100, metric=metric))
    assert "NoPodLoad" == reason(floor(None, metric=metric))


def test_a_load_of_the_targets_own_pods_is_forecast_first():
    assert forecast_metric(spec(metrics=(queue(), REQUESTS, cpu()))) == "requests"
    assert forecast_metric(spec(metrics=(outside(VALUE), queue()))) == "queue"
    assert forecast_metric(spec(metrics=(outside(VALUE),))) is None


def test_the_load_of_a_reading_is_the_total_of_all_pods():
    tally = PodCounts(2, 1, 0, 2, 2, 700, 1000, 0, 0, 500, 900)

    assert [0.9, 40.0, None] == [
        load_of(reading) for reading in (tally, ScalarReading(40_000, 0), Absent("Failed", "no answer"))
    ]


def test_what_pods_take_to_start_now_counts_for_the_lead_and_not_what_is_remembered():
    """
    Steps of a minute: 120 s and a reconciliation of 15 s touch the third, of 45 s and one the first and the second
    alone.
    """
    told = forecast(50, 200, 400, 800, metric="requests", step=MINUTE)
    slow_now, quick_now = (queued(0, current=5, start_up=seconds * SECOND) for seconds in (120, 45))

    assert 8 == floor(told, memory=Memory(start_up=45 * SECOND), observation=slow_now).replicas
    assert 4 == floor(told, memory=Memory(start_up=120 * SECOND), observation=quick_now).replicas


def test_a_shorter_reconciliation_shortens_the_lead():
    assert 61 * SECOND == lead_time(None, ControllerOptions(sync_period=SECOND))


@pytest.mark.parametrize(("covered", "said"), [(None, None), (80, None), (79, "CoverageLost")])
def test_a_forecast_that_is_exceeded_too_often_is_not_believed(covered, said):
    """It states 95 %; fifteen less are the least that is believed."""
    told = forecast(1255, 1255, metric="requests", coverage_percent=covered)
    answer = predict(
        spec(metrics=(REQUESTS,), forecast=ForecastSettings()), queued(0, current=5), told, Memory(), 0, NOW
    )

    assert said == (answer.reason if isinstance(answer, Abstention) else None)
