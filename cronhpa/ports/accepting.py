"""
Connections of one of the operator's ports: it is bound, it accepts at a pace, and old connections give way to new ones.

A new connection is always accepted. If there is no room, the oldest connection of the address that has most gives way,
so that one address cannot push out another.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Protocol, TypeVar

LOG = logging.getLogger(__name__)

ACCEPTS_AT_ONCE = 8
"""No more than one address may have at a port, so that each is read once before another can push it out."""
# Connections that wait in the kernel to be accepted.
_BACKLOG = 256
_ACCEPTS_PAUSE_SECONDS = 0.01
# Before the next try after the system had no file or memory for a connection.
_NO_ROOM_SECONDS = 0.1


class OpenConnection(Protocol):
    """An open connection."""

    peer: str
    """The address of the other side."""


H = TypeVar("H", bound=OpenConnection)


def listening_socket(host: str, port: int) -> socket.socket:
    """
    A socket that listens at an address, "::" for all of them, also those of IPv4; port 0 takes a free one.

    Raises OSError if it cannot be bound.
    """
    is_dual = host == "::" and socket.has_dualstack_ipv6()
    if host == "::" and not is_dual:
        host = "0.0.0.0"  # noqa: S104 - a kernel without IPv6
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=is_dual)
    except OSError as error:
        raise OSError(error.errno, f"{host}, port {port}: {error.strerror}; name another port or address") from error
    listening.setblocking(False)
    return listening


async def accepted(listening: socket.socket) -> AsyncIterator[tuple[socket.socket, str]]:
    """Each new connection with the address of its peer, for ever."""
    loop, count = asyncio.get_running_loop(), 0
    while True:
        try:
            connection, address = await loop.sock_accept(listening)
        except OSError as error:
            LOG.warning("port %d cannot take a connection: %s", listening.getsockname()[1], error)
            await asyncio.sleep(_NO_ROOM_SECONDS)
            continue
        yield connection, address[0]
        count += 1
        if count % ACCEPTS_AT_ONCE == 0:
            await asyncio.sleep(_ACCEPTS_PAUSE_SECONDS)


def gives_way(peer: str, connected: Iterable[H], *, connections: int, per_peer: int) -> H | None:
    """
    The connection that gives way to a new one from `peer`; None if there is room for both.

    connected: the oldest first. connections: the limit for all addresses. per_peer: for one address.
    """
    open_ones = list(connected)
    counts = Counter(connection.peer for connection in open_ones)
    if counts[peer] >= per_peer:
        peers = {peer}
    elif len(open_ones) >= connections:
        most = max(counts.values())
        peers = {address for address, count in counts.items() if count == most}
    else:
        return None
    # The oldest one, not one without a request: that could be a new probe among old clients that read no answer.
    return next(connection for connection in open_ones if connection.peer in peers)
