"""cronhpa.ports.loop_share: work of one kind takes a part of the time."""

import asyncio
from itertools import count

import pytest

from cronhpa.ports.loop_share import LOOP_SHARE, MOST_SECONDS, REQUEST_SECONDS, LoopShare
from sources.virtual_periods import Periods


def test_a_share_is_used_up_and_grows_with_time_and_requests():
    clock, cpu = Periods(), Periods()
    share = LoopShare(clock, cpu)

    def work(seconds):
        cpu.now += seconds

    assert 0 == share.seconds_to_wait()
    share.called(lambda: work(MOST_SECONDS + 0.1))
    # 0.1 s too much, and the millisecond that is saved up for the next piece, at 5 % of the time.
    assert share.seconds_to_wait() == pytest.approx(0.101 / LOOP_SHARE)
    for _ in range(50):
        share.add_request()
    assert share.seconds_to_wait() == pytest.approx((0.101 - 50 * REQUEST_SECONDS) / LOOP_SHARE)
    clock.now += share.seconds_to_wait()
    assert 0 == share.seconds_to_wait()


async def test_whoever_waits_for_a_share_goes_on_once_something_is_left():
    """10 ms too much, at half of the time: 20 ms."""
    clock = asyncio.get_running_loop().time
    share = LoopShare(clock, share=0.5)
    await share.available()
    begun = clock()
    share.spend(MOST_SECONDS + 0.01)

    await share.available()

    assert 0 == share.seconds_to_wait()
    assert 0.02 <= clock() - begun


async def test_the_steps_of_a_coroutine_count_and_its_waits_do_not():
    clock, steps = Periods(), count()
    share = LoopShare(clock, lambda: next(steps) * 0.001)

    async def work():
        await asyncio.sleep(0)
        with pytest.raises(LookupError):
            await failing
        return 42

    failing = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, failing.set_exception, LookupError())

    # Three steps of a millisecond each.
    assert 42 == await share.awaited(work())
    share.spend(MOST_SECONDS)
    assert share.seconds_to_wait() == pytest.approx(0.004 / LOOP_SHARE)


async def test_a_coroutine_that_is_given_up_ends():
    ended = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    task = asyncio.create_task(LoopShare(Periods()).awaited(work()))
    await asyncio.sleep(0)
    task.cancel()

    assert [asyncio.CancelledError] == [type(one) for one in await asyncio.gather(task, return_exceptions=True)]
    assert [True] == ended
