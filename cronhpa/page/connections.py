"""
Connections of the page: accepted here, served by aiohttp.

aiohttp's server would accept as many connections as the process may have files. Here the rules of the operator's other
ports hold (`ports.accepting`). No connection lasts longer than LIFE_SECONDS, even one that sends its head byte by byte.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from msgspec import Struct

from cronhpa.ports.accepting import accepted, gives_way, listening_socket

LIFE_SECONDS = 120.0
_HANDSHAKE_SECONDS = 5.0


class ConnectionLimits(Struct, frozen=True):
    """connections: at most, of all addresses. per_peer: of one; behind a proxy all callers have one address."""

    connections: int = 64
    per_peer: int = 48
    life_seconds: float = LIFE_SECONDS


class _Connection:
    __slots__ = ("peer", "socket", "task", "transport")

    def __init__(self, peer: str, sock: socket.socket) -> None:
        self.peer, self.socket = peer, sock
        self.transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        return self.transport is not None and self.transport.is_closing()

    def end(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()
            self.socket.close()


class Connections:
    """
    `connections = Connections(host, port, factory)` is bound; `await connections.run()` accepts until cancelled.

    factory: makes the protocol of a connection. tls: None for clear text. Raises OSError if it cannot be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._factory, self._tls, self._limits = factory, tls, limits or ConnectionLimits()
        self._socket = listening_socket(host, port)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        # Oldest first.
        self._open: list[_Connection] = []

    @property
    def count(self) -> int:
        """Connections that are open."""
        return sum(not connection.is_over for connection in self._open)

    async def run(self) -> None:
        try:
            async for sock, peer in accepted(self._socket):
                self._admit(_Connection(peer, sock))
        finally:
            self._socket.close()
            for connection in self._open:
                connection.end()

    def _admit(self, connection: _Connection) -> None:
        self._open = [other for other in self._open if not other.is_over]
        limits = self._limits
        chosen = gives_way(connection.peer, self._open, connections=limits.connections, per_peer=limits.per_peer)
        if chosen is not None:
            self._open.remove(chosen)
            chosen.end()
        self._open.append(connection)
        connection.task = asyncio.create_task(self._serve(connection))

    async def _serve(self, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection.transport, _ = await loop.connect_accepted_socket(
                self._factory,
                connection.socket,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE_SECONDS,
            )
        except (OSError, ssl.SSLError, TimeoutError):
            # No handshake: a port scan, or a client without TLS.
            connection.socket.close()
            if connection in self._open:
                self._open.remove(connection)
            return
        loop.call_later(self._limits.life_seconds, connection.end)
