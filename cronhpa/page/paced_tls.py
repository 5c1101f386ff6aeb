"""
Reads connections by TLS within a share of the event loop, handshakes included.

asyncio decrypts whatever arrived in one callback, 64 to 256 KiB. A client that proves nothing may send handshakes, or
TLS 1.3 KeyUpdates alone, of 27 bytes and 10 µs each: it would have the loop for itself. Here TLS gets small pieces, and
none while the share is used up: what a socket holds then waits.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import ssl
from functools import partial
from typing import Any, cast

from cronhpa.ports.loop_share import LoopShare

_HANDSHAKE_SECONDS = 5
# Less than a millisecond of the costliest records: all connections may be read in one pass of the loop.
PIECE_BYTES = 2**11


def paced_tls(protocol: asyncio.Protocol, context: ssl.SSLContext, share: LoopShare) -> asyncio.BufferedProtocol:
    """What a server's connection gets as its protocol, so that `protocol` is served by TLS."""
    nobody_waits: Any = None
    tls = asyncio.sslproto.SSLProtocol(
        asyncio.get_running_loop(),
        protocol,
        context,
        nobody_waits,
        server_side=True,
        ssl_handshake_timeout=_HANDSHAKE_SECONDS,
    )
    return PacedTls(tls, share)


class PacedTls(asyncio.BufferedProtocol):
    """A connection: the protocol of its transport, and the transport of TLS."""

    def __init__(self, tls: asyncio.BufferedProtocol, share: LoopShare) -> None:
        self._tls, self._share = tls, share
        self._transport: Any = None
        self._is_paused_by_tls = False
        self._alarm: asyncio.TimerHandle | None = None

    # --- as a protocol -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._tls.connection_made(cast("asyncio.Transport", self))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._tls.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> Any:
        return memoryview(self._tls.get_buffer(sizehint))[:PIECE_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        self._share.called(partial(self._tls.buffer_updated, nbytes))
        self._go_on()

    def eof_received(self) -> bool | None:
        return self._tls.eof_received()

    def pause_writing(self) -> None:
        self._tls.pause_writing()

    def resume_writing(self) -> None:
        self._tls.resume_writing()

    # --- as a transport ------------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        self._is_paused_by_tls = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused_by_tls = False
        if self._alarm is None:
            self._transport.resume_reading()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _go_on(self) -> None:
        """Reads on if something of the share is left, else later."""
        self._alarm = None
        seconds = self._share.seconds_to_wait()
        if seconds:
            self._transport.pause_reading()
            self._alarm = asyncio.get_running_loop().call_later(seconds, self._go_on)
        elif not self._is_paused_by_tls:
            self._transport.resume_reading()
