"""
Reads the answers of a server in the event loop, at a pace: whatever a server sends, it takes a small part of the loop.

Chunks of one byte, or thousands of `100 Continue`, cost the parser of HTTP a hundred times as much as an honest answer
of the same length, and the callbacks of all connections run in one pass of the loop. So the parser gets small pieces,
and none while the CPU time of the server's share is used up: what a socket holds then waits, up to the deadline of its
request.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from cronhpa.ports.loop_share import LoopShare

# Of the costliest form some two milliseconds.
_PIECE_BYTES = 2**12


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
