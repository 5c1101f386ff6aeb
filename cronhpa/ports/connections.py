"""
Connections of the operator's ports: accepted here, served by aiohttp.

aiohttp's server would accept as many connections as the process may have files. Here the rules of `ports.accepting`
hold, and no connection lasts longer than its limit, even one that sends its head byte by byte.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from msgspec import Struct

from cronhpa.ports.accepting import accepted, gives_way, listening_socket

# Makes the kernel drop a connection that is closed early at once, with its unsent data.
_RESET = struct.pack("ii", 1, 0)


class ConnectionLimits(Struct, frozen=True):
    """Limits of a port's connections."""

    connections: int = 64
    """Connections of all addresses at a time."""
    per_peer: int = 48
    """Connections of one address at a time; behind a proxy all callers have one address."""
    life_seconds: float = 120.0


class _Connection:
    __slots__ = ("expiry", "peer", "socket", "task", "transport")

    def __init__(self, peer: str, sock: socket.socket) -> None:
        self.peer, self.socket = peer, sock
        self.transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None
        self.expiry: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """Not yet while the transport is closing: it may still hold data that the peer does not read."""
        return self.socket.fileno() == -1

    def end(self) -> None:
        if self.is_over:
            return
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()
            self.socket.close()


class Connections:
    """
    `connections = Connections(host, port, factory)` is bound; `await connections.run()` accepts until cancelled.

    factory: makes the protocol of a connection. Raises OSError if it cannot be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.BaseProtocol],
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._factory, self._limits = factory, limits or ConnectionLimits()
        self.dropped = 0
        """Number of connections closed before their end: for a new one, or because they lasted too long."""
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
        self._forget_ended()
        limits = self._limits
        chosen = gives_way(connection.peer, self._open, connections=limits.connections, per_peer=limits.per_peer)
        if chosen is not None:
            self._drop(chosen)
        self._open.append(connection)
        connection.task = asyncio.create_task(self._serve(connection))

    def _forget_ended(self) -> None:
        for connection in self._open:
            if connection.is_over and connection.expiry is not None:
                connection.expiry.cancel()
        self._open = [connection for connection in self._open if not connection.is_over]

    def _drop(self, connection: _Connection) -> None:
        if connection in self._open and not connection.is_over:
            self._open.remove(connection)
            self.dropped += 1
            connection.end()

    async def _serve(self, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection.transport, _ = await loop.connect_accepted_socket(self._factory, connection.socket)
        except OSError:
            connection.socket.close()
            if connection in self._open:
                self._open.remove(connection)
            return
        connection.expiry = loop.call_later(self._limits.life_seconds, self._drop, connection)
