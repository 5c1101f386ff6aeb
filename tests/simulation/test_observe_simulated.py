"""cronhpa.simulation.observe: the observation of pod groups equals that of single pods."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from core.situations import cpu, queue, spec
from cronhpa.core.metrics.observe import observe
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.observation import Absent, Scale
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, PodsMetric, ResourceMetric
from cronhpa.simulation.load import Load
from cronhpa.simulation.observe import observe_simulated
from cronhpa.simulation.target import Environment, SimulatedTarget

REQUESTS = PodsMetric("requests", MetricTarget("AverageValue", average_value=3000))
MEMORY = ResourceMetric("memory", MetricTarget("AverageValue", average_value=500))
METRICS = (cpu(60), MEMORY, REQUESTS, queue())


def seen_pod_by_pod(of, target):
    """As `observe` tells it when it is handed every pod and every sample."""
    samples = target.samples() or Absent("FailedGetResourceMetric", "the load of this time is not known")
    measured = [target.total() if metric == queue() else samples for metric in of.metrics]
    return observe(of, Scale(target.replicas, target.replicas, ""), target.pods, measured, target.now)


@given(
    st.lists(st.tuples(st.integers(1, 400), st.sampled_from([0, 3, 3, 3, 4])), max_size=12),
    st.sampled_from([{"cpu": 1000}, {}]),
)
@example([(15, 3)] * 3 + [(400, 4), (15, 4), (500, 4), (15, 4)], {"cpu": 1000})
def test_an_observation_made_from_an_earlier_one_is_that_of_the_pods(moves, requests):
    """Pods that are Ready for long differ in their usage alone; before and after that nothing is taken over."""
    of = spec(metrics=METRICS, forecast=ForecastSettings())
    environment = Environment(capacity=1.0, requests=requests, start_up=2 * MINUTE)
    target = SimulatedTarget(environment, Load([(0, 1.0), (600 * SECOND, 7.0), (1400 * SECOND, 1.0)]), 3, 0)
    settled = None

    for seconds, wanted in moves:
        target.advance(target.now + seconds * SECOND)
        seen = observe_simulated(of, target, settled)
        assert seen_pod_by_pod(of, target) == seen
        settled = seen if target.is_settled else None
        target.scale(wanted)


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(0, 12)), max_size=8),
    st.integers(0, 6),
    st.sampled_from([{"cpu": 1000}, {"cpu": 333}, {}]),
)
@example([(40, 9), (40, 3)], 4, {"cpu": 1000})
def test_crowds_are_seen_as_their_pods_are(moves, replicas, requests):
    """At every moment, whoever starts, lacks samples or goes; without a request a utilization is absent."""
    of = spec(metrics=METRICS, forecast=ForecastSettings())
    environment = Environment(capacity=1.0, requests=requests, start_up=2 * MINUTE)
    target = SimulatedTarget(environment, Load([(0, 1.0), (600 * SECOND, 7.0)]), replicas, 0)

    for seconds, wanted in moves:
        target.advance(target.now + seconds * SECOND)
        assert seen_pod_by_pod(of, target) == observe_simulated(of, target)
        target.scale(wanted)
        assert seen_pod_by_pod(of, target) == observe_simulated(of, target)
