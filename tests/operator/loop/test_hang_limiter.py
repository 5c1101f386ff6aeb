"""Requests to a metrics API that hangs: few are under way, and those that are answered are not refused."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import live

from cronhpa.core.model.observation import Absent
from cronhpa.operator.loop.metric_apis import SharedApi

DEADLINE_S = 15.0


class Api:
    """A metrics API as namespaces share it. under_way, most: its requests now, and at most since `most` was set."""

    def __init__(self):
        self._shared = SharedApi("external")
        self.under_way = self.most = 0

    async def ask(self, query, send, namespace="prod"):
        async def sent():
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            try:
                return await send()
            finally:
                self.under_way -= 1

        return await self._shared.ask(namespace, query, sent)

    async def ask_all(self, queries, send, namespace="prod"):
        return await asyncio.gather(*(self.ask(query, send, namespace) for query in queries))

    def begin_all(self, queries, send, namespace="prod"):
        return [asyncio.create_task(self.ask(query, send, namespace)) for query in queries]


async def hang():
    await asyncio.sleep(DEADLINE_S)
    return Absent("Unreachable", "no answer")


async def answer():
    await asyncio.sleep(0.02)
    return 7


@pytest.mark.parametrize(("namespaces", "most"), [(1, 8 + 6), (2, 8 + 8 + 8), (3, 8 + 8), (10, 8 + 8), (200, 8 + 8)])
def test_once_some_have_hung_few_are_under_way(namespaces, most):
    """Eight of each of two namespaces, or of all; and of those that hung before eight, six of one namespace."""

    async def scenario():
        api, seen = Api(), []
        for _ in range(4):
            await asyncio.gather(*(api.ask(query, hang, f"team-{query % namespaces}") for query in range(400)))
            seen.append(api.most)
            api.most = 0
        return seen

    first, *later = live(scenario)

    assert first <= 56 + 8
    assert max(later) <= most


def test_the_others_are_refused_at_once():
    async def scenario():
        api, loop = Api(), asyncio.get_running_loop()
        await api.ask_all(range(40), hang)
        under_way = api.begin_all(range(40), hang)
        await asyncio.sleep(0.1)
        begun = loop.time()
        refused = await api.ask(7, hang)
        seconds = loop.time() - begun
        await asyncio.gather(*under_way)
        return refused, seconds

    refused, seconds = live(scenario)

    assert seconds < 0.001
    assert isinstance(refused, Absent)
    assert "external metrics API: the last requests were not answered within 5 s" in refused.message


def test_metrics_that_are_answered_again_are_asked_again():
    """Those that come at the instant at which the first ones are sent are refused once more; after that none is."""

    async def scenario():
        api = Api()
        await api.ask_all(range(40), hang)
        first = await api.ask_all(range(40), answer)
        return first, await api.ask_all(range(3000), answer), await api.ask_all(range(40), answer)

    first, others, all_again = live(scenario)

    assert 6 <= first.count(7)
    assert [7] * 3000 == others
    assert [7] * 40 == all_again


@given(st.integers(1, 40))
def test_metrics_that_hang_leave_the_places_of_one_that_is_answered(hanging):
    """The other metric is answered between them, so that not the API hangs but they do."""

    async def scenario():
        api = Api()
        for _ in range(3):
            await api.ask_all(range(hanging), hang)
            assert 7 == await api.ask("good", answer)
        under_way = api.begin_all(range(hanging), hang)
        await asyncio.sleep(0.1)
        good = await api.ask("good", answer)
        await asyncio.gather(*under_way)
        return good

    assert 7 == live(scenario)


@pytest.mark.parametrize("hanging", [("a",), ("a", "b")])
def test_namespaces_whose_metrics_hang_have_none_of_another_one_refused(hanging):
    """Fifty metrics are asked at the very instant at which those of the others have hung."""

    async def scenario():
        api = Api()
        for namespace in hanging:
            await api.ask_all(range(100), hang, namespace)
        return await api.ask_all(range(50), answer, "other")

    assert [7] * 50 == live(scenario)


def test_a_metric_that_hung_is_asked_again_while_another_namespaces_hang():
    async def scenario():
        api = Api()
        await api.ask("once", hang, "other")
        for _ in range(3):
            await api.ask_all(range(100), hang)
        under_way = api.begin_all(range(100), hang)
        await asyncio.sleep(0.1)
        again = await api.ask("once", answer, "other")
        await asyncio.gather(*under_way)
        return again

    assert 7 == live(scenario)


@pytest.mark.parametrize("namespaces", [1, 1000], ids=["one namespace", "1,000 namespaces"])
def test_metrics_that_hang_for_ever_are_refused_at_once_though_others_are_answered(namespaces):
    """Forty hang and forty are answered: in each later period some are asked and hang, the others wait for nothing."""

    async def scenario():
        api, loop = Api(), asyncio.get_running_loop()

        async def seconds_of(query):
            begun = loop.time()
            await api.ask(query, hang if query < 40 else answer, f"team-{query % namespaces}")
            return loop.time() - begun

        for _ in range(3):
            seconds = await asyncio.gather(*(seconds_of(query) for query in range(80)))
        return [one for one in seconds if one < DEADLINE_S]

    seconds = live(scenario)

    assert 80 - 8 <= len(seconds)
    assert max(seconds) <= 0.05


def test_one_namespace_and_two_broken_metrics_of_others_do_not_say_that_the_api_hangs():
    """Of one namespace three requests count: five with those of the others, where eight say that the API hangs."""

    async def scenario():
        api = Api()
        await asyncio.gather(api.ask(0, hang, "b"), api.ask(0, hang, "c"), api.ask_all(range(30), hang))
        under_way = api.begin_all(range(100, 130), hang)
        await asyncio.sleep(0.1)
        answers = await api.ask_all(range(40), answer, "other")
        await asyncio.gather(*under_way)
        return answers

    assert [7] * 40 == live(scenario)


def test_once_an_api_hangs_for_several_namespaces_those_of_any_other_are_refused_at_once():
    async def scenario():
        api, loop = Api(), asyncio.get_running_loop()
        for namespace in ("a", "b", "c"):
            await api.ask_all(range(3), hang, namespace)
        under_way = api.begin_all(range(3, 20), hang, "d")
        await asyncio.sleep(0.1)
        begun = loop.time()
        refused = await api.ask("new", hang, "e")
        seconds = loop.time() - begun
        await asyncio.gather(*under_way)
        return refused, seconds

    refused, seconds = live(scenario)

    assert isinstance(refused, Absent)
    assert seconds < 0.001


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.sampled_from([0.01, 2, 5, 14, 15, 40])), max_size=200)
)
def test_requests_that_are_given_up_at_any_time_leave_no_place_taken(asked):
    """(namespace, query, when its asker gives up): afterwards all places of all kinds are there."""

    async def scenario():
        api = Api()

        async def give_up(namespace, query, seconds):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await api.ask(query, hang, f"team-{namespace}")

        await asyncio.gather(*(give_up(*one) for one in asked))
        assert 0 == api.under_way
        await api.ask_all(range(100, 200), answer, "fresh")
        for namespace in range(4):
            for query in range(10):
                assert 7 == await api.ask(query, answer, f"team-{namespace}")
        api.most = 0
        begun = api.begin_all(range(60), hang, "one") + api.begin_all(range(60), hang, "two")
        await asyncio.sleep(0.1)
        for task in begun:
            task.cancel()
        await asyncio.wait(begun)
        return api.most

    assert 56 == live(scenario)


def test_an_error_of_a_request_is_no_refusal():
    async def fail():
        await asyncio.sleep(6)
        raise TimeoutError("its own")

    async def scenario():
        api = Api()
        await api.ask("queue", hang)  # so that the next one waits for a place among those that hang
        await api.ask("queue", fail)

    with pytest.raises(TimeoutError, match="its own"):
        live(scenario)
