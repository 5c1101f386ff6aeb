"""
Reads the answers of a server in the event loop, at a pace: whatever a server sends, it takes a small part of the loop.

Chunks of one byte, or thousands of `100 Continue`, cost the parser of HTTP a hundred times as much as an honest answer
of the same length, and the callbacks of all connections run in one pass of the loop. So the parser gets small pieces,
and none while the CPU time of the server's share is used up: what a socket holds then waits, up to the deadline of its
request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

import aiohttp
from aiohttp.client_proto import ResponseHandler

T = TypeVar("T")

# Of the time that passes, and of a CPU for each request: an honest answer takes a tenth to a third of it.
LOOP_SHARE = 0.05
REQUEST_SECONDS = 0.001
# What may be used at once: no longer is the loop away for the answers of one server.
MOST_SECONDS = 0.05
# Of the costliest form some two milliseconds.
_PIECE_BYTES = 2**12
# What is saved up before the next piece is parsed.
_PIECE_SECONDS = 0.001


class LoopShare:
    """
    The CPU time that the answers of one server may take, or other work of one kind.

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


def _handler(share: LoopShare, loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _PacedHandler(share, loop)


class PacedConnector(aiohttp.TCPConnector):
    """Connections to one server, whose answers are parsed within its share."""

    def __init__(self, share: LoopShare, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(_handler, share, self._loop)


class _PacedHandler(ResponseHandler):
    """One connection. It gives to aiohttp's parser, piece by piece, what was received."""

    def __init__(self, share: LoopShare, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._share = share
        self._unread = bytearray()
        self._is_held = False
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def should_close(self) -> bool:
        # Bytes behind an answer are no answer to the next request.
        return bool(self._unread) or super().should_close

    def data_received(self, data: bytes) -> None:
        self._unread += data
        # aiohttp pauses while nobody takes what was parsed; then it lets the parser go on with what that holds itself.
        self._is_held |= not data
        self._parse()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._unread.clear()
        super().connection_lost(exc)

    def _parse(self) -> None:
        while (self._is_held or self._unread) and not self._reading_paused and self.transport is not None:
            seconds = self._share.seconds_to_wait()
            if seconds > 0:
                self._pause_transport_reading()
                if self._alarm is None:
                    self._alarm = self._loop.call_later(seconds, self._go_on)
                return
            size = 0 if self._is_held else _PIECE_BYTES
            self._is_held = False
            piece = bytes(self._unread[:size])
            del self._unread[:size]
            self._share.called(partial(super().data_received, piece))

    def _resume_transport_reading(self) -> None:
        if self._alarm is None:
            super()._resume_transport_reading()

    def _go_on(self) -> None:
        self._alarm = None
        self._parse()
        if not self._reading_paused:
            self._resume_transport_reading()
