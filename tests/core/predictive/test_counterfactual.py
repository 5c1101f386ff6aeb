"""What would be without the forecast, followed tick by tick beside the target."""

from hypothesis import given
from hypothesis import strategies as st

from core.situations import NOW, forecast, spec
from cronhpa.core.decide import decide
from cronhpa.core.decision import Scaled, Withheld
from cronhpa.core.instant import MINUTE, SECOND
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Observation, PodCounts, Scale
from cronhpa.core.predictive.counterfactual import follow
from cronhpa.core.spec import ForecastSettings, MetricTarget, Mode, PodsMetric

REQUESTS = PodsMetric("requests", MetricTarget("AverageValue", average_value=10_000))
ACTIVE, PREVIEW = ForecastSettings(), ForecastSettings(mode=Mode.PREVIEW)


def carrying(load, pods):
    """A load seen on so many ready pods; a pod is to carry ten of it."""
    tally = PodCounts(
        ready=pods, unready=0, missing=0, counted=pods, matched=pods, usage=load * 1000, request=0,
        missing_usage=0, missing_request=0, unready_request=0, load=load * 1000,
    )  # fmt: skip
    return Observation(Scale(pods, pods, "app=shop"), (tally,))


def live(loads, forecasts, settings=ACTIVE):
    """(pods, shadow) after every tick of 15 s, and the pods of a twin whose forecast says nothing."""
    of = spec(metrics=(REQUESTS,), minimum=1, forecast=settings)
    pods, twin, memory, twins, shadow, out = 5, 5, Memory(), Memory(), None, []
    for i, (load, floor) in enumerate(zip(loads, forecasts, strict=True)):
        now = NOW + i * 15 * SECOND
        told = forecast(floor, floor, floor, metric="requests", issued_at=now, start=now)
        observation, alone = carrying(load, pods), carrying(load, twin)
        decision, other = decide(of, observation, told, memory, now), decide(of, alone, None, twins, now)
        shadow = follow(shadow, of, observation, memory, decision, now)
        memory = memory.after(decision, Scaled(now) if decision.rescales else Withheld(), of, observation)
        twins = twins.after(other, Scaled(now) if other.rescales else Withheld(), of, alone)
        pods, twin = decision.desired, other.desired
        out.append((pods, pods if shadow is None else shadow.replicas, twin))
    return out


def test_a_floor_that_raises_is_followed_by_a_shadow_that_stays():
    """A load of 50 needs five pods; a forecast of 120 asks for twelve, of which ten in the first turn."""
    assert [(10, 5, 5), (12, 5, 5), (12, 5, 5)] == live([50] * 3, [120] * 3)


def test_the_shadow_rises_with_the_load_that_was_foreseen_and_is_met():
    """Once the load is there, both need twelve, and nothing is spent any more."""
    assert (12, 12, 12) == live([50, 50, 120, 120], [120] * 4)[-1]


def test_after_a_floor_is_gone_the_target_is_above_its_shadow_until_stabilization_lets_it_go():
    """300 s of stabilization are twenty ticks: the forecast's twelve holds until they are over."""
    ticks = live([50] * 24, [120] * 2 + [0] * 22)

    assert [(12, 5, 5)] * 21 == ticks[1:22]
    assert (5, 5, 5) == ticks[-1]


def test_a_forecast_in_preview_casts_no_shadow():
    assert [(5, 5, 5)] * 3 == live([50] * 3, [120] * 3, PREVIEW)


def test_a_forecast_below_what_the_metric_asks_for_casts_no_shadow():
    of = spec(metrics=(REQUESTS,), minimum=1, forecast=ACTIVE)
    observation = carrying(200, 5)
    decision = decide(of, observation, forecast(50, 50, metric="requests"), Memory(), NOW)

    assert follow(None, of, observation, Memory(), decision, NOW + MINUTE) is None


@given(st.lists(st.tuples(st.integers(10, 400), st.integers(0, 400)), min_size=1, max_size=60))
def test_the_shadow_is_the_twin_that_has_no_forecast_while_they_are_apart(steps):
    """Until they meet for the first time, the shadow is an equal target without a forecast with pods ready at once."""
    loads, floors = zip(*steps, strict=True)
    ticks = live(loads, floors)
    first = next((i for i, (pods, shadow, _) in enumerate(ticks) if pods != shadow), len(ticks))
    until = next((i for i in range(first, len(ticks)) if ticks[i][0] == ticks[i][1]), len(ticks))

    assert [twin for _, _, twin in ticks[first:until]] == [shadow for _, shadow, _ in ticks[first:until]]
