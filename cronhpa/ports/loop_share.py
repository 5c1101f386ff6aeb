"""A part of the event loop's time for work of one kind, so that decisions do not wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Of the time that passes, and of a CPU for each request: an honest answer takes a tenth to a third of it.
LOOP_SHARE = 0.05
REQUEST_SECONDS = 0.001
# What may be used at once: no longer is the loop away for work of one kind.
MOST_SECONDS = 0.05
# What is saved up before the next piece is done.
_PIECE_SECONDS = 0.001


class LoopShare:
    """
    The CPU time that work of one kind may take, such as that on the answers of one server.

    clock: seconds. cpu_clock: seconds of CPU time of the calling thread. share: of the time that passes.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        cpu_clock: Callable[[], float] = time.thread_time,
        share: float = LOOP_SHARE,
    ) -> None:
        self._clock, self._cpu_clock, self._share = clock, cpu_clock, share
        self._left, self._at = MOST_SECONDS, 0.0

    def add_request(self) -> None:
        """A request is sent, for whose answer there is CPU time."""
        self._add(REQUEST_SECONDS)

    def spend(self, seconds: float) -> None:
        self._add(-seconds)

    def seconds_to_wait(self) -> float:
        """Until something is left; 0 if something is."""
        left = self._add(0.0)
        return 0.0 if left > 0 else (_PIECE_SECONDS - left) / self._share

    async def available(self) -> None:
        """Returns once something is left."""
        while seconds := self.seconds_to_wait():  # noqa: ASYNC110 - time passes without an event
            await asyncio.sleep(seconds)

    def called(self, work: Callable[[], T]) -> T:
        """What `work` returns; its CPU time counts."""
        begun = self._cpu_clock()
        try:
            return work()
        finally:
            self.spend(self._cpu_clock() - begun)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What `work` returns in a thread; its CPU time counts."""
        seconds = 0.0

        def timed() -> T:
            nonlocal seconds
            begun = self._cpu_clock()
            try:
                return work()
            finally:
                seconds = self._cpu_clock() - begun

        try:
            return await asyncio.to_thread(timed)
        finally:
            self.spend(seconds)

    async def awaited(self, work: Coroutine[Any, None, T]) -> T:
        """What `work` returns; the CPU time of its steps counts, and not that of others while it waits."""
        return await _Steps(self, work)

    def _add(self, seconds: float) -> float:
        now = self._clock()
        self._left = min(MOST_SECONDS, self._left + (now - self._at) * self._share + seconds)
        self._at = now
        return self._left


class _Steps(Generic[T]):
    def __init__(self, share: LoopShare, work: Coroutine[Any, None, T]) -> None:
        self._share, self._work = share, work

    def __await__(self) -> Generator[Any, None, T]:
        step = partial(self._work.send, None)
        while True:
            try:
                waited_for = self._share.called(step)
            except StopIteration as end:
                value: T = end.value
                return value
            try:
                yield waited_for
                step = partial(self._work.send, None)
            except BaseException as error:  # noqa: BLE001 - handed on to the work, which ends by it
                step = partial(self._work.throw, error)
