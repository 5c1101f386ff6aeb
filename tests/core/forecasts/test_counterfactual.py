"""What would be without the forecast, followed tick by tick beside the target."""

from __future__ import annotations

import random

import pytest

from core.situations import NOW, cpu, forecast, seen, spec
from cronhpa.core.decide import decide
from cronhpa.core.forecasts.counterfactual import Pods, carried_by, follow
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import PodCounts
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, Mode, PodsMetric
from cronhpa.simulation.load import Load, Shape
from cronhpa.simulation.run import Trajectory
from cronhpa.simulation.target import Environment

TICK = 15 * SECOND
ACTIVE, PREVIEW = ForecastSettings(), ForecastSettings(mode=Mode.PREVIEW)
REQUESTS = PodsMetric("requests", MetricTarget("AverageValue", average_value=10_000))
# What a pod is planned to carry by the forecast: nine tenths of its request, or the target of an average.
PLANNED = {"cpu": 0.9, "requests": 10.0}


def live(loads, floors, *, metric=None, settings=ACTIVE, start_up=60):
    """(pods, those of the counterfactual, those of a twin without a forecast) after every tick of 15 s."""
    metric = cpu(60) if metric is None else metric
    of = spec(metrics=(metric,), minimum=1, maximum=1000, forecast=settings)
    environment = Environment(capacity=1.0, requests={"cpu": 1000}, start_up=start_up * SECOND)
    load = Load([(NOW + i * TICK, value) for i, value in enumerate(loads)], shape=Shape.STEPS)
    ours, twin = (Trajectory.of(of, load, environment, NOW, None) for _ in range(2))
    pods, counterfactual, out = Pods(((NOW - HOUR, ours.target.replicas),)), None, []
    for i, floor in enumerate(floors):
        now = NOW + i * TICK
        told = forecast(*[floor * PLANNED[metric.name]] * 3, metric=metric.name, issued_at=now, start=now)
        observation, alone = ours.observe(of), twin.observe(of)
        decision, other = decide(of, observation, told, ours.memory, now), decide(of, alone, None, twin.memory, now)
        counterfactual = follow(counterfactual, of, observation, ours.memory, decision, pods, now)
        ours.act(of, observation, decision)
        twin.act(of, alone, other)
        for target in (ours, twin):
            target.target.advance(now + TICK)
        pods = pods.scaled(decision.desired, now, start_up * SECOND)
        out.append((decision.desired, pods.count if counterfactual is None else counterfactual.replicas, other.desired))
    return out


def test_a_floor_that_raises_is_followed_by_a_counterfactual_that_stays():
    """A load of 3 needs five pods; a forecast asks for twelve, of which ten in the first reconciliation."""
    assert [(10, 5, 5), (12, 5, 5), (12, 5, 5)] == live([3.0] * 3, [12] * 3)


def test_the_counterfactual_rises_with_the_load_that_was_foreseen_and_is_met():
    """Once the load of 7 is there for ten minutes, both have twelve pods, and nothing is spent any more."""
    ticks = live([3.0] * 20 + [7.0] * 60, [12] * 80)

    assert (12, 5, 5) == ticks[19]
    assert (12, 12, 12) == ticks[-1]


def test_after_a_floor_is_gone_the_target_is_above_its_counterfactual_until_stabilization_lets_it_go():
    ticks = live([3.0] * 40, [12] * 8 + [0] * 32)

    assert (12, 5, 5) == ticks[20]
    assert (5, 5, 5) == ticks[-1]


def test_a_forecast_in_preview_has_no_counterfactual():
    assert [(5, 5, 5)] * 3 == live([3.0] * 3, [12] * 3, settings=PREVIEW)


def test_a_forecast_below_what_the_metric_asks_for_has_no_counterfactual():
    of = spec(metrics=(cpu(60),), minimum=1, forecast=ACTIVE)
    busy = PodCounts(
        ready=5, unready=0, missing=0, counted=5, matched=5, usage=20_000, request=5000, missing_usage=0,
        missing_request=0, unready_request=0, load=20_000,
    )  # fmt: skip
    observation = seen(busy, current=5, request_per_pod={"cpu": 1000})
    decision = decide(of, observation, forecast(5.0, 5.0, metric="cpu"), Memory(), NOW)

    assert follow(None, of, observation, Memory(), decision, Pods(((NOW - HOUR, 5),)), NOW + MINUTE) is None


@pytest.mark.slow
@pytest.mark.parametrize("metric", [cpu(60), REQUESTS], ids=["CPU", "requests"])
@pytest.mark.parametrize("start_up", [60, 120, 240])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_the_counterfactual_has_the_pods_of_a_twin_without_a_forecast(metric, start_up, seed):
    """
    Six hours of noise by the minute with jumps, floors at random: in sum the twin's pods within 1 %, and 3 % apart tick
    by tick.

    Equality is out of reach: the load is read from samples of whole milli-units on other pods, and a count that the
    tolerance keeps on one side of a boundary can stay there for hours.
    """
    draw = random.Random(seed)
    per_pod = 1.0 if metric.name == "cpu" else 20.0
    levels = [level * per_pod for level in draw.choices((6.0, 9.0, 20.0), k=24)]
    loads = [level * noise for level in levels for noise in noises(draw, 15) for _ in range(4)]
    floors = [floor for floor in draw.choices((0, 0, 20, 45), k=48) for _ in range(30)]

    ticks = live(loads, floors, metric=metric, start_up=start_up)

    pods, counterfactual, twin = (sum(column) for column in zip(*ticks, strict=True))
    assert counterfactual == pytest.approx(twin, rel=0.01)
    assert sum(abs(one - other) for _, one, other in ticks) < 0.03 * twin
    assert pods > 1.1 * twin, "a forecast that changes nothing proves nothing"


def noises(draw, count):
    return [draw.uniform(0.97, 1.03) for _ in range(count)]


def test_the_load_is_carried_by_the_counterfactual_pods_that_serve():
    """
    A load of 8 cores on ten pods; without the forecast five, two of them made 100 s ago and Ready after 60 s: for 10 of
    the 60 s of a sample. The three that count serve all of the load for 50 s, and three fifths of it for 10 s: 7.467.
    """
    of = spec(metrics=(cpu(60),), minimum=1, forecast=ACTIVE)
    counts = PodCounts(
        ready=10, unready=0, missing=0, counted=10, matched=10, usage=8000, request=10_000, missing_usage=0,
        missing_request=0, unready_request=0, load=8000,
    )  # fmt: skip
    observation = seen(counts, current=10, request_per_pod={"cpu": 1000})
    ten, five = Pods(((NOW - HOUR, 10),)), Pods(((NOW - HOUR, 3), (NOW - 100 * SECOND, 2)))

    (reading,) = carried_by(five, ten, of, observation, observation.scale, 60 * SECOND, NOW).readings

    assert (3, 2, 0, 7467) == (reading.ready, reading.unready, reading.missing, reading.usage)
    assert (3000, 2000) == (reading.request, reading.unready_request)


def test_the_youngest_pods_go_first():
    """Three old pods, two of 30 s, one of 15 s: of those that go only the old one was Ready, and had served."""
    pods = Pods(((NOW - HOUR, 3),)).scaled(5, NOW - 30 * SECOND, MINUTE).scaled(6, NOW - 15 * SECOND, MINUTE)

    fewer, fewest = pods.scaled(4, NOW, MINUTE), pods.scaled(2, NOW, MINUTE)

    assert ([3, 1], ()) == ([number for _, number in fewer.made], fewer.gone)
    assert ([2], ((NOW, 1),)) == ([number for _, number in fewest.made], fewest.gone)
