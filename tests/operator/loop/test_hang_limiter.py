"""Requests to a metrics API that hangs: few are under way, and those that are answered are not refused."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from virtual_time import live

from cronhpa.core.model.observation import Absent
from cronhpa.operator.loop.hang_limiter import HangLimiter

DEADLINE_S = 15.0


async def hang():
    await asyncio.sleep(DEADLINE_S)
    return Absent("Unreachable", "no answer")


async def answer():
    return 7


@given(st.integers(40, 200), st.integers(2, 5))
def test_once_some_have_hung_sixteen_at_most_are_under_way(keys, rounds):
    async def scenario():
        limiter, sent = HangLimiter("external"), []
        for _ in range(rounds):
            before = limiter.sent
            await asyncio.gather(*(limiter.ask(key, hang) for key in range(keys)))
            sent.append(limiter.sent - before)
        return sent

    first, *later = live(scenario)

    assert first <= 32 + 16
    assert all(count <= 16 for count in later)


def test_the_others_are_refused_at_once():
    async def scenario():
        limiter, loop = HangLimiter("external"), asyncio.get_running_loop()
        await asyncio.gather(*(limiter.ask(key, hang) for key in range(40)))
        under_way = [asyncio.create_task(limiter.ask(key, hang)) for key in range(40)]
        await asyncio.sleep(0.1)
        begun = loop.time()
        refused = await limiter.ask(7, hang)
        seconds = loop.time() - begun
        await asyncio.gather(*under_way)
        return refused, seconds

    refused, seconds = live(scenario)

    assert 0 == seconds
    assert isinstance(refused, Absent)
    assert "external metrics API: the last requests were not answered within 5 s" in refused.message


def test_a_metric_that_is_answered_again_is_asked_again():
    async def scenario():
        limiter = HangLimiter("external")
        await asyncio.gather(*(limiter.ask(key, hang) for key in range(40)))
        return [await limiter.ask(key, answer) for key in range(40)]

    assert [7] * 40 == live(scenario)


@given(st.integers(1, 40))
def test_metrics_that_hang_leave_the_places_of_one_that_is_answered(hanging):
    """The other metric is answered between them, so that not the API hangs but they do."""

    async def scenario():
        limiter = HangLimiter("external")
        for _ in range(3):
            under_way = [asyncio.create_task(limiter.ask(key, hang)) for key in range(hanging)]
            await asyncio.gather(*under_way)
            assert 7 == await limiter.ask("good", answer)
        under_way = [asyncio.create_task(limiter.ask(key, hang)) for key in range(hanging)]
        await asyncio.sleep(0.1)
        good = await limiter.ask("good", answer)
        await asyncio.gather(*under_way)
        return good

    assert 7 == live(scenario)
