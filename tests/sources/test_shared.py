"""cronhpa.sources.shared: one request a period, however many ask, and no answer twice for one of them."""

import asyncio

from cronhpa.sources.shared import SharedAnswers
from sources.virtual_periods import Periods


async def asked(shared, sent, clock, asker, period, question="q"):
    async def send():
        sent.append(clock.now)
        return clock.now

    return await shared.ask(question, asker, period, send)


async def test_a_thousand_objects_with_phases_of_their_own_cost_one_request_a_period():
    clock, sent = Periods(), []
    shared = SharedAnswers(clock)
    oldest = 0.0
    for period in range(10):
        for number in range(1000):
            clock.now = 15 * (period + number / 1000)
            oldest = max(oldest, clock.now - await asked(shared, sent, clock, number, 15))

    assert 10 == len(sent)
    assert oldest < 15


async def test_periods_that_jitter_cost_no_further_request_and_give_nobody_an_old_answer():
    clock, sent = Periods(), []
    shared = SharedAnswers(clock)
    for period in range(20):
        clock.now = 15 * period + (-0.01 if period % 2 else 0.01)
        answer = await asked(shared, sent, clock, "shop", 15)

        assert clock.now == answer
    assert 20 == len(sent)


async def test_an_object_that_asks_often_is_not_given_the_answer_of_one_that_asks_seldom():
    clock, sent = Periods(), []
    shared = SharedAnswers(clock)
    await asked(shared, sent, clock, "seldom", 60)
    clock.now = 2

    assert 2 == await asked(shared, sent, clock, "often", 1)


async def test_a_reconciliation_off_the_grid_takes_the_answer_of_a_moment_ago():
    clock, sent = Periods(), []
    shared = SharedAnswers(clock)
    await asked(shared, sent, clock, "shop", 15)
    clock.now = 0.4
    await asked(shared, sent, clock, "shop", 15)

    assert [0] == sent


async def test_while_a_request_is_under_way_no_second_one_is_sent():
    clock, sent, begun, answer = Periods(), [], asyncio.Event(), asyncio.Event()
    shared = SharedAnswers(clock)

    async def slow():
        sent.append(clock.now)
        begun.set()
        await answer.wait()
        return "late"

    first = asyncio.create_task(shared.ask("q", "a", 1, slow))
    await begun.wait()
    clock.now = 3
    second = asyncio.create_task(shared.ask("q", "b", 1, slow))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    answer.set()

    assert "late" == await second
    assert [0] == sent


async def test_different_questions_are_sent_each():
    clock, sent = Periods(), []
    shared = SharedAnswers(clock)
    for question in "abc":
        await asked(shared, sent, clock, "shop", 15, question)

    assert 3 == len(sent)
