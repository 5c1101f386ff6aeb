"""
Connections of the page: accepted here, served by aiohttp.

aiohttp's server accepts as many connections as the process may have files. Here the rules of the operator's other ports
hold: at most so many connections at a time, and of one address; a new one is always accepted, and pushes out the oldest
of the address that has the most; none lasts longer than LIFE_SECONDS, also one that sends its head byte by byte.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

LOG = logging.getLogger(__name__)

LIFE_SECONDS = 120.0
_BACKLOG = 256
_ACCEPTS_AT_ONCE = 8
_ACCEPTS_PAUSE_SECONDS = 0.01
_NO_ROOM_SECONDS = 0.1
_HANDSHAKE_SECONDS = 5.0


class ConnectionLimits(Struct, frozen=True):
    """connections: of all addresses. per_peer: of one; behind a proxy all callers come from one address."""

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
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        is_dual = host == "::" and socket.has_dualstack_ipv6()
        self._socket = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=is_dual)
        self._socket.setblocking(False)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        # Oldest first.
        self._open: list[_Connection] = []

    @property
    def count(self) -> int:
        """Connections that are open."""
        return sum(not each.is_over for each in self._open)

    async def run(self) -> None:
        loop, count = asyncio.get_running_loop(), 0
        try:
            while True:
                try:
                    accepted, address = await loop.sock_accept(self._socket)
                except OSError as error:
                    LOG.warning("port %d cannot take a connection: %s", self.address[1], error)
                    await asyncio.sleep(_NO_ROOM_SECONDS)
                    continue
                self._admit(_Connection(address[0], accepted))
                count += 1
                if count % _ACCEPTS_AT_ONCE == 0:
                    await asyncio.sleep(_ACCEPTS_PAUSE_SECONDS)
        finally:
            self._socket.close()
            for each in self._open:
                each.end()

    def _admit(self, connection: _Connection) -> None:
        self._open = [each for each in self._open if not each.is_over]
        held = Counter(each.peer for each in self._open)
        if held[connection.peer] >= self._limits.per_peer:
            self._push_out({connection.peer})
        elif len(self._open) >= self._limits.connections:
            most = max(held.values())
            self._push_out({peer for peer, count in held.items() if count == most})
        self._open.append(connection)
        connection.task = asyncio.create_task(self._serve(connection))

    def _push_out(self, peers: set[str]) -> None:
        chosen = next(each for each in self._open if each.peer in peers)
        self._open.remove(chosen)
        chosen.end()

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
            # No handshake: a port scan, or somebody who speaks no TLS.
            connection.socket.close()
            if connection in self._open:
                self._open.remove(connection)
            return
        loop.call_later(self._limits.life_seconds, connection.end)
