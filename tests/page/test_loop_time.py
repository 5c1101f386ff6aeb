"""cronhpa.page.loop_time: work that callers share, within a share of the event loop."""

import asyncio

import pytest

from cronhpa.page.loop_time import SharedWork, in_slices
from cronhpa.ports.loop_share import MOST_SECONDS, LoopShare
from sources.virtual_periods import Periods


class Work:
    """Takes more CPU time at once than its share has left."""

    def __init__(self, error=None):
        self.begun, self.error = 0, error
        self.clock, cpu = Periods(), Periods()
        self._cpu = cpu
        self.shared = SharedWork(self.work, LoopShare(self.clock, cpu, share=0.1))

    async def work(self):
        self.begun += 1
        await asyncio.sleep(0)
        self._cpu.now += 2 * MOST_SECONDS
        if self.error is not None:
            raise self.error


async def test_callers_at_once_share_one_work():
    work = Work()

    assert [True] * 100 == await asyncio.gather(*(work.shared.is_done() for _ in range(100)))
    assert 1 == work.begun


async def test_work_is_done_again_once_its_share_has_something_left():
    """It takes 0.1 s, of which 0.05 s are left at first, and nothing later: 0.5 s pass, and then 1 s."""
    work = Work()
    for seconds, begun in ((0, 1), (0.49, 1), (0.51, 2), (1.49, 2), (1.52, 3)):
        work.clock.now = seconds
        assert await work.shared.is_done()
        assert begun == work.begun


async def test_work_that_failed_fails_for_those_who_ask_while_its_share_is_used_up():
    work = Work(LookupError("it died"))
    for _ in range(10):
        with pytest.raises(LookupError):
            await work.shared.is_done()

    assert 1 == work.begun


async def test_whoever_waits_long_enough_goes_on_without_the_work():
    hangs = asyncio.Event()
    shared = SharedWork(hangs.wait, LoopShare(Periods()))

    assert not await shared.is_done(0.01)
    hangs.set()
    assert await shared.is_done()


async def test_others_have_the_loop_while_many_items_are_gone_through():
    """Each item takes milliseconds of CPU: after one or a few the loop goes round."""
    passes, items = 0, 0

    async def other():
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    async for number in in_slices(range(30)):
        items += number
        sum(range(300_000))
    beside.cancel()

    assert sum(range(30)) == items
    assert passes > 5
