"""
cronhpa.operator.loop.control_loop: how soon a step of the load is answered where the source is asked each second.

In virtual time; `make bench-reaction` measures the real time.
"""

import asyncio

import pytest
from lives import Life, cronhpa, deployment, until
from model_api import START, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.observation import Sample
from cronhpa.core.model.spec import ExternalMetric
from cronhpa.sources.metric_sources import MetricSources
from cronhpa.sources.shared import SharedAnswers

NAMESPACES, STEP_S = 10, 5.3
AVERAGE = {"type": "AverageValue", "averageValue": "10"}
IN_FLIGHT = {"type": "Pods", "pods": {"metric": {"name": "inflight"}, "target": AVERAGE}}
REQUESTS = {"type": "External", "external": {"metric": {"name": "requests"}, "target": AVERAGE}}
# What a scrape of some pods, or a query, takes.
ANSWER_S = 0.05


class Sources(MetricSources):
    """A Pods metric is a load that the pods share now, an External one what was scraped at the full second."""

    def __init__(self, api):
        super().__init__(api.now)
        self._api = api
        self._answers = SharedAnswers(lambda: asyncio.get_running_loop().time())
        self.queries = 0

    def load(self, at):
        return 40_000 if at - START >= STEP_S * SECOND else 20_000

    async def value(self, metric, measured):
        if isinstance(metric, ExternalMetric):
            return await self._answers.ask("query", measured.name, measured.period / SECOND, self._ask)
        await asyncio.sleep(ANSWER_S)
        now = self._api.now()
        return {pod.name: Sample(self.load(now) // len(measured.pods), now, 0) for pod in measured.pods}

    async def _ask(self):
        self.queries += 1
        await asyncio.sleep(ANSWER_S)
        return self.load(self._api.now() // SECOND * SECOND)


def one_by_one(seconds):
    """The latency of an API server that does a write in so many seconds, and one after the other."""
    free_at = 0.0

    def latency(method, _):
        nonlocal free_at
        now = asyncio.get_running_loop().time()
        if method == "GET":
            return 0.001
        free_at = max(free_at, now) + seconds
        return free_at - now

    return latency


def reactions(metric, objects, seconds, latency=None):
    """Seconds from the step to each object's scale write, sorted; and the queries a second after the step."""

    async def scenario():
        api = ModelApi()
        if latency is not None:
            api.latency = latency
        for number in range(objects):
            namespace, name = f"team-{number % NAMESPACES}", f"app-{number}"
            deployment(api, name, namespace=namespace)
            cronhpa(api, name, namespace, metrics=[metric], syncPeriodSeconds=1)
        sources = Sources(api)
        async with Life(api, sources=sources):
            await until(STEP_S)
            before = sources.queries
            await until(STEP_S + seconds)
        assert objects == len(api.scalings)
        assert {(2, 4)} == {change[2:] for change in api.scalings}
        return sorted((at - START) / SECOND - STEP_S for at, *_ in api.scalings), (sources.queries - before) / seconds

    return live(scenario)


@pytest.mark.slow
def test_200_objects_answer_a_step_that_their_pods_tell_within_two_seconds():
    """A reconciliation a second, a scrape, a write: 1.05 s and the writes of those that are due at the same moment."""
    lags, _ = reactions(IN_FLIGHT, 200, 3)

    assert lags[0] > 0
    assert lags[int(0.99 * 200) - 1] <= 2


@pytest.mark.slow
def test_the_reports_of_the_first_objects_do_not_stand_before_the_scale_writes_of_the_last():
    """
    An API server that does 200 writes a second, as one of two cores: for the 200 scale writes it needs a second, for
    them with their statuses and events four.

    Found: the last of 200 were scaled after 4.3 s where it was busy.
    """
    lags, _ = reactions(IN_FLIGHT, 200, 8, latency=one_by_one(0.005))

    assert lags[int(0.99 * 200) - 1] <= 2


def test_with_one_query_they_wait_for_a_scrape_and_at_most_two_periods_more():
    """A scrape a second, a query a second that all of them share, a reconciliation a second."""
    lags, queries = reactions(
        {"type": "External", "external": {"metric": {"name": "requests"}, "target": AVERAGE}}, 60, 4
    )

    assert lags[-1] <= 3 + 2 * ANSWER_S + 0.1
    assert queries <= 1.25
