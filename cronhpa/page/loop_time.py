"""
The page's part of the event loop, so that decisions do not wait.

Each of four kinds of work takes a tenth of the time at most: what is done for all callers at once, requests of known
callers, those of others, and TLS.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from cronhpa.ports.loop_share import LoopShare

T = TypeVar("T")

_SHARE = 0.1
_PASS_SECONDS = 0.005


def page_share() -> LoopShare:
    """For work of one kind."""
    return LoopShare(_now, share=_SHARE)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, a few milliseconds of them in a pass of the event loop."""
    begun = time.thread_time()
    for item in items:
        if time.thread_time() - begun > _PASS_SECONDS:
            await asyncio.sleep(0)
            begun = time.thread_time()
        yield item


class SharedWork:
    """
    Work that many callers ask for, done for all of them at once. While its share is used up, its last result stands.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], share: LoopShare) -> None:
        self._work, self._share = work, share
        self._task: asyncio.Task[None] | None = None

    async def is_done(self, patience: float | None = None) -> bool:
        """False if it is not done after `patience` seconds. Raises what the work raised."""
        if self._task is None or (self._task.done() and not self._share.seconds_to_wait()):
            self._task = asyncio.create_task(self._share.awaited(self._work()), name="shared work of the page")
        await asyncio.wait((self._task,), timeout=patience)
        if self._task.done():
            self._task.result()
        return self._task.done()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
